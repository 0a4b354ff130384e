"""Several mechanisms of which a device uses one: the public part of its report says which, whatever it holds.

Tables of which a device answers one, levels of a tree, questions of a search. Which part answers follows from the
report's cohort alone, so a report reveals what the part's own reveals, and epsilon is the worst part's, exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from overstory.protocol.encodings.base import check_cohort
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism, Report
from overstory.protocol.sampling import Draw, Entropy


class Split(LocalRandomizer):
    """The part that answers follows from the cohort; what it answers about is a projection of the value."""

    terms_place: ClassVar[str] = "privacy.payloads.combined:SeveralTerms"

    if TYPE_CHECKING:

        @property
        def parts(self) -> tuple[Mechanism, ...]:
            """The mechanisms, of which a device uses one."""

    @abstractmethod
    def project(self, value: Any, place: int) -> Any:
        """Return what part number `place` is asked about a value."""

    def place_of(self, cohort: int) -> tuple[int, int]:
        """Return the number of the part that answers in a cohort, and its own cohort."""
        check_cohort(cohort, self.num_cohorts)
        if self.parts[cohort].num_cohorts > 1:
            raise ParameterError(f"{self.name}: the cohorts of {self.parts[cohort].name} do not travel beside its own")
        return cohort, 0

    def noise_name(self, metric: str, place: int) -> str:  # noqa: ARG002 - a device uses one part of a metric
        """Return the name that a part's permanent responses are derived under."""
        return metric

    @property
    def num_cohorts(self) -> int:
        return len(self.parts)

    @property
    def payload_limit(self) -> int:
        """No payload of any part is this number, or a larger one."""
        return max(part.payload_limit for part in self.parts)

    def epsilon_n(self, reports: int) -> float:
        """Largest epsilon of a part: it is chosen without looking at the value."""
        return max(part.epsilon_n(reports) for part in self.parts)

    @property
    def epsilon_permanent(self) -> float:
        """Largest permanent epsilon of a part, of a device that keeps its part."""
        return max(part.epsilon_permanent for part in self.parts)

    @property
    def repeats(self) -> bool:
        return all(part.repeats for part in self.parts)

    def encode(self, value: Any, cohort: int) -> int | None:
        place, own = self.place_of(cohort)
        return self.parts[place].encode(self.project(value, place), own)

    def held(self, value: Any, cohort: int) -> Any:
        place, own = self.place_of(cohort)
        return self.parts[place].held(self.project(value, place), own)

    def draw(self, held: Any, cohort: int, entropy: Entropy) -> int:
        place, own = self.place_of(cohort)
        return self.parts[place].draw(held, own, entropy)

    def likelihood(self, report: Report, value: Any) -> Fraction:
        place, own = self.place_of(report.cohort)
        return self.parts[place].likelihood(Report(own, report.bits), self.project(value, place))

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        """Return the answer of the part alone: a change that its projection does not show changes nothing."""
        place, own = self.place_of(cohort)
        respond, project = self.parts[place].responder(secret, self.noise_name(metric, place), own), self.project
        return lambda value: respond(project(value, place))

    def response_key(self, value: Any, cohort: int) -> Hashable:
        place, own = self.place_of(cohort)
        return self.parts[place].response_key(self.project(value, place), own)

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return the part's own response to no value."""
        place, own = self.place_of(cohort)
        return self.parts[place].nothing(secret, self.noise_name(metric, place), own)

    @property
    def instantaneous(self) -> Draw:
        """The permanent payload is sent as it is.

        ParameterError where a part has a second round, which a payload without its part cannot go through.
        """
        if not self.repeats:
            raise ParameterError(f"{self.name}: a second round is drawn by the part itself: choose parts of one round")
        return super().instantaneous
