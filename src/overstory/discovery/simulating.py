"""Simulated devices that follow a plan: for experiments, and to see what would be found in one's own values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch
from overstory.analysis.simulation import Rng, generator
from overstory.discovery.bulk import Rows, buckets_of, byte_strings, distinct, names_of, prefixes
from overstory.discovery.plans import DICTIONARY, Plan
from overstory.discovery.questions import ELSEWHERE, BitQuestion, Question, prefix_bytes
from overstory.discovery.reading import respond

GroupReports = tuple[ReportBatch, ...]
"""One batch for each question of a group, row i of all of them being one device."""

Progress = Callable[[str, float], object]
"""Told what is being done, and how much of it all is done, from 0 to 1."""


def simulate(plan: Plan, values: Any, rng: Rng = None, *, progress: Progress | None = None) -> tuple[GroupReports, ...]:
    """Return what a device for each of `values` would send, group by group.

    Groups are drawn as devices draw theirs, from uniform 32-bit numbers and the plan's thresholds; reports come from
    the mechanisms' own bulk kernels.

    Parameters
    ----------
    plan
        What the devices follow.
    values
        One value a device; an integer array for `Integers` is fastest.
    rng
        Where all randomness comes from: a seed, a generator, or None for a fresh one.
    progress
        Told of every group.

    Raises
    ------
    ParameterError
        When a value is outside the domain.
    """
    rows, index = distinct(plan.domain, values)
    rng = generator(rng)
    drawn = rng.integers(0, 1 << 32, len(index), dtype=np.uint64)
    bounds = np.array([group.threshold for group in plan.groups], np.uint64)
    groups = np.searchsorted(bounds, drawn, side="right")
    known = _known(plan, rows)
    reports = []
    for number, group in enumerate(plan.groups):
        if progress:
            progress("devices report", number / len(plan.groups))
        present, symbols = np.unique(index[groups == number], return_inverse=True)
        asked = (
            respond(question.mechanism, _names(question, rows[present], known[present], plan), symbols, rng.bytes(32))
            for question in group.questions
        )
        reports.append(tuple(asked))
    return tuple(reports)


def _known(plan: Plan, rows: Rows) -> NDArray[np.bool_]:
    width = plan.domain.width
    dictionary = {prefix_bytes(code, width, width) for code in plan.known}
    if not dictionary:
        return np.zeros(len(rows), np.bool_)
    return np.array([raw in dictionary for raw in byte_strings(rows)], np.bool_)


def _names(question: Question | BitQuestion, rows: Rows, known: NDArray[np.bool_], plan: Plan) -> Any:
    """Return what the mechanism is given for each code: `Plan.held`, then the question's value."""
    if isinstance(question, BitQuestion):
        bits = rows[:, question.bit // 8] >> (7 - question.bit % 8) & 1
        return 2 * buckets_of(rows, question.key, question.buckets) + bits
    names = names_of(question, prefixes(rows, question.num_bits))
    if plan.known:
        elsewhere = question.name_of(ELSEWHERE)
        names = [
            name if k == (question.name == DICTIONARY) else elsewhere for name, k in zip(names, known, strict=True)
        ]
    return names
