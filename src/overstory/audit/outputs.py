"""Checks of reports that are a symbol (direct, hashed under a seed, or a sign), or an output of the value's set.

Such a set is a subset of the domain, or a point of a projective space.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import binomial_law
from overstory.audit.checks import (
    AS_DECLARED,
    BINS,
    Check,
    Conformance,
    Floats,
    Levels,
    LevelsOf,
    binned,
    halfway,
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


COUNTED: Final = 1 << 12
"""Symbols up to which each is counted."""
MOST_LEARNED: Final = 256
"""Symbols up to which a score is learned from the reports."""


class SymbolConformance(Conformance):
    """The checks of a `SymbolMechanism`."""

    def __init__(self, declared: Declared) -> None:
        super().__init__(declared)
        rounds: Any = declared.mechanism.rounds  # type: ignore[union-attr] # of a mechanism of symbols
        self.permanent, self.instantaneous = rounds.permanent, rounds.instantaneous
        self.keep, self.other = float(rounds.combined.keep), float(rounds.combined.other)
        self.size = declared.mechanism.payload_limit

    def encoded(self, answers: Answers) -> NDArray[np.int64]:
        return self.declared.symbols(answers.values, answers.cohorts)

    def fresh(self, answers: Answers) -> Iterator[Check]:
        """Yield the rate of the value's own symbol, in all and by value and cohort; the others; neighbours."""
        own, reported = self.encoded(answers), answers.reports
        hits, lines = (reported == own).astype(np.int64), np.ones(len(own), np.int64)
        yield rate("rate of the own symbol", int(hits.sum()), len(own), self.keep)
        yield rates_by("values alike", binned(answers.values, len(self.declared.values)), hits, lines, self.keep)
        if (cohorts := self.declared.num_cohorts) > 1:
            yield rates_by("cohorts alike", binned(answers.cohorts, cohorts), hits, lines, self.keep)
        if self.size > 2:
            yield self._others_even(((reported - own) % self.size)[reported != own] - 1)
        if self.size <= COUNTED:
            yield self._symbols_alike(own, reported)
        first, second = neighbours(answers)
        equal = self.encoded(first) == self.encoded(second)
        chances = np.where(equal, self._match(self.keep, self.other), self._cross)
        yield identical("identical neighbouring reports", int((first.reports == second.reports).sum()), chances)

    @property
    def _cross(self) -> float:
        """How likely reports of two different symbols are equal."""
        return 2 * self.keep * self.other + (self.size - 2) * self.other**2

    def _match(self, keep: float, other: float) -> float:
        return keep**2 + (self.size - 1) * other**2

    def _others_even(self, away: NDArray[np.int64]) -> Check:
        """Check how far from the true symbol the others are; of many, in groups."""
        others, groups = self.size - 1, min(self.size - 1, COUNTED)
        starts = -(-np.arange(groups + 1, dtype=np.int64) * others // groups)
        seen, law = np.bincount(away * groups // others, minlength=groups), np.diff(starts) / others
        p_value, uneven = outcomes_p(seen, law), float(seen.var() / max(float(seen.mean()), 1e-300))
        return Check("other symbols even", "all alike", f"{uneven:.2f} times as uneven", p_value, p_value)

    def _symbols_alike(self, own: NDArray[np.int64], reported: NDArray[np.int64]) -> Check:
        """Check all symbols that were reported, by the true one; of many, those with most lines."""
        lines = np.bincount(own, minlength=self.size)
        p_values = []
        for symbol in np.argsort(-lines, kind="stable")[:BINS].tolist():
            law = np.full(self.size, self.other)
            law[symbol] = self.keep
            p_values.append(outcomes_p(np.bincount(reported[own == symbol], minlength=self.size), law))
        p_value, worst = joined(p_values), float(min(p_values))
        return Check("reported symbols", AS_DECLARED, f"least likely: p = {worst:.1e}", p_value, p_value)

    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield how often a device's reports are equal to its first one.

        That one is the permanent symbol or another; then each further one is equal to it with the chance of that.
        """
        _, reports = turns(answers, repeats)
        keep, other = float(self.instantaneous.keep), float(self.instantaneous.other)
        law = keep * binomial_law(repeats - 1, keep) + (1 - keep) * binomial_law(repeats - 1, other)
        same = (reports[1:] == reports[0]).sum(axis=0)
        p_value = outcomes_p(np.bincount(same, minlength=repeats), law)
        mean = float((law * np.arange(repeats)).sum())
        shown = f"{mean:.3f} of {repeats - 1} equal to the first"
        yield Check("memory of the symbol" + after, shown, f"{same.mean():.3f}", float(same.mean()), p_value)

    def noise(self, answers: Answers, repeats: int) -> tuple[NDArray[np.bool_], Floats]:
        first, reports = turns(answers, repeats)
        rates = float(self.instantaneous.keep), float(self.instantaneous.other)
        cut, (keep, other) = halfway(repeats, *rates)
        share = float(self.permanent.keep)
        own = (reports == self.encoded(first)).sum(axis=0)
        return own > cut, np.full(len(first), share * keep + (1 - share) * other)

    def likeness(self, first: Answers, second: Answers, *, same_devices: bool) -> float:
        comparable = (first.cohorts == second.cohorts) & (self.encoded(first) == self.encoded(second))
        last = self.instantaneous
        chance = (
            self._match(float(last.keep), float(last.other)) if same_devices else self._match(self.keep, self.other)
        )
        same = int((first.reports == second.reports)[comparable].sum())
        return too_many(same, np.full(int(comparable.sum()), chance))

    def scores(self, answers: Answers) -> Floats:
        """Return plus or minus epsilon where the report is the symbol of one value of the pair alone."""
        sides = np.zeros(len(answers), np.int64)
        is_first, is_second = (
            answers.reports == self.declared.symbols(sides + value, answers.cohorts) for value in (0, 1)
        )
        signs: Floats = is_second.astype(np.float64) - is_first
        return float(np.log(self.keep / self.other)) * signs

    def levels(self, answers: Answers) -> LevelsOf:
        """Return epsilon, for reports that are the symbol of one value of the pair alone."""
        sides = np.zeros(len(answers), np.int64)
        first, second = (self.declared.symbols(sides + value, answers.cohorts) for value in (0, 1))
        apart, epsilon = int((first != second).sum()), math.log(self.keep / self.other)

        def levels(excess: float) -> list[Levels]:
            other = 1 / (math.exp(epsilon * (1 + excess)) + self.size - 1)
            return one_level(epsilon, apart * (1 - (self.size - 2) * other), excess)

        return levels

    def features(self, answers: Answers) -> NDArray[np.uint8] | None:
        if self.size > MOST_LEARNED:
            return None
        return one_of(answers.reports, self.size)


MOST_POINTS: Final = 1 << 15
"""Points up to which each is counted."""
MOST_POINTS_LEARNED: Final = 1 << 10


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
        return float(self.inside * self.within + (1 - self.inside) * self.without)

    @property
    def _cross(self) -> float:
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

    def encoded(self, answers: Answers) -> NDArray[np.int64]:
        return answers.values

    def noise(self, answers: Answers, repeats: int) -> tuple[NDArray[np.bool_], Floats]:
        first, _ = turns(answers, repeats)
        return self.contains(first.values, first.reports), np.full(len(first), float(self.inside))

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
        symbols = np.array(self.declared.values, np.int64)[values]
        own: NDArray[np.bool_] = reports[np.arange(len(reports)), symbols].astype(np.bool_)
        return own

    def outputs_alike(self, answers: Answers, held: NDArray[np.bool_]) -> Iterator[Check]:
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
        reports: NDArray[np.uint8] = answers.reports
        return reports


class PointConformance(SetConformance):
    """Points of a projective space, as numbers."""

    def contains(self, values: NDArray[np.int64], reports: NDArray[Any]) -> NDArray[np.bool_]:
        pairs, rows = np.unique(values * self.outputs + reports, return_inverse=True)
        named = (divmod(pair, self.outputs) for pair in pairs.tolist())
        held = [self.encoding.contains(point, self.declared.values[value]) for value, point in named]
        table: NDArray[np.bool_] = np.array(held, np.bool_)[rows]
        return table

    def outputs_alike(self, answers: Answers, held: NDArray[np.bool_]) -> Iterator[Check]:  # noqa: ARG002 - by point
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
        if self.outputs > MOST_POINTS_LEARNED:
            return None
        return one_of(answers.reports, self.outputs)
