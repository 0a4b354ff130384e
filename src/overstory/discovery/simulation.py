"""Simulated devices that follow a plan: for experiments, and to see what would be found in one's own values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Rng, SimulatedDevices, generator, support_of
from overstory.analysis.reports import ReportBatch
from overstory.discovery.codes import Rows, byte_strings, code_rows, distinct, prefixes
from overstory.protocol.search import DICTIONARY, Plan, Question

Progress = Callable[[str, float], object]  # told what is being done, and how much of it all is done, from 0 to 1


def simulate(plan: Plan, values: Any, rng: Rng = None, *, progress: Progress | None = None) -> tuple[ReportBatch, ...]:
    """Return what a device for each of `values` would send: the answers to each question of the plan.

    Groups are drawn as devices draw theirs, from uniform 32-bit numbers and the plan's thresholds; reports come from
    the mechanism's own bulk kernels.

    Parameters
    ----------
    plan
        The plan that the simulated devices follow.
    values
        One value a device; an integer array for `CodedIntegers` is fastest.
    rng
        Where all randomness comes from: a seed, a generator, or None for a fresh one.
    progress
        Called with the progress after every group.

    Raises
    ------
    ParameterError
        When a value is of the wrong kind, or an integer outside the domain; a string without a code is "elsewhere".

    Examples
    --------
    >>> from overstory.discovery import CodedIntegers, discover
    >>> plan = discover(epsilon=4.0, domain=CodedIntegers(16), levels=(8, 16))
    >>> reports = simulate(plan, np.array([7] * 600 + [4711] * 400), rng=1)
    >>> len(reports), sum(map(len, reports))
    (2, 1000)
    """
    rows, index, is_elsewhere = distinct(plan.domain, values)
    rng = generator(rng)
    drawn = rng.integers(0, 1 << 32, len(index), dtype=np.uint64)
    bounds = np.array([question.threshold for question in plan.questions], np.uint64)
    groups = np.searchsorted(bounds, drawn, side="right")
    dictionary = set(byte_strings(code_rows(plan.known, plan.domain.width)))
    is_known = np.array([raw in dictionary for raw in byte_strings(rows)] if dictionary else np.zeros(len(rows)), bool)
    support = support_of(plan.mechanism)
    reports = []
    for number, question in enumerate(plan.questions):
        if progress:
            progress("devices report", number / len(plan.questions))
        mine = index[groups == number]
        is_present = np.bincount(mine, minlength=len(rows)) > 0  # by `np.unique`, NumPy loads its masked arrays
        present, symbols = np.flatnonzero(is_present), (np.cumsum(is_present) - 1)[mine]
        asked = ~is_elsewhere[present]
        if plan.known:
            asked &= is_known[present] == (question.name == DICTIONARY)
        key = rng.bytes(32)
        cohorts = support.assign_cohorts(key, len(symbols))
        table = support.table(_words(question, rows[present], asked))
        devices = SimulatedDevices(plan.mechanism, table, symbols.astype(np.int32), cohorts, key)
        reports.append(devices.report())
    return tuple(reports)


def _words(question: Question, rows: Rows, asked: NDArray[np.bool_]) -> list[int]:
    """Return what the mechanism is given for each code: as `Plan.held` says, "elsewhere" for those not asked about."""
    each = zip(byte_strings(prefixes(rows, question.num_bits)), asked.tolist(), strict=True)
    return [question.word(raw if is_asked else b"") for raw, is_asked in each]
