"""The terms of combinations: of several mechanisms of which a device uses one, and of a search.

*Divided tables, and levels of a tree*: which mechanism a device uses follows from its secret, whatever its value, so
every epsilon is the largest of theirs. So it is of *a search*, whose device answers one question by a plan, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from overstory.privacy.shared import Constant, Likeness, mixed
from overstory.privacy.terms import (
    Evidence,
    OneRoundTerms,
    PayloadTerms,
    Terms,
    Worst,
    part_of,
    terms_class,
)
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report


@dataclass(frozen=True)
class SeveralTerms(PayloadTerms):
    """The terms of several mechanisms, of which a device uses one."""

    kind: ClassVar[str] = "several"
    parts: tuple[Terms, ...]
    most_values: int | None  # the largest of the parts'; None where one has none

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(map(part_of, self.parts)))
        if len(self.parts) < 2:
            raise ParameterError(f"terms of several mechanisms are of two or more, not {len(self.parts)}")

    @property
    def fresh(self) -> bool:
        return all(part.fresh for part in self.parts)

    @property
    def proves_changes(self) -> bool:
        return any(part.proves_changes for part in self.parts)

    @property
    def epsilon_permanent(self) -> float:
        return max(part.epsilon_permanent for part in self.parts)

    def _few(self, reports: int) -> float:
        return max(part.epsilon_n(reports) for part in self.parts)

    def _worst(self, reports: int) -> Worst:
        epsilons = [part.epsilon_any(reports) for part in self.parts]
        return Worst(max(epsilons), exact=all(part.epsilon_any_is_exact(reports) for part in self.parts))

    @classmethod
    def of(cls, mechanism: Any) -> Terms:
        return terms_of_several(terms_class(part).of(part) for part in mechanism.parts)

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        parts = mechanism.parts
        return mixed((1 / len(parts), terms_class(part).unchanged(part)) for part in parts)

    @classmethod
    def likeness(cls, mechanism: Any) -> Likeness:
        return Likeness(levels=tuple(terms_class(part).likeness(part) for part in mechanism.parts))

    @classmethod
    def evidence(cls, mechanism: Any, reports: Sequence[Report]) -> Evidence:
        cohorts = {report.cohort for report in reports}
        if len(cohorts) != 1:
            raise ParameterError("reports of one device are of one part")
        place, own = mechanism.place_of(*cohorts)
        part = mechanism.parts[place]
        told = terms_class(part).evidence(part, [Report(own, report.bits) for report in reports])
        return lambda value: told(mechanism.project(value, place))


def terms_of_several(parts: Iterable[Terms]) -> Terms:
    """Return the terms of mechanisms of which a device uses one; those of one alone where no other ever costs more."""
    several = tuple(dict.fromkeys(parts))
    sizes = [part.most_values for part in several]
    most = None if None in sizes else max(size for size in sizes if size is not None)
    worst = max(several, key=lambda part: (part.epsilon_n(1), part.most_values == most))
    one_round = all(part.epsilon_n(1) == part.epsilon_permanent for part in several)
    if len(several) == 1 or (one_round and worst.most_values == most):
        return worst
    return SeveralTerms(several, most)


@dataclass(frozen=True)
class SearchTerms(OneRoundTerms, PayloadTerms):
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

    @classmethod
    def of(cls, mechanism: Any) -> SearchTerms:
        return SearchTerms(mechanism.epsilon)
