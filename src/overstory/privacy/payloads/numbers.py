"""What a number's report discloses, and that of a level of a tree: both are drawn once and sent as they are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from overstory.privacy.histories.pairs import check_reports
from overstory.privacy.payloads.base import Attack, Disclosure, bounded
from overstory.privacy.payloads.shared import Constant, weighted
from overstory.privacy.terms import Terms
from overstory.protocol.channels import log_ratio, round_up
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric.randomizer import NumericRandomizer

Pair = tuple[int, int]


@dataclass(frozen=True)
class NumberTerms(Terms):
    """One memoized report per position of a number: the largest ratio of its probabilities, exp(epsilon), exact."""

    kind: ClassVar[str] = "numbers"
    odds: Pair
    most_values: int

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

    @property
    def payload(self) -> Constant:
        """The report of a position; of Duchi's two ends the middle's, which tells most."""
        return weighted(self.mechanism.report_groups)
