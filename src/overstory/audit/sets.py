"""Checks of reports that are an output of the value's set: a subset of the domain, or a point of a projective space."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.audit.checks import (
    AS_DECLARED,
    Check,
    Conformance,
    Floats,
    Levels,
    LevelsOf,
    binned,
    identical,
    neighbours,
    one_level,
    one_of,
    pairs_of,
    rate,
    rates_by,
    turns,
)
from overstory.audit.probabilities import joined, most_extreme, outcomes_p, too_many, two_sided

if TYPE_CHECKING:
    from overstory.audit.answers import Answers
    from overstory.audit.declared import Declared

MOST_POINTS: Final = 1 << 15
"""Points up to which each is counted."""
MOST_LEARNED: Final = 1 << 10


class SetConformance(Conformance):
    """The checks of a `SetMechanism`: all outputs of the value's set are alike, and all others."""

    def __init__(self, declared: Declared) -> None:
        super().__init__(declared)
        mechanism: Any = declared.mechanism
        self.encoding, self.inside = mechanism.encoding, Fraction(mechanism.inside)
        self.outputs, self.own, self.shared = self.encoding.sizes
        self.within, self.without = self.inside / self.own, (1 - self.inside) / (self.outputs - self.own)

    @abstractmethod
    def contains(self, values: NDArray[np.int64], reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether the set of each value holds the report on its line."""

    @abstractmethod
    def outputs_alike(self, answers: Answers, held: NDArray[np.bool_]) -> Iterator[Check]:
        """Yield the checks of outputs, inside the value's set and outside it."""

    def same(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which reports are equal; bits have the last axis."""
        equal: NDArray[np.bool_] = first == second
        return np.asarray(equal.all(axis=-1)) if self.declared.are_bits else equal

    def fresh(self, answers: Answers) -> Iterator[Check]:
        """Yield the rate of reports in the value's set, in all and by value; outputs; neighbours."""
        held = self.contains(answers.values, answers.reports)
        lines = np.ones(len(held), np.int64)
        yield rate("rate of reports in the own set", int(held.sum()), len(held), float(self.inside))
        groups = binned(answers.values, len(self.declared.values))
        yield rates_by("values alike", groups, held.astype(np.int64), lines, float(self.inside))
        yield from self.outputs_alike(answers, held)
        first, second = neighbours(answers)
        chances = np.where(first.values == second.values, self._match, self._cross)
        yield identical("identical neighbouring reports", int(self.same(first.reports, second.reports).sum()), chances)

    @property
    def _match(self) -> float:
        """How likely two reports of one value are equal."""
        return float(self.inside * self.within + (1 - self.inside) * self.without)

    @property
    def _cross(self) -> float:
        """How likely reports of two values are equal."""
        alone, neither = self.own - self.shared, self.outputs - 2 * self.own + self.shared
        both = self.shared * self.within**2 + neither * self.without**2
        return float(both + 2 * alone * self.within * self.without)

    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield whether all reports of a device are one: nothing is drawn afresh."""
        _, reports = turns(answers, repeats)
        changed = int((~self.same(reports[1:], reports[:1])).any(axis=0).sum())
        devices = reports.shape[1]
        texts = (f"all {devices:,} devices repeat one report", f"{changed:,} do not")
        yield Check("memory of the report" + after, *texts, changed, 0.0 if changed else 1.0)

    def likeness(self, first: Answers, second: Answers, *, same_devices: bool) -> float:
        """Return a bound by how many reports are equal; those of the same devices always may be."""
        if same_devices:
            return 1.0
        equal = first.values == second.values
        same = int(self.same(first.reports, second.reports)[equal].sum())
        return too_many(same, np.full(int(equal.sum()), self._match))

    def scores(self, answers: Answers) -> Floats:
        """Return plus or minus epsilon where the set of one value of the pair alone holds the report."""
        sides = np.zeros(len(answers), np.int64)
        in_first, in_second = (self.contains(sides + value, answers.reports) for value in (0, 1))
        return self._loss * (in_second.astype(np.float64) - in_first)

    @property
    def _loss(self) -> float:
        return float(np.log(float(self.within / self.without)))

    def levels(self, answers: Answers) -> LevelsOf:
        """Return epsilon, for reports that the set of one value of the pair alone holds."""
        alone, rest = self.own - self.shared, self.outputs - self.own

        def levels(excess: float) -> list[Levels]:
            ratio = math.exp(self._loss * (1 + excess))
            return one_level(self._loss, len(answers) * alone * (ratio + 1) / (self.own * ratio + rest), excess)

        return levels


class SubsetConformance(SetConformance):
    """Subsets of the domain, as bits."""

    def contains(self, values: NDArray[np.int64], reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Look up the value's bit."""
        symbols = np.array(self.declared.values, np.int64)[values]
        own: NDArray[np.bool_] = reports[np.arange(len(reports)), symbols].astype(np.bool_)
        return own

    def outputs_alike(self, answers: Answers, held: NDArray[np.bool_]) -> Iterator[Check]:
        """Yield how often each other value, and each two of them, are in the subset, by whether the own one is."""
        domain, size = self.encoding.domain_size, self.encoding.subset_size
        symbols = np.array(self.declared.values, np.int64)[answers.values]
        members: list[Floats] = []
        pairs: list[Floats] = []
        upper = np.triu_indices(domain, 1)
        for chosen, others in ((held, size - 1), (~held, size)):
            reports, own = answers.reports[chosen], symbols[chosen]
            asked = np.bincount(own, minlength=domain)
            ones = reports.sum(axis=0, dtype=np.int64) - (asked if chosen is held else 0)
            members.append(two_sided(ones, len(reports) - asked, others / (domain - 1)))
            if domain > 2:
                together, _, lines = pairs_of(reports, own[:, None] != np.arange(domain))
                chance = others * (others - 1) / ((domain - 1) * (domain - 2))
                pairs.append(two_sided(together[upper], lines[upper], chance))
        for name, p_values in (("other values alike", members), ("pairs of other values", pairs)):
            if p_values:
                p_value = most_extreme(np.concatenate(p_values))
                yield Check(name, AS_DECLARED, f"furthest: p = {p_value:.1e}", p_value, p_value)

    def features(self, answers: Answers) -> NDArray[np.uint8]:
        """Return the bits."""
        reports: NDArray[np.uint8] = answers.reports
        return reports


class PointConformance(SetConformance):
    """Points of a projective space, as numbers."""

    def contains(self, values: NDArray[np.int64], reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Ask the encoding, once for each value and point."""
        pairs, rows = np.unique(values * self.outputs + reports, return_inverse=True)
        named = (divmod(pair, self.outputs) for pair in pairs.tolist())
        held = [self.encoding.contains(point, self.declared.values[value]) for value, point in named]
        table: NDArray[np.bool_] = np.array(held, np.bool_)[rows]
        return table

    def outputs_alike(self, answers: Answers, held: NDArray[np.bool_]) -> Iterator[Check]:  # noqa: ARG002 - by point
        """Yield how often each point was reported for each value of the pair."""
        if self.outputs > MOST_POINTS:
            return
        p_values, points = [], np.arange(self.outputs)
        for value in (0, 1):
            own = self.contains(np.full(self.outputs, value), points)
            law = np.where(own, float(self.within), float(self.without))
            seen = np.bincount(answers.reports[answers.values == value], minlength=self.outputs)
            p_values.append(outcomes_p(seen, law))
        p_value = joined(p_values)
        yield Check("points alike", AS_DECLARED, f"least likely: p = {min(p_values):.1e}", p_value, p_value)

    def features(self, answers: Answers) -> NDArray[np.uint8] | None:
        """Return which point it is."""
        if self.outputs > MOST_LEARNED:
            return None
        return one_of(answers.reports, self.outputs)
