"""Checks of the cohorts, or seeds, that clients choose: uniform, not repeated, and independent of the value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from overstory.audit.checks import BINS, Check, binned, turns
from overstory.audit.probabilities import joined, most_extreme, outcomes_p, too_many, two_sided

if TYPE_CHECKING:
    from overstory.audit.answers import Answers

COUNTED: Final = 1 << 12
"""Cohorts up to which each is counted; of more, their first and their last bits are."""


def cohort_checks(answers: Answers, num_cohorts: int) -> Iterator[Check]:
    """Yield the checks of fresh devices' cohorts."""
    cohorts = answers.cohorts
    views = _views(cohorts, num_cohorts)
    p_value = most_extreme([outcomes_p(np.bincount(numbers, minlength=many), law) for numbers, many, law in views])
    yield Check("cohorts uniform", f"{num_cohorts:,} alike", f"p = {p_value:.1e} of them", p_value, p_value)
    pair = answers.values < 2
    p_value = most_extreme([_apart(numbers[pair], answers.values[pair], many) for numbers, many, _ in views])
    yield Check("cohorts and values", "independent", f"p = {p_value:.1e} of them", p_value, p_value)
    if num_cohorts > COUNTED:
        repeats = len(cohorts) - len(np.unique(cohorts))
        # Each seed is an earlier one with at most the chance that all earlier ones differ.
        chances = np.minimum(np.arange(len(cohorts)) / num_cohorts, 1.0)
        p_value = too_many(repeats, chances)
        yield Check("seeds drawn twice", f"about {chances.sum():,.1f}", f"{repeats:,}", repeats, p_value)


def _views(cohorts: NDArray[np.int64], many: int) -> list[tuple[NDArray[np.int64], int, NDArray[np.float64]]]:
    """Return the cohorts in groups, how many groups there are, and how likely each is."""
    if many <= COUNTED:
        return [(cohorts, many, np.full(many, 1 / many))]
    every = np.arange(BINS + 1, dtype=object) * many
    starts = np.array([-(-int(edge) // BINS) for edge in every], np.float64)
    lasts = np.array([(many - place + BINS - 1) // BINS for place in range(BINS)], np.float64)
    return [(binned(cohorts, many), BINS, np.diff(starts) / many), (cohorts % BINS, BINS, lasts / many)]


def _apart(groups: NDArray[np.int64], values: NDArray[np.int64], many: int) -> float:
    """Return a p-value: in every group the value is a fair coin, for it was one."""
    totals = np.bincount(groups, minlength=many)
    return joined(two_sided(np.bincount(groups, values, many), totals, 0.5))


def kept_cohorts(answers: Answers, repeats: int) -> Check:
    """Check that a device's cohort is the same in all its reports."""
    first, _ = turns(answers, repeats)
    moved = int((answers.cohorts.reshape(repeats, -1) != first.cohorts).any(axis=0).sum())
    texts = (f"all {len(first):,} devices have one", f"{moved:,} do not")
    return Check("memory of the cohort", *texts, moved, 0.0 if moved else 1.0)


def equal_cohorts(first: Answers, second: Answers, num_cohorts: int) -> float:
    """Return a bound of how rarely as many devices of two runs choose the same cohort."""
    return too_many(int((first.cohorts == second.cohorts).sum()), np.full(len(first), 1 / num_cohorts))
