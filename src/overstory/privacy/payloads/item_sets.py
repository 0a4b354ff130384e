"""What reports of a set of items disclose: one item drawn from it, or a noisy bit for every item."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

from overstory.privacy.histories.pairs import blocks_of
from overstory.privacy.payloads.base import Attack, Disclosure, Evidence, bounded
from overstory.privacy.payloads.bits import BitDisclosure
from overstory.privacy.payloads.shared import Constant, weighted
from overstory.privacy.payloads.single_round import NumberTerms
from overstory.privacy.payloads.symbols import SymbolDisclosure
from overstory.privacy.terms import Terms
from overstory.protocol.channels import log_ratio, round_up, weighted_sum
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.item_sets import ItemBitMechanism, PaddedSampling


def num_sets(items: int, candidates: int) -> int:
    """Return how many sets there are, or the number of candidates where that is smaller."""
    return min(1 << min(items, 60), candidates)


@dataclass(frozen=True)
class ItemDisclosure(Disclosure[PaddedSampling]):
    """What the report of one item of a set discloses: it is drawn once, and sent as it is."""

    terms_type: ClassVar[type[Terms]] = NumberTerms

    @property
    def _inner(self) -> Disclosure[Any]:
        """What the oracle's report of one item discloses."""
        kinds: dict[str, type[Disclosure[Any]]] = {"bits": BitDisclosure, "symbols": SymbolDisclosure}
        return kinds[self.mechanism.inner.payload](self.mechanism.inner)

    @property
    def terms(self) -> NumberTerms:
        """The odds, exact; no two sets share a response, and there are more sets than anybody can count."""
        return NumberTerms(self.mechanism.odds.as_integer_ratio(), None)

    def attack(self, candidates: int) -> Attack:
        """Return the bounds on every mechanism of this epsilon, among `candidates` sets."""
        values = num_sets(self.mechanism.encoding.domain_size, candidates)
        return bounded(values, self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)

    @property
    def payload(self) -> Constant:
        """The response to the set that discloses most: of GRR exact, of other oracles with the item that was drawn."""
        encoding, inner = self.mechanism.encoding, self.mechanism.inner
        drawn = encoding.length, max(encoding.length, encoding.domain_size)
        if inner.name != "grr":
            outputs = Constant.uniform(inner.payload_limit * inner.num_cohorts)
            return min(self._inner.payload.times(max(drawn)), outputs, key=lambda constant: constant.bits)
        # P(y) is q + (p - q) / s for each of the s symbols of which one is drawn, and q for all others.
        kept, other = float(inner.p_star - inner.q_star), float(inner.q_star)
        responses = (
            weighted(((s * other + kept, s), ((encoding.num_symbols - s) * other, encoding.num_symbols - s)))
            for s in drawn
        )
        return max(responses, key=lambda constant: constant.bits)

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:  # noqa: ARG002 - all alike
        """Return a bound: another pattern of sets is seen at once, the same pattern is a sum over its sets."""
        key = self.mechanism.response_key
        histories = [[(key(value, 0), 0) for value in history] for history in (first, second)]
        pairs = {(before, after) for entries, _ in blocks_of(*histories) for (before, _), (after, _) in [entries]}
        if any(len({pair[way] for pair in pairs}) < len(pairs) for way in (0, 1)):
            return math.inf
        loss = Decimal(self.mechanism.epsilon_report)
        return round_up(weighted_sum((1, loss) for before, after in pairs if before != after))

    def evidence(self, reports: Sequence[Report]) -> Evidence:
        """Return the evidence of the one response that all reports are."""
        if len({report.bits for report in reports}) > 1:
            raise ParameterError("no device sends these reports of one set: its response is always the same")
        nobody = self.mechanism.likelihood(reports[0], ())
        return lambda value: log_ratio(self.mechanism.likelihood(reports[0], value), nobody)

    def words(self, payload: int, labels: Sequence[str] = ()) -> str:
        """Return the oracle's words: an item's name, or that it is padding, where it reports one symbol."""
        encoding = self.mechanism.encoding
        padding = ["no item (padding)"] * encoding.num_dummies
        return self._inner.words(payload, [*labels, *padding] if labels else ())

    def compared(self, before: int, after: int) -> str:
        """Return the oracle's words."""
        return self._inner.compared(before, after)


@dataclass(frozen=True)
class ItemBitDisclosure(BitDisclosure):
    """What the bits of a set disclose: of one-hot bits all that differs is how the sets can lie to each other."""

    mechanism: ItemBitMechanism

    def attack(self, candidates: int) -> Attack:
        """Return the exact true positives between the two sets furthest apart, and a bound on the guess among sets."""
        items = self.mechanism.encoding.domain_size
        bounds = bounded(num_sets(items, candidates), self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)
        exact = super().attack(candidates)
        return replace(
            bounds,
            report=replace(bounds.report, true_positives=exact.report.true_positives),
            unchanged=replace(bounds.unchanged, true_positives=exact.unchanged.true_positives),
        )
