"""What tells one history of values from another, exactly.

A history is what a device held, report by report. Its reports are not independent: those of one value share a
memoized permanent response, and those of two values do not. So a history is known by its pattern of equal and
different values as well as by its bits, and two histories are compared bit by bit, the bits being independent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.permanence import GooglePermanence
from overstory.protocol.probability import log_ratio, round_up, weighted_sum

# One position of the encoding over time: per report, which permanent response it is read through, and the true bit.
BitHistory = Sequence[tuple[Hashable, int]]
# Reports that neither history tells apart: (the first's entry, the second's), and how many of them there are.
Blocks = list[tuple[tuple[tuple[Hashable, int], tuple[Hashable, int]], int]]

MAX_OUTCOMES = 100_000


def bit_losses(rounds: Rounds, first: BitHistory, second: BitHistory) -> tuple[Decimal, Decimal]:
    """Worst log ratios at one position: (first against second, second against first).

    Reports with the same entry in both histories are exchangeable, so an outcome is how many of each block of them
    are 1, and its probability, up to a factor common to both histories, is a product over permanent responses of
    ``sum over r of P(r | bit) prod over blocks of P(1|r)^ones P(0|r)^zeros``. Exact, in fractions.

    Raises
    ------
    ParameterError
        When the histories differ in length, are empty, or have too many outcomes to enumerate.
    """
    if len(first) != len(second) or not first:
        raise ParameterError(f"histories of {len(first)} and {len(second)} reports: give two of one length, not empty")
    blocks: Blocks = list(Counter(zip(first, second, strict=True)).items())
    if math.prod(size + 1 for _, size in blocks) > MAX_OUTCOMES:
        raise ParameterError(f"histories of {len(first)} reports have more than {MAX_OUTCOMES} outcomes: shorten them")
    ahead = behind = (Fraction(1), Fraction(1))
    for one, other in _outcomes(rounds, blocks):
        ahead = _larger(ahead, (one, other))
        behind = _larger(behind, (other, one))
    return log_ratio(*ahead), log_ratio(*behind)


def epsilon_between(mechanism: BitMechanism, first: Sequence[Any], second: Sequence[Any], *, cohort: int = 0) -> float:
    """Exact epsilon between two histories of values of one device, rounded up.

    Parameters
    ----------
    mechanism
        The mechanism.
    first, second
        The value of each report, in order.
    cohort
        The device's cohort.

    Raises
    ------
    ParameterError
        When the histories differ in length or are too long to enumerate, or a value is outside the domain.

    Examples
    --------
    Two reports of one value against two of another, and against a change, which is more visible:

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> basic = mechanism("basic-rappor", domain_size=64)
    >>> round(epsilon_between(basic, [1, 1], [2, 2]), 3)
    1.009
    >>> round(epsilon_between(basic, [1, 1], [1, 2]), 3)
    4.305
    """
    histories = [[(_memo(mechanism, v, cohort), mechanism.encode(v, cohort)) for v in h] for h in (first, second)]
    patterns = Counter(
        tuple(tuple((memo, bits >> i & 1) for memo, bits in history) for history in histories)
        for i in range(mechanism.encoding.num_bits)
    )
    losses = [(bit_losses(mechanism.rounds, *pattern), bits) for pattern, bits in patterns.items()]
    return round_up(max(weighted_sum((bits, loss[way]) for loss, bits in losses) for way in (0, 1)))


def redraws_for_equal_bits(mechanism: BitMechanism) -> bool:
    """Whether two values with the same true bits have permanent responses of their own.

    Google's derivation takes the bits for key, so there such values share one response.
    """
    return not isinstance(mechanism.permanence, GooglePermanence)


def _memo(mechanism: BitMechanism, value: Any, cohort: int) -> Hashable:
    memo: Hashable = value if redraws_for_equal_bits(mechanism) else mechanism.encode(value, cohort)
    return memo


def _outcomes(rounds: Rounds, blocks: Blocks) -> Iterator[tuple[Fraction, Fraction]]:
    """Probabilities of every outcome under the first and the second history, up to a common factor."""
    for ones in product(*(range(size + 1) for _, size in blocks)):
        seen = [(entries, count, size - count) for (entries, size), count in zip(blocks, ones, strict=True)]
        yield (
            _probability(rounds, [(entries[0], yes, no) for entries, yes, no in seen]),
            _probability(rounds, [(entries[1], yes, no) for entries, yes, no in seen]),
        )


def _probability(rounds: Rounds, seen: list[tuple[tuple[Hashable, int], int, int]]) -> Fraction:
    """Probability of the ones and zeros seen through each permanent response, given each one's true bit."""
    tallies: dict[tuple[Hashable, int], tuple[int, int]] = {}
    for entry, yes, no in seen:
        before = tallies.get(entry, (0, 0))
        tallies[entry] = before[0] + yes, before[1] + no
    return math.prod((_mixture(rounds, bit, *tally) for (_, bit), tally in tallies.items()), start=Fraction(1))


def _mixture(rounds: Rounds, bit: int, yes: int, no: int) -> Fraction:
    """P(these reports | true bit): the permanent bit is drawn once, then seen `yes + no` times."""
    later = rounds.instantaneous
    permanent_one = _one(rounds.permanent, bit)
    given_one = later.keep_one**yes * (1 - later.keep_one) ** no
    given_zero = later.raise_zero**yes * (1 - later.raise_zero) ** no
    return permanent_one * given_one + (1 - permanent_one) * given_zero


def _one(channel: BinaryChannel, bit: int) -> Fraction:
    return channel.keep_one if bit else channel.raise_zero


def _larger(best: tuple[Fraction, Fraction], new: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    """Return the pair with the larger quotient; an outcome impossible under both histories counts for nothing."""
    if not any(new):
        return best
    return new if new[0] * best[1] > best[0] * new[1] else best
