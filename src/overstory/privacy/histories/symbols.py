"""Any two histories of n reports, where symbols are memoized: exact for a few reports, and a bound for any number.

The two histories are chosen freely, so epsilon is the worst over what is seen, y, of the largest probability that a
history gives y over the smallest. Through the permanent response of one symbol s, v_z reports z have, up to a factor
that all histories share, the probability

    f_s(v) = 1 + sum over z of P1(z|s) (R^v_z - 1),     R = P2(z|z) / P2(y|z) >= 1.

*Exact.* y is given by how often each symbol is seen; for each such y, the largest and the smallest product of f over
all ways to share the reports among the symbols a device can hold, and *nothing* to report, a uniform symbol of its own.

*Bound.* With k = P1(s|s), f_s(v) is at most the product of 1 + k (R^v_z - 1) over z, and that for n reports at most
1 + k (R^n - 1). By the inequality of the means f_s(v) is at least e^-KL(w, P1(.|s)) times R to the power of the sum of
w_z v_z, for any weights w. docs/explanation/privacy.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from itertools import product
from typing import Final

from overstory.privacy.histories.pairs import PRECISE, SLACK, Worst
from overstory.protocol.probability import log_ratio, power, round_up
from overstory.protocol.sampling import SymbolRounds

MOST_SYMBOLS: Final = 5
"""Up to as many reports the worst pair of histories is searched."""
TILTS: Final = 16

Counts = tuple[int, ...]


def worst_of_symbols(rounds: SymbolRounds, most_values: int, reports: int) -> Worst:
    """Return epsilon between any two histories of `reports` reports, at least two, through memoized symbols."""
    if reports > MOST_SYMBOLS:
        return Worst(_bound(rounds, most_values, reports), exact=False)
    worst = Decimal(1)
    with localcontext(PRECISE):
        # R = P2(z|z) / P2(y|z), and R^v - 1 for every number of reports v.
        odds = power(rounds.instantaneous.keep, 1) / power(rounds.instantaneous.other, 1)
        gains = [odds**times - 1 for times in range(reports + 1)]
        first = rounds.permanent
        chances = power(first.other, 1), power(first.alpha, 1), 1 / Decimal(first.domain_size)
        for held, foreign in _seen(reports, most_values, first.domain_size - most_values):
            small, large = _extremes(held, foreign, most_values, chances, gains)
            worst = max(worst, large / small)
    return Worst(round_up(log_ratio(worst, Decimal(1))), exact=True)


def _seen(reports: int, values: int, foreign: int) -> Iterator[tuple[Counts, Counts]]:
    """How often each symbol is seen: those that a device can hold, and those that only noise makes."""
    for ours in range(reports + 1):
        for held in _partitions(ours, ours):
            if len(held) <= values:
                yield from ((held, rest) for rest in _partitions(reports - ours, reports) if len(rest) <= foreign)


def _partitions(total: int, largest: int) -> Iterator[Counts]:
    if not total:
        yield ()
    for first in range(min(total, largest), 0, -1):
        yield from ((first, *rest) for rest in _partitions(total - first, first))


def _extremes(
    held: Counts, foreign: Counts, values: int, chances: tuple[Decimal, Decimal, Decimal], gains: list[Decimal]
) -> tuple[Decimal, Decimal]:
    """Return the smallest and the largest probability of these counts, by the symbols that a device can hold.

    `chances` are P1(z | s), what P1(s | s) has more, and P1(z | nothing): nothing to report is a uniform symbol.
    """
    (other, alpha, even), counts = chances, held + foreign
    shares = list(product(*(range(count + 1) for count in counts)))
    gained = {share: sum(gains[times] for times in share) for share in shares}
    reached = {counts: (Decimal(1), Decimal(1))}
    for symbol in range(-1, min(values, len(held) + sum(counts))):  # all symbols that are not seen are alike
        after: dict[Counts, tuple[Decimal, Decimal]] = {}
        for left, (small, large) in reached.items():
            for share in product(*(range(count + 1) for count in left)):
                # f_s(v) = 1 + sum over z of P1(z|s) (R^v_z - 1), with P1(s|s) = other + alpha.
                seen = 1 + (even if symbol < 0 else other) * gained[share]
                if 0 <= symbol < len(held):
                    seen += alpha * gains[share[symbol]]
                rest = tuple(count - taken for count, taken in zip(left, share, strict=True))
                extremes = after.get(rest)
                low, high = small * seen, large * seen
                after[rest] = (min(low, extremes[0]), max(high, extremes[1])) if extremes else (low, high)
        reached = after
    return reached[(0,) * len(counts)]


def _bound(rounds: SymbolRounds, most_values: int, reports: int) -> float:
    size, first = rounds.permanent.domain_size, rounds.permanent
    keep, other, odds = float(first.keep), float(first.other), rounds.instantaneous
    gain = float(log_ratio(odds.keep, odds.other))
    # The largest: f_s <= 1 - k + k R^n, k = P1(s|s).
    most = _log_sum(math.log1p(-keep), math.log(keep) + reports * gain)
    blocks, floors = min(most_values + 1, reports), [other * reports * gain]
    for i in range(1, TILTS + 1):
        unkept = other + (1 / size - other) * i / TILTS
        # The smallest: weights w between P1(.|s) and the uniform ones cost KL(w, P1), once for each value.
        kept = max(1 - (size - 1) * unkept, 1 / size)
        apart = kept * math.log(kept / keep) + (size - 1) * unkept * math.log(unkept / other)
        apart = max(apart, math.log(size) + kept * math.log(kept) + (size - 1) * unkept * math.log(unkept), 0.0)
        # ln f_s >= sum of w_z v_z ln R - KL(w, P1), by the inequality of the means.
        floors.append(unkept * reports * gain - blocks * apart)
    return math.nextafter((most - max(floors)) * (1 + SLACK) + 1e-13 * reports, math.inf)


def _log_sum(first: float, second: float) -> float:
    top = max(first, second)
    return top + math.log(math.exp(first - top) + math.exp(second - top))
