"""Checks of reports that are a symbol: direct, hashed under a seed, or a sign."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection.proportions import binomial_law
from overstory.audit.checks import (
    AS_DECLARED,
    BINS,
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
    rate,
    rates_by,
    turns,
)
from overstory.audit.probabilities import joined, outcomes_p, too_many

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
        self.instantaneous = rounds.instantaneous
        self.keep, self.other = float(rounds.combined.keep), float(rounds.combined.other)
        self.size = declared.mechanism.payload_limit

    def _own(self, answers: Answers) -> NDArray[np.int64]:
        return self.declared.symbols(answers.values, answers.cohorts)

    def fresh(self, answers: Answers) -> Iterator[Check]:
        """Yield the rate of the value's own symbol, in all and by value and cohort; the others; neighbours."""
        own, reported = self._own(answers), answers.reports
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
        equal = self._own(first) == self._own(second)
        chances = np.where(equal, self._match(self.keep, self.other), self._cross)
        yield identical("identical neighbouring reports", int((first.reports == second.reports).sum()), chances)

    @property
    def _cross(self) -> float:
        """How likely reports of two different symbols are equal."""
        return 2 * self.keep * self.other + (self.size - 2) * self.other**2

    def _match(self, keep: float, other: float) -> float:
        """Return how likely two reports of one symbol are equal."""
        return keep**2 + (self.size - 1) * other**2

    def _others_even(self, away: NDArray[np.int64]) -> Check:
        """Check how far from the true symbol the others are; of many, in groups."""
        others, groups = self.size - 1, min(self.size - 1, COUNTED)
        starts = -(-np.arange(groups + 1, dtype=np.int64) * others // groups)
        seen, law = np.bincount(away * groups // others, minlength=groups), np.diff(starts) / others
        p_value = outcomes_p(seen, law)
        return Check("other symbols even", "all alike", f"{_unevenness(seen):.2f} times as uneven", p_value, p_value)

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

    def likeness(self, first: Answers, second: Answers, *, same_devices: bool) -> float:
        """Return a bound by how many reports are equal where the true symbol and cohort are."""
        comparable = (first.cohorts == second.cohorts) & (self._own(first) == self._own(second))
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
        """Return which symbol it is."""
        if self.size > MOST_LEARNED:
            return None
        return one_of(answers.reports, self.size)


def _unevenness(seen: Any) -> float:
    """Return the counts' variance over that of even ones."""
    mean = max(float(seen.mean()), 1e-300)
    return float(seen.var() / mean)
