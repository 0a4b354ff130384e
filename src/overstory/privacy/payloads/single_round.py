"""What is drawn once, and sent as it is: a number's report, and what a report of a set of items says.

The latter is one item drawn from the set, or a noisy bit for every item.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from overstory.privacy.payloads.base import Attack, PayloadTerms, bounded, terms_class
from overstory.privacy.payloads.bits import BitTerms
from overstory.privacy.payloads.shared import Constant, log_sum, weighted
from overstory.privacy.terms import OneRoundTerms
from overstory.protocol.channels import log_ratio, round_up
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.privacy.payloads.shuffle import Blanket

Pair = tuple[int, int]


@dataclass(frozen=True)
class NumberTerms(OneRoundTerms, PayloadTerms):
    """One memoized report per position of a number, or per set: the largest ratio of its probabilities, exact."""

    kind: ClassVar[str] = "numbers"
    odds: Pair
    most_values: int | None

    def __post_init__(self) -> None:
        over, under = self.odds
        if not over >= under > 0:
            raise ParameterError(f"odds = {over}/{under}: give the larger probability over the smaller")

    @property
    def epsilon_permanent(self) -> float:
        return round_up(log_ratio(Fraction(*self.odds), Fraction(1)))

    @classmethod
    def of(cls, mechanism: Any) -> NumberTerms:
        return NumberTerms(mechanism.odds.as_integer_ratio(), mechanism.num_positions)

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        return bounded(min(mechanism.num_positions, candidates), mechanism)

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        return weighted(mechanism.channel.groups)

    @classmethod
    def blankets(cls, mechanism: Any, periods: int | None, *, in_cohort: bool) -> list[Blanket]:  # noqa: ARG003 - one output
        from overstory.privacy.payloads.shuffle import of_windows

        return of_windows(mechanism.channel)


class _OfSets(PayloadTerms):
    """A report of a set: the bounds among all sets, or among the candidates; no blanket is computed."""

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        return bounded(min(1 << min(mechanism.encoding.domain_size, 60), candidates), mechanism)

    @classmethod
    def blankets(cls, mechanism: Any, periods: int | None, *, in_cohort: bool) -> list[Blanket]:  # noqa: ARG003
        return []


class ItemTerms(_OfSets, NumberTerms):
    """The report of one item of a set: the odds, exact; no two sets share a response, and nobody can count the sets."""

    @classmethod
    def of(cls, mechanism: Any) -> NumberTerms:
        return NumberTerms(mechanism.odds.as_integer_ratio(), None)

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        """Return that of the set that discloses most: of GRR exact, of other oracles with the item that was drawn."""
        encoding, inner = mechanism.encoding, mechanism.inner
        drawn = encoding.length, max(encoding.length, encoding.domain_size)
        if not inner.encoding.direct:
            outputs = Constant.uniform(inner.payload_limit * inner.num_cohorts)
            return min(
                terms_class(inner).permanent_response(inner).times(max(drawn)),
                outputs,
                key=lambda constant: constant.bits,
            )
        # P(y) is q + (p - q) / s for each of the s symbols of which one is drawn, and q for all others.
        kept, other = float(inner.p_star - inner.q_star), float(inner.q_star)
        responses = (
            weighted(((s * other + kept, s), ((encoding.num_symbols - s) * other, encoding.num_symbols - s)))
            for s in drawn
        )
        return max(responses, key=lambda constant: constant.bits)


class ItemBitTerms(_OfSets, BitTerms):
    """The bits of a set: of one-hot bits all that differs is how the sets can lie to each other."""

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        """Return the bits of all items: no other set discloses more, as larger ones' are mixtures of smaller ones'."""
        encoding, channel = mechanism.encoding, mechanism.rounds.permanent
        size, most = encoding.domain_size, encoding.most
        one, zero = float(channel.keep_one), float(channel.raise_zero)
        raised, lowered = math.log(one / zero), math.log((1 - one) / (1 - zero))
        groups = []
        for ones in range(size + 1):
            # The chance that i bits of the part are among the ones, and what they add to the chance of the pattern.
            parts = {i: math.comb(ones, i) * math.comb(size - ones, most - i) for i in range(most + 1)}
            lifts = (
                math.log(ways / math.comb(size, most)) + i * raised + (most - i) * lowered
                for i, ways in parts.items()
                if ways
            )
            each = ones * math.log(zero) + (size - ones) * math.log(1 - zero) + log_sum(lifts)
            groups.append((math.log(math.comb(size, ones)), each))
        return Constant(tuple(groups))

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        bounds, exact = super().attack(mechanism, candidates), BitTerms.attack(mechanism, candidates)
        return replace(
            bounds,
            report=replace(bounds.report, true_positives=exact.report.true_positives),
            unchanged=replace(bounds.unchanged, true_positives=exact.unchanged.true_positives),
        )
