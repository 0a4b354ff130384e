"""What is drawn once, and sent as it is: an output of a value's set, a number's report, that of a level of a tree.

So is what a report of a set of items says: one item drawn from it, or a noisy bit for every item.

*A search.* A device answers one question by a plan, once, so nothing that it holds later is in any report. All that it
ever sends by the plan is one symbol of a k-ary channel. Which question it is follows from the device's number, and from
no value, so all that it sends costs the largest epsilon of a question, at most.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar

from overstory.privacy.histories.pairs import PRECISE, Worst, blocks_of, check_reports
from overstory.privacy.payloads.base import Attack, Disclosure, Evidence, Success, bounded, share, true_positives
from overstory.privacy.payloads.bits import BitDisclosure
from overstory.privacy.payloads.shared import Constant, log_sum, mixed, weighted
from overstory.privacy.payloads.symbols import SymbolDisclosure
from overstory.privacy.terms import Terms
from overstory.protocol.channels import ONE, as_decimal, log_ratio, round_up, weighted_sum
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.item_sets import ItemBitMechanism, PaddedSampling
from overstory.protocol.mechanisms.payloads import SymbolMechanism
from overstory.protocol.mechanisms.sets import SetMechanism, set_epsilon
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.search.mechanism import SearchMechanism


class OneRoundTerms(Terms):
    """One memoized output: all reports of a value are the same, and another one proves a change."""

    @property
    def fresh(self) -> bool:
        return False

    def _few(self, reports: int) -> float:  # noqa: ARG002 - however often it is sent
        return self.epsilon_permanent

    def change_leak(self, reports: int) -> float:
        check_reports(reports, 2)
        return math.inf


@dataclass(frozen=True)
class SetTerms(OneRoundTerms):
    """One memoized output per value: (K, c_set) of the set system, and P(in the value's set) over 2**32."""

    kind: ClassVar[str] = "sets"
    outputs: int
    own: int
    inside: int
    most_values: int | None

    @property
    def epsilon_permanent(self) -> float:
        return set_epsilon(self.outputs, self.own, Fraction(self.inside, ONE))

    def canonical(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


def between_outputs(first: Sequence[Hashable], second: Sequence[Hashable], epsilon: float) -> float:
    """Return epsilon between histories of outputs that are drawn once: of one pattern the sum over what differs."""
    blocks = blocks_of([(output, 0) for output in first], [(output, 0) for output in second])
    pairs = {(before, after) for ((before, _), (after, _)), _ in blocks}
    if any(len({pair[way] for pair in pairs}) < len(pairs) for way in (0, 1)):
        return math.inf
    return round_up(weighted_sum((1, Decimal(epsilon)) for before, after in pairs if before != after))


@dataclass(frozen=True)
class SetDisclosure(Disclosure[SetMechanism]):
    """What an output of a value's set discloses: it is drawn once, and sent as it is."""

    terms_type: ClassVar[type[Terms]] = SetTerms

    @property
    def terms(self) -> SetTerms:
        outputs, own, _ = self.mechanism.encoding.sizes
        return SetTerms(outputs, own, int(self.mechanism.inside * ONE), self.mechanism.domain_size)

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:  # noqa: ARG002 - all alike
        """Return epsilon: another pattern of values is seen at once, the same pattern is a sum over its values."""
        for value in (*first, *second):
            self.mechanism.encoding.contains(0, value)  # says so when it is outside the domain
        return between_outputs(first, second, self.mechanism.epsilon_report)

    def evidence(self, reports: Sequence[Report]) -> Evidence:
        if len({report.bits for report in reports}) > 1:
            raise ParameterError("no device sends these reports of one value: its output is always the same")
        total, own, _ = self.mechanism.encoding.sizes
        gain = log_ratio(self.mechanism.inside / own, (1 - self.mechanism.inside) / (total - own))
        return lambda value: gain if self.mechanism.supports(reports[0], value) else Decimal(0)

    def attack(self, candidates: int) -> Attack:
        """Return the attack on one output; exact where every output has a value of its own set."""
        total, own, shared = self.mechanism.encoding.sizes
        values, probability = self.mechanism.domain_size or candidates, self.mechanism.inside
        with localcontext(PRECISE):
            inside, outside = as_decimal(probability / own), as_decimal((1 - probability) / (total - own))
            guess = share(total * max(inside, outside), values)
            # Outputs of the one value's set alone, of the other's alone, of both, of neither.
            sizes = (own - shared, own - shared, shared, total - 2 * own + shared)
            likely = ((inside, outside), (outside, inside), (inside, inside), (outside, outside))
            atoms = [(size * this, size * that) for size, (this, that) in zip(sizes, likely, strict=True)]
        success = Success(guess, true_positives(atoms))
        return Attack(values, success, success, exact=self.mechanism.encoding.subset_size is not None)

    @property
    def payload(self) -> Constant:
        """The output: one of the value's set, or one of the others."""
        outputs, own, _ = self.mechanism.encoding.sizes
        inside = float(self.mechanism.inside)
        return weighted(((inside, own), (1 - inside, outputs - own))).times(self.mechanism.num_cohorts)


Pair = tuple[int, int]


@dataclass(frozen=True)
class NumberTerms(OneRoundTerms):
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

    def canonical(self) -> dict[str, Any]:
        return {"kind": self.kind, "odds": list(self.odds), "most_values": self.most_values}


@dataclass(frozen=True)
class NumberDisclosure(Disclosure[NumericRandomizer]):
    """What the report of a number discloses."""

    terms_type: ClassVar[type[Terms]] = NumberTerms

    @property
    def terms(self) -> NumberTerms:
        return NumberTerms(self.mechanism.odds.as_integer_ratio(), self.mechanism.num_positions)

    def attack(self, candidates: int) -> Attack:
        values = min(self.mechanism.num_positions, candidates)
        return bounded(values, self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)

    def words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - numbers have no labels
        return f"output {payload}, which counts as {float(self.mechanism.debias(payload)):.4g}"

    @property
    def payload(self) -> Constant:
        """The report of a position; of Duchi's two ends the middle's, which discloses most."""
        return weighted(self.mechanism.channel.groups)


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
        own, other = ([self.mechanism.response_key(value, 0) for value in history] for history in (first, second))
        return between_outputs(own, other, self.mechanism.epsilon_report)

    def evidence(self, reports: Sequence[Report]) -> Evidence:
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
        return self._inner.compared(before, after)


@dataclass(frozen=True)
class ItemBitDisclosure(BitDisclosure):
    """What the bits of a set disclose: of one-hot bits all that differs is how the sets can lie to each other."""

    mechanism: ItemBitMechanism

    @property
    def payload(self) -> Constant:
        """The bits of all items, of which a random part of `most` counts: no other set discloses more.

        A larger set's bits are a mixture of smaller ones', and no entropy is below the mean of those that are mixed.
        """
        encoding, channel = self.mechanism.encoding, self.mechanism.rounds.permanent
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

    def attack(self, candidates: int) -> Attack:
        items = self.mechanism.encoding.domain_size
        bounds = bounded(num_sets(items, candidates), self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)
        exact = super().attack(candidates)
        return replace(
            bounds,
            report=replace(bounds.report, true_positives=exact.report.true_positives),
            unchanged=replace(bounds.unchanged, true_positives=exact.unchanged.true_positives),
        )


@dataclass(frozen=True)
class SearchTerms(OneRoundTerms):
    """The declared epsilon of one answer, at least that of every question."""

    kind: ClassVar[str] = "search"
    once: ClassVar[bool] = True
    epsilon: float
    most_values: int = 1  # the value of the one answer

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ParameterError(f"epsilon = {self.epsilon!r}: give a number above 0")

    @property
    def epsilon_permanent(self) -> float:
        return self.epsilon

    def _worst(self, reports: int) -> Worst:  # noqa: ARG002 - there is one
        """Epsilon between any two histories: the answer of one value, or of nothing, against that of another."""
        return Worst(self.epsilon_permanent, exact=True)

    def change_leak(self, reports: int) -> float:
        """Return 0: a value that changes after the answer is in no report."""
        check_reports(reports, 2)
        return 0.0

    def canonical(self) -> dict[str, object]:
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class SearchDisclosure(Disclosure[SearchMechanism]):
    """What the answer to a device's own question discloses."""

    terms_type: ClassVar[type[Terms]] = SearchTerms

    @property
    def _mechanisms(self) -> list[SymbolMechanism]:
        mechanisms = (question.mechanism for question in self.mechanism.questions)
        return [mechanism for mechanism in mechanisms if isinstance(mechanism, SymbolMechanism)]

    @property
    def terms(self) -> SearchTerms:
        return SearchTerms(self.mechanism.epsilon)

    def attack(self, candidates: int) -> Attack:
        return bounded(candidates, self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)

    @property
    def always(self) -> Constant:
        first, *_, stop = self.mechanism.bounds
        return Constant.uniform(stop - first)

    @property
    def repeats(self) -> bool:
        """Never: there is one answer by a plan, and those by two plans are independent."""
        return False

    @property
    def payload(self) -> Constant:
        first, *stops = self.mechanism.bounds
        parts, start = [], first
        for mechanism, stop in zip(self._mechanisms, stops, strict=True):
            channel, symbols = mechanism.rounds.permanent, mechanism.payload_limit
            answer = weighted(((float(channel.keep), 1), (float(channel.other * (symbols - 1)), symbols - 1)))
            if stop > start:
                parts.append(((stop - start) / (stops[-1] - first), answer.times(stop - start)))
            start = stop
        return mixed(parts)

    def words(self, payload: int, labels: object = ()) -> str:  # noqa: ARG002 - an answer names no value
        return f"answer {payload} to this device's one question"
