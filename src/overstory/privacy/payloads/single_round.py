"""What is drawn once, and sent as it is: an output of a value's set, a number's report, that of a level of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar

from overstory.privacy.histories.pairs import PRECISE, blocks_of, check_reports
from overstory.privacy.payloads.base import Attack, Disclosure, Evidence, Success, bounded, share, true_positives
from overstory.privacy.payloads.shared import Constant, weighted
from overstory.privacy.terms import Terms
from overstory.protocol.channels import ONE, as_decimal, log_ratio, round_up, weighted_sum
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.sets import SetMechanism, set_epsilon
from overstory.protocol.numeric.randomizer import NumericRandomizer


@dataclass(frozen=True)
class SetTerms(Terms):
    """One memoized output per value: (K, c_set) of the set system, and P(in the value's set) over 2**32."""

    kind: ClassVar[str] = "sets"
    outputs: int
    own: int
    inside: int
    most_values: int | None

    @property
    def fresh(self) -> bool:
        """Never: the output is memoized."""
        return False

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of one report: all others are the same."""
        return set_epsilon(self.outputs, self.own, Fraction(self.inside, ONE))

    def _few(self, reports: int) -> float:  # noqa: ARG002 - one memoized output, however often it is sent
        return self.epsilon_permanent

    def change_leak(self, reports: int) -> float:
        """Infinite: one value always sends one output."""
        check_reports(reports, 2)
        return float("inf")

    def canonical(self) -> dict[str, Any]:
        """Return the terms as JSON values."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class SetDisclosure(Disclosure[SetMechanism]):
    """What an output of a value's set discloses: it is drawn once, and sent as it is."""

    terms_type: ClassVar[type[Terms]] = SetTerms

    @property
    def terms(self) -> SetTerms:
        """The sizes of the space and of a value's set, and the probability of the set."""
        outputs, own, _ = self.mechanism.encoding.sizes
        return SetTerms(outputs, own, int(self.mechanism.inside * ONE), self.mechanism.domain_size)

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:  # noqa: ARG002 - all alike
        """Return epsilon: another pattern of values is seen at once, the same pattern is a sum over its values."""
        for value in (*first, *second):
            self.mechanism.encoding.contains(0, value)  # says so when it is outside the domain
        responses = {entries for entries, _ in blocks_of([(v, 0) for v in first], [(v, 0) for v in second])}
        pairs = [(first, second) for (first, _), (second, _) in responses]
        if len({first for first, _ in pairs}) < len(pairs) or len({second for _, second in pairs}) < len(pairs):
            return float("inf")
        loss = Decimal(self.mechanism.epsilon_report)
        return round_up(weighted_sum((1, loss) for first, second in pairs if first != second))

    def evidence(self, reports: Sequence[Report]) -> Evidence:
        """Return the evidence of the one output that all reports are."""
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
class NumberTerms(Terms):
    """One memoized report per position of a number, or per set: the largest ratio of its probabilities, exact."""

    kind: ClassVar[str] = "numbers"
    odds: Pair
    most_values: int | None

    def __post_init__(self) -> None:
        over, under = self.odds
        if not over >= under > 0:
            raise ParameterError(f"odds = {over}/{under}: give the larger probability over the smaller")

    @property
    def fresh(self) -> bool:
        """Never: the report of a position is memoized."""
        return False

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of one report: all others are the same."""
        return round_up(log_ratio(Fraction(*self.odds), Fraction(1)))

    def _few(self, reports: int) -> float:  # noqa: ARG002 - one memoized report, however often it is sent
        return self.epsilon_permanent

    def change_leak(self, reports: int) -> float:
        """Infinite: one position always sends one report."""
        check_reports(reports, 2)
        return float("inf")

    def canonical(self) -> dict[str, Any]:
        """Return the terms as JSON values."""
        return {"kind": self.kind, "odds": list(self.odds), "most_values": self.most_values}


@dataclass(frozen=True)
class NumberDisclosure(Disclosure[NumericRandomizer]):
    """What the report of a number discloses."""

    terms_type: ClassVar[type[Terms]] = NumberTerms

    @property
    def terms(self) -> NumberTerms:
        """The odds, exact."""
        return NumberTerms(self.mechanism.odds.as_integer_ratio(), self.mechanism.num_positions)

    def attack(self, candidates: int) -> Attack:
        """Return the bounds on every mechanism of this epsilon, among so many positions."""
        values = min(self.mechanism.num_positions, candidates)
        return bounded(values, self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)

    def words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - numbers have no labels
        """Return the number that the report counts as, which may be far outside the range."""
        return f"output {payload}, which counts as {float(self.mechanism.debias(payload)):.4g}"

    @property
    def payload(self) -> Constant:
        """The report of a position; of Duchi's two ends the middle's, which discloses most."""
        return weighted(self.mechanism.report_groups)
