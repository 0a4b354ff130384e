"""The terms of combinations: of two parts side by side, of several of which a device uses one, of a search.

*Linked reports*: the parts draw independent noise, given the values, so log ratios add up; whoever chooses both values
freely makes both parts the worst at once. Every loss of one report, or of a pair that does not change, is the sum of
the parts', exactly; of histories that change it is a bound, because nothing to report is nothing in both.

*Divided tables, and levels of a tree*: which mechanism a device uses follows from its secret, whatever its value, so
every epsilon is the largest of theirs. So it is of *a search*, whose device answers one question by a plan, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from overstory.privacy.shared import Constant, Likeness, mixed
from overstory.privacy.terms import (
    PRECISE,
    Attack,
    Evidence,
    OneRoundTerms,
    PayloadTerms,
    Success,
    Terms,
    Worst,
    add_up,
    float_above,
    part_of,
    terms_class,
)
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report


@dataclass(frozen=True)
class PartTerms(PayloadTerms):
    """The terms of several mechanisms."""

    parts: tuple[Terms, ...]
    most_values: int | None  # of pairs, how many there are; else the largest of the parts'; None where one has none

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(map(part_of, self.parts)))

    @property
    def fresh(self) -> bool:
        return all(part.fresh for part in self.parts)

    @property
    def proves_changes(self) -> bool:
        return any(part.proves_changes for part in self.parts)


@dataclass(frozen=True)
class LinkedTerms(PartTerms):
    """The terms of both parts."""

    kind: ClassVar[str] = "linked"
    in_parts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.parts) != 2:
            raise ParameterError(f"linked terms are of 2 parts, not {len(self.parts)}")

    @property
    def epsilon_permanent(self) -> float:
        return add_up((1, part.epsilon_permanent) for part in self.parts)

    def _few(self, reports: int) -> float:
        return add_up((1, part.epsilon_n(reports)) for part in self.parts)

    def epsilon_n(self, reports: int) -> float:
        super().epsilon_n(reports)  # says so when this is no number of reports
        return self._few(reports)

    def _worst(self, reports: int) -> Worst:
        return Worst(add_up((1, part.epsilon_any(reports)) for part in self.parts), exact=False)

    def epsilon_history(self, responses: Mapping[int, int]) -> float:
        """Epsilon of reports of pairs, rounded up: a bound, for pairs can share the response of one part."""
        reports = sum(times * number for times, number in responses.items())
        pairs = sum(responses.values())
        return add_up((1, _most_of_part(part, reports, pairs)) for part in self.parts)

    @classmethod
    def of(cls, mechanism: Any) -> LinkedTerms:
        parts = tuple(terms_class(part).of(part) for part in mechanism.components)
        sizes = [part.most_values for part in parts]
        return LinkedTerms(parts, None if None in sizes else math.prod(size for size in sizes if size is not None))

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        bounds = super().attack(mechanism, candidates)
        if mechanism.domain_size is None:
            return bounds
        attacks = [terms_class(part).attack(part, candidates) for part in mechanism.components]
        # Uniform pairs: both values are guessed independently of each other.
        single, ever = (
            Success(
                min(math.prod(getattr(each, when).guess for each in attacks), 1.0), getattr(bounds, when).true_positives
            )
            for when in ("report", "unchanged")
        )
        return Attack(bounds.values, single, ever, exact=False)

    @classmethod
    def unchanged(cls, mechanism: Any) -> Constant:
        """Return independent draws together, but for the cohort, which both have."""
        first, second = (terms_class(part).unchanged(part) for part in mechanism.components)
        both = all(part.num_cohorts > 1 for part in mechanism.components)
        twice = math.log(mechanism.num_cohorts) if both else 0.0
        return Constant(tuple((a + c - twice, b + d + twice) for a, b in first.groups for c, d in second.groups))

    @classmethod
    def likeness(cls, mechanism: Any) -> Likeness:
        """Return what both parts' fresh reports share: information of independent draws adds up."""
        return Likeness(together=tuple(terms_class(part).likeness(part) for part in mechanism.components))

    @classmethod
    def evidence(cls, mechanism: Any, reports: Sequence[Report]) -> Evidence:
        sides = []
        for i, part in enumerate(mechanism.components):
            own = [Report(mechanism.cohort_of(part, r.cohort), mechanism.payloads(r.bits)[i]) for r in reports]
            sides.append(terms_class(part).evidence(part, own))

        def evidence(value: Any) -> Any:
            pair = mechanism.split(value)
            with localcontext(PRECISE):
                return sides[0](pair[0]) + sides[1](pair[1])

        return evidence


def _most_of_part(part: Terms, reports: int, pairs: int) -> float:
    """Return a bound on the epsilon of one part's reports, however they are spread over the values of so many pairs.

    With n_v reports of the value v (or of nothing), at most G of these and N reports in all, epsilon is the sum over v
    of epsilon_n(n_v). That is at most G epsilon_n(N), for epsilon_n never falls, and at most N times the largest
    epsilon_n(n) / n.
    """
    if part.fresh:
        return part.epsilon_any(reports)
    values = min(pairs, pairs if part.most_values is None else part.most_values + 1)  # and nothing
    most = add_up([(values, part.epsilon_n(reports))])
    return most if values == 1 else min(most, float_above(reports * _largest_rate(part, reports)))


@lru_cache(maxsize=1024)
def _largest_rate(part: Terms, reports: int) -> Fraction:
    """Return the largest epsilon_n(n) / n of up to so many reports of a value."""
    best, number = Fraction(part.epsilon_n(1)), 2
    # epsilon_n(n) / n is at most epsilon_permanent / n.
    while number <= reports and Fraction(part.epsilon_permanent) > best * number:
        best = max(best, Fraction(part.epsilon_n(number)) / number)
        number += 1
    return best


@dataclass(frozen=True)
class SeveralTerms(PartTerms):
    """The terms of several mechanisms, of which a device uses one."""

    kind: ClassVar[str] = "several"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.parts) < 2:
            raise ParameterError(f"terms of several mechanisms are of two or more, not {len(self.parts)}")

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
