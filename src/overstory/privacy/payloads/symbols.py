"""What one output discloses: a symbol, through two k-ary channels; an output of a set, a number, an item of a set.

Of several mechanisms of which a device uses one, as its secret and not its value says (divided tables, levels of a
tree), every epsilon is the largest of theirs; so it is of a search, whose device answers one question, once.

Any two histories of n reports, where symbols are memoized, are exact for a few reports and bounded for any number.
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
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Final

from overstory.privacy.shared import NO_LIKENESS, Constant, Likeness, log_sum, mixed, weighted
from overstory.privacy.terms import (
    PRECISE,
    SLACK,
    Attack,
    Evidence,
    OfSets,
    PayloadTerms,
    Success,
    Worst,
    bounded,
    share,
    terms_class,
    true_positives,
)
from overstory.protocol.channels import (
    ONE,
    SymbolChannel,
    SymbolRounds,
    as_decimal,
    log_ratio,
    mix,
    power,
    round_up,
)
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.protocol.kinds.base import Report

MOST_SYMBOLS: Final = 5  # up to as many reports the worst pair of histories is searched
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
    """Return the least and largest probability of counts; `chances`: P1(z|s), P1(s|s) - P1(z|s), P1(z|nothing)."""
    (other, alpha, even), counts = chances, held + foreign
    shares = list(product(*(range(count + 1) for count in counts)))
    gained = {share: sum(gains[times] for times in share) for share in shares}
    reached = {counts: (Decimal(1), Decimal(1))}
    for symbol in range(-1, min(values, len(held) + sum(counts))):  # all symbols that are not seen are alike
        after: dict[Counts, tuple[Decimal, Decimal]] = {}
        for left, (small, large) in reached.items():
            for split in product(*(range(count + 1) for count in left)):
                # f_s(v) = 1 + sum over z of P1(z|s) (R^v_z - 1), with P1(s|s) = other + alpha.
                seen = 1 + (even if symbol < 0 else other) * gained[split]
                if 0 <= symbol < len(held):
                    seen += alpha * gains[split[symbol]]
                rest = tuple(count - taken for count, taken in zip(left, split, strict=True))
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
    most = log_sum((math.log1p(-keep), math.log(keep) + reports * gain))
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


class OutputTerms(PayloadTerms):
    """One of K outputs: a value owns some, which are likelier than the others."""

    blankets: ClassVar[str] = "outputs"

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        (outputs, own, shared), values = mechanism.encoding.sizes, mechanism.domain_size or candidates
        # Outputs that a value owns, and those that none does; hash functions that reach the most are the worst.
        reached = min(outputs, values * own)
        # Outputs of the one value alone, of the other's alone, of both, of neither.
        sizes = own - shared, own - shared, shared, outputs - 2 * own + shared
        successes = []
        for permanent in (False, True):
            with localcontext(PRECISE):
                keep, other = map(as_decimal, mechanism.chances(permanent=permanent))
                guess = share(reached * max(keep, other) + (outputs - reached) * other, values)
                likely = ((keep, other), (other, keep), (keep, keep), (other, other))
                atoms = [(size * this, size * that) for size, (this, that) in zip(sizes, likely, strict=True)]
            successes.append(Success(guess, true_positives(atoms)))
        single, ever = successes
        return Attack(values, single, ever, exact=mechanism.encoding.guessed_exactly)

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        (keep, other), (outputs, own, _) = mechanism.chances(permanent=True), mechanism.encoding.sizes
        groups = ((float(own * keep), own), (float((outputs - own) * other), outputs - own))
        return weighted(groups).times(mechanism.num_cohorts)


@dataclass(frozen=True)
class SymbolTerms(OutputTerms):
    """Two k-ary channels: the probability of keeping, over 2**32, apart from the uniform draw."""

    kind: ClassVar[str] = "symbols"
    num_symbols: int
    permanent: int
    instantaneous: int
    most_values: int | None

    @property
    def rounds(self) -> SymbolRounds:
        alphas = Fraction(self.permanent, ONE), Fraction(self.instantaneous, ONE)
        return SymbolRounds(*(SymbolChannel(self.num_symbols, alpha) for alpha in alphas))

    @property
    def fresh(self) -> bool:
        return self.permanent == ONE

    @property
    def epsilon_permanent(self) -> float:
        return self.rounds.epsilon_permanent

    def _few(self, reports: int) -> float:
        return self.rounds.epsilon(reports=reports)

    def _worst(self, reports: int) -> Worst:
        if self.instantaneous == ONE:
            return super()._worst(reports)
        return worst_of_symbols(self.rounds, self.most_values or self.num_symbols, reports)

    @classmethod
    def of(cls, mechanism: Any) -> SymbolTerms:
        rounds, symbols = mechanism.rounds, mechanism.encoding.num_symbols
        permanent, instantaneous = int(rounds.permanent.alpha * ONE), int(rounds.instantaneous.alpha * ONE)
        return SymbolTerms(symbols, permanent, instantaneous, min(symbols, mechanism.domain_size or symbols))

    @classmethod
    def likeness(cls, mechanism: Any) -> Likeness:
        return NO_LIKENESS if mechanism.repeats else Likeness(symbol=mechanism.rounds)

    @classmethod
    def evidence(cls, mechanism: Any, reports: Sequence[Report]) -> Evidence:
        rounds, cohort, n = mechanism.rounds, reports[0].cohort, len(reports)
        counts = Counter(report.bits for report in reports)
        later, size = rounds.instantaneous, mechanism.payload_limit
        if max(counts) >= size:
            raise ParameterError(f"a {mechanism.name} report is a symbol of 0 .. {size - 1}, not {max(counts)}")
        with localcontext(PRECISE):
            seen = {z: power(later.keep, count) * power(later.other, n - count) for z, count in counts.items()}
            unseen = power(later.other, n)
            # Sum over all permanent symbols z of prod_i P2(report_i | z); unseen ones are alike.
            somewhere = sum(seen.values(), Decimal(size - len(seen)) * unseen)
        if somewhere == 0:
            raise ParameterError("no device sends these reports of one value: they differ without a cause")

        def evidence(value: Any) -> Decimal:
            here = seen.get(mechanism.encode(value, cohort), unseen)
            with localcontext(PRECISE):
                # P1(z|x) is `other` for every z, and alpha more for z = x.
                return log_ratio(mix(rounds.permanent.alpha, here, somewhere / size), Fraction(1))

        return evidence


@dataclass(frozen=True)
class OddsTerms(PayloadTerms):
    """One memoized report: the largest ratio of its probabilities under two values, exact."""

    kind: ClassVar[str] = "odds"
    odds: tuple[int, int]
    most_values: int | None

    def __post_init__(self) -> None:
        over, under = self.odds
        if not over >= under > 0:
            raise ParameterError(f"odds = {over}/{under}: give the larger probability over the smaller")

    @property
    def epsilon_permanent(self) -> float:
        return round_up(log_ratio(Fraction(*self.odds), Fraction(1)))

    @classmethod
    def of(cls, mechanism: Any) -> OddsTerms:
        return OddsTerms(mechanism.odds.as_integer_ratio(), mechanism.domain_size)


class SetTerms(OutputTerms, OddsTerms):
    """An output of a set system's."""


class NumberTerms(OddsTerms):
    """A number's: each position has a report of its own."""

    blankets: ClassVar[str] = "windows"

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        return bounded(min(mechanism.domain_size, candidates), mechanism)

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        return weighted(mechanism.channel.groups)


class SplitTerms(OddsTerms):
    """Those of several mechanisms of one round, of which a device uses one: the worst of them."""

    @classmethod
    def of(cls, mechanism: Any) -> OddsTerms:
        return OddsTerms(mechanism.odds.as_integer_ratio(), max(part.domain_size for part in mechanism.parts))

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        return mixed((1 / len(mechanism.parts), terms_class(part).unchanged(part)) for part in mechanism.parts)


class SearchTerms(OddsTerms):
    """The one answer of a search, whichever the question."""

    kind: ClassVar[str] = "search"
    once: ClassVar[bool] = True

    def _worst(self, reports: int) -> Worst:  # noqa: ARG002 - there is one
        """Epsilon between any two histories: the answer of one value, or of nothing, against that of another."""
        return Worst(self.epsilon_permanent, exact=True)

    @classmethod
    def of(cls, mechanism: Any) -> SearchTerms:
        return SearchTerms(mechanism.odds.as_integer_ratio(), 1)  # of one value


class ItemTerms(OfSets, OddsTerms):
    """The report of one item of a set: no two sets share a response, and nobody can count the sets."""

    @classmethod
    def of(cls, mechanism: Any) -> OddsTerms:
        return OddsTerms(mechanism.odds.as_integer_ratio(), None)

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        """Return that of the set of all items, the most even one: of GRR exact, else with the item that was drawn."""
        inner, items = mechanism.inner, mechanism.encoding.domain_size
        if not inner.encoding.direct:
            outputs = Constant.uniform(inner.payload_limit * inner.num_cohorts)
            with_item = terms_class(inner).permanent_response(inner).times(items)
            return min(with_item, outputs, key=lambda constant: constant.bits)
        # P(y) is q + (p - q) / s for each of the s symbols of which one is drawn, and q for all others.
        kept, other, dummies = float(inner.p_star - inner.q_star), float(inner.q_star), mechanism.encoding.num_dummies
        return weighted(((items * other + kept, items), (dummies * other, dummies)))
