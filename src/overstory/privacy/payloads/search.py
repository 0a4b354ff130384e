"""What the one answer of a search discloses: one of two values through one question, and the device's number.

A device answers one question by a plan, once, so nothing that it holds later is in any report. All that it ever sends
by the plan is one symbol of a k-ary channel. Which question it is follows from the device's number, and from no value,
so all that it sends costs the largest epsilon of a question, at most.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from overstory.privacy.histories.pairs import Worst, check_reports
from overstory.privacy.payloads.base import Attack, Disclosure, bounded
from overstory.privacy.payloads.shared import Constant, mixed, weighted
from overstory.privacy.terms import Terms
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import SymbolMechanism
from overstory.protocol.search.mechanism import SearchMechanism


@dataclass(frozen=True)
class SearchTerms(Terms):
    """The declared epsilon of one answer, at least that of every question."""

    kind: ClassVar[str] = "search"
    once: ClassVar[bool] = True
    epsilon: float
    most_values: int = 1  # the value of the one answer

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ParameterError(f"epsilon = {self.epsilon!r}: give a number above 0")

    @property
    def fresh(self) -> bool:
        """Never: the answer is drawn once."""
        return False

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of the answer."""
        return self.epsilon

    def _few(self, reports: int) -> float:  # noqa: ARG002 - there is one
        return self.epsilon_permanent

    def _worst(self, reports: int) -> Worst:  # noqa: ARG002 - there is one
        """Epsilon between any two histories: the answer of one value, or of nothing, against that of another."""
        return Worst(self.epsilon_permanent, exact=True)

    def change_leak(self, reports: int) -> float:
        """Return 0: a value that changes after the answer is in no report."""
        check_reports(reports, 2)
        return 0.0

    def canonical(self) -> dict[str, object]:
        """Return the terms as JSON values."""
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
        """The declared epsilon."""
        return SearchTerms(self.mechanism.epsilon)

    def attack(self, candidates: int) -> Attack:
        """Return the bounds on every mechanism of this epsilon."""
        return bounded(candidates, self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)

    @property
    def always(self) -> Constant:
        """The device's number, uniform among those that are asked."""
        first, *_, stop = self.mechanism.bounds
        return Constant.uniform(stop - first)

    @property
    def repeats(self) -> bool:
        """Never: there is one answer by a plan, and those by two plans are independent."""
        return False

    @property
    def payload(self) -> Constant:
        """The number, and the answer to the question that follows from it."""
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
        """Return the answer."""
        return f"answer {payload} to this device's one question"
