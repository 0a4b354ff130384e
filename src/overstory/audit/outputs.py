"""Checks of reports that are an output of the value's own set, of which a symbol is the simplest.

All outputs of the set are alike, and so are all others. The one mark is whether the report is in the set. An output is
a symbol (direct, hashed under a seed, or a sign), a subset of the domain, or a point of a projective space.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

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
    Marks,
    Part,
    furthest,
    pairs_of,
)
from overstory.audit.probabilities import joined, outcomes_p, two_sided

if TYPE_CHECKING:
    from overstory.audit.answers import Answers
    from overstory.audit.declared import Declared

COUNTED: Final = 1 << 12
"""Symbols up to which each is counted."""
MOST_LEARNED: Final = 256
"""Symbols up to which a score is learned from the reports."""
MOST_POINTS: Final = 1 << 15
"""Points up to which each is counted."""
MOST_POINTS_LEARNED: Final = 1 << 10


class OutputConformance(Conformance):
    """The checks of a mechanism of outputs."""

    def __init__(self, declared: Declared) -> None:
        super().__init__(declared)
        mechanism = declared.mechanism
        self.is_symbol, self.inside = mechanism.payload == "symbols", mechanism.p_star
        sizes = (mechanism.payload_limit, 1, 0) if self.is_symbol else mechanism.encoding.sizes
        self.outputs, self.own, self.shared = map(int, sizes)
        self.within, self.without = self.inside / self.own, (1 - self.inside) / (self.outputs - self.own)
        own, _, left = mechanism.permanent_support
        other = (1 - left) / self.outputs  # how likely the second round draws any one output
        self.permanent, self.instantaneous = (0.0, own), (other, left + other)
        self.losses = float(np.log(float(self.within / self.without))), 0.0

    def marks(self, answers: Answers) -> Marks:
        return self.declared.supported(answers)[:, None].view(np.uint8)

    def truth(self, answers: Answers) -> Marks:
        return np.ones((len(answers), 1), np.uint8)

    def parts(self, answers: Answers) -> list[Part]:
        held = self.declared.supported(answers).astype(np.int64)
        name = "the own symbol" if self.is_symbol else "reports in the own set"
        return [Part(name, held, np.ones(len(held), np.int64), float(self.inside))]

    def outcomes(self, answers: Answers) -> Iterator[Check]:
        """Yield the checks of outputs, inside the value's set and outside it."""
        if self.declared.are_bits:
            yield from self._members(answers)
            return
        if self.is_symbol and self.outputs > 2:
            yield self._others_even(answers)
        if self.outputs <= (COUNTED if self.is_symbol else MOST_POINTS):
            yield self._outputs_alike(answers)

    def _others_even(self, answers: Answers) -> Check:
        """Check how far from the true symbol the others are; of many, in groups."""
        away = (answers.reports - self.encoded(answers)) % self.outputs
        others, groups = self.outputs - 1, min(self.outputs - 1, COUNTED)
        starts = -(-np.arange(groups + 1, dtype=np.int64) * others // groups)
        seen, law = np.bincount((away[away > 0] - 1) * groups // others, minlength=groups), np.diff(starts) / others
        p_value, uneven = outcomes_p(seen, law), float(seen.var() / max(float(seen.mean()), 1e-300))
        return Check("other symbols even", "all alike", f"{uneven:.2f} times as uneven", p_value, p_value)

    def _outputs_alike(self, answers: Answers) -> Check:
        """Check all outputs, by what was encoded; of many symbols those with most lines, of points the pair's."""
        encoded, p_values = self.encoded(answers), []
        lines = np.bincount(encoded, minlength=self.outputs)
        for one in np.argsort(-lines, kind="stable")[: BINS if self.is_symbol else 2].tolist():
            law = np.where(self.declared.set_of(one), float(self.within), float(self.without))
            seen = np.bincount(answers.reports[encoded == one], minlength=self.outputs)
            p_values.append(outcomes_p(seen, law))
        name, p_value = "reported symbols" if self.is_symbol else "points alike", joined(p_values)
        return Check(name, AS_DECLARED, f"least likely: p = {min(p_values):.1e}", p_value, p_value)

    def _members(self, answers: Answers) -> Iterator[Check]:
        """Yield whether the other values of subsets are alike, and their pairs."""
        domain, size = self.declared.mechanism.payload_bits, self.declared.mechanism.payload_weight or 0
        symbols, held = np.array(self.declared.values)[answers.values], self.declared.supported(answers)
        members: list[Floats] = []
        pairs: list[Floats] = []
        upper = np.triu_indices(domain, 1)
        for is_held, others in ((True, size - 1), (False, size)):
            reports, own = answers.reports[held == is_held], symbols[held == is_held]
            asked = np.bincount(own, minlength=domain)
            ones = reports.sum(axis=0, dtype=np.int64) - asked * is_held
            members.append(two_sided(ones, len(reports) - asked, others / (domain - 1)))
            if domain > 2:
                together, _, lines = pairs_of(reports, own[:, None] != np.arange(domain))
                chance = others * (others - 1) / ((domain - 1) * (domain - 2))
                pairs.append(two_sided(together[upper], lines[upper], chance))
        yield furthest("other values alike", members)
        if pairs:
            yield furthest("pairs of other values", pairs)

    def equal_chances(self, first: Answers, second: Answers, *, same_devices: bool = False) -> Floats:
        if same_devices:  # and values are the same, too
            other, keep = self.instantaneous
            return np.full(len(first), keep**2 + (self.outputs - 1) * other**2 if other else 1.0)
        within, without, alone = self.within, self.without, self.own - self.shared
        match = self.inside * within + (1 - self.inside) * without
        cross = self.shared * within**2 + (self.outputs - self.own - alone) * without**2 + 2 * alone * within * without
        return np.where(self.encoded(first) == self.encoded(second), float(match), float(cross))

    def comparable(self, first: Answers, second: Answers) -> NDArray[np.bool_]:
        return np.asarray((first.cohorts == second.cohorts) & (self.encoded(first) == self.encoded(second)))

    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield how often a device's reports are equal to its first one.

        That one is the permanent output or another; then each further one is equal to it with the chance of that.
        """
        reports = answers.reports.reshape(repeats, len(answers) // repeats, -1)
        other, keep = self.instantaneous
        law = keep * binomial_law(repeats - 1, keep) + (1 - keep) * binomial_law(repeats - 1, other)
        same = (reports[1:] == reports[0]).all(axis=2).sum(axis=0)
        p_value = outcomes_p(np.bincount(same, minlength=repeats), law)
        mean = float((law * np.arange(repeats)).sum())
        shown = f"{mean:.3f} of {repeats - 1} equal to the first"
        name = f"memory of the {'symbol' if self.is_symbol else 'report'}{after}"
        yield Check(name, shown, f"{same.mean():.3f}", float(same.mean()), p_value)

    def levels(self, answers: Answers) -> LevelsOf:
        """Return epsilon, for reports that the set of one value of the pair alone holds."""
        first, second = (self.encoded(answers.holding(value)) for value in (0, 1))
        loss, apart = self.losses[0], int((first != second).sum())
        alone, rest = ((size / self.own) for size in (self.own - self.shared, self.outputs - self.own))

        def levels(excess: float) -> Iterator[Levels]:
            ratio = math.exp(loss * (1 + excess))
            said = apart * alone * (ratio + 1) / (ratio + rest)
            yield Levels(*(np.array([each]) for each in (loss, said, ratio / (1 + ratio))))

        return levels

    def features(self, answers: Answers) -> Marks | None:
        reports: Marks = answers.reports
        if self.declared.are_bits:
            return reports
        if self.outputs > (MOST_LEARNED if self.is_symbol else MOST_POINTS_LEARNED):
            return None
        return np.asarray(reports[:, None] == np.arange(self.outputs)).view(np.uint8)
