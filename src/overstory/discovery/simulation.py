"""Simulated devices that follow a plan: for experiments, and to see what would be found in one's own values.

The server's half of a question: what its devices would send, and how many reports support a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch
from overstory.analysis.support.registry import Rng, SimulatedDevices, generator, support_of
from overstory.analysis.support.symbols import LinearSupport
from overstory.discovery.codes import Rows, byte_strings, distinct, names_of, prefixes
from overstory.protocol.domains.unknown import ELSEWHERE
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.search.plans import DICTIONARY, Plan, Question, prefix_bytes


def respond(mechanism: Mechanism, names: Sequence[Any], symbols: NDArray[np.int64], key: bytes) -> ReportBatch:
    """Return one report of each device, device i holding ``names[symbols[i]]``, through the mechanism's own kernels."""
    support = support_of(mechanism)
    size = support.domain_size
    if size is None or isinstance(support, LinearSupport):
        table, held = support.table(names), symbols
    else:  # the domain is one range, and a name is its place in it
        table, held = support.table(range(size)), np.asarray(names, np.int64)[symbols]
    cohorts = support.assign_cohorts(key, len(symbols))
    return SimulatedDevices(mechanism, table, held.astype(np.int32), cohorts, key).report()


class Answers(Protocol):
    """Answers to one question that are not at hand, but counted wherever they are: files, and an engine over them."""

    num_bits: int
    num_cohorts: int

    def __len__(self) -> int: ...

    def support(self, values: Sequence[Any] | None) -> NDArray[np.int64]:
        """Return how many answers support each value; None: each of the domain."""
        ...

    def count_extensions(self, parents: NDArray[np.uint64], step: int) -> NDArray[np.int64]:
        """Return how many answers support each extension of `parents` by `step` bits, shape (b, 2**step)."""
        ...


def support_counts(mechanism: Mechanism, batch: ReportBatch | Answers, names: Sequence[Any]) -> NDArray[np.int64]:
    """Return how many reports support each of `names`; a range of all symbols is counted fastest."""
    support = support_of(mechanism)
    everything = isinstance(names, range) and names == range(support.domain_size or 0)
    values = None if everything else names
    if not isinstance(batch, ReportBatch):
        return batch.support(values)
    return np.asarray(support.count(batch, values).ones.sum(axis=0))


GroupReports = tuple[ReportBatch | Answers, ...]
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
    >>> from overstory.discovery import CodedIntegers, prefix_extension
    >>> plan = prefix_extension(epsilon=4.0, domain=CodedIntegers(16))
    >>> reports = simulate(plan, np.array([7] * 600 + [4711] * 400), rng=1)
    >>> len(reports), sum(len(batch.cohorts) for batches in reports for batch in batches)
    (2, 1000)
    """
    rows, index, is_elsewhere = distinct(plan.domain, values)
    rng = generator(rng)
    drawn = rng.integers(0, 1 << 32, len(index), dtype=np.uint64)
    bounds = np.array([group.threshold for group in plan.groups], np.uint64)
    groups = np.searchsorted(bounds, drawn, side="right")
    is_known = _are_known(plan, rows)
    reports = []
    for number, group in enumerate(plan.groups):
        if progress:
            progress("devices report", number / len(plan.groups))
        present, symbols = np.unique(index[groups == number], return_inverse=True)
        asked = (
            respond(
                question.mechanism,
                _names(plan, question, rows[present], is_known[present], is_elsewhere[present]),
                symbols,
                rng.bytes(32),
            )
            for question in group.questions
        )
        reports.append(tuple(asked))
    return tuple(reports)


def _are_known(plan: Plan, rows: Rows) -> NDArray[np.bool_]:
    width = plan.domain.width
    dictionary = {prefix_bytes(code, width, width) for code in plan.known}
    if not dictionary:
        return np.zeros(len(rows), np.bool_)
    return np.array([raw in dictionary for raw in byte_strings(rows)], np.bool_)


def _names(
    plan: Plan,
    question: Question,
    rows: Rows,
    is_known: NDArray[np.bool_],
    is_elsewhere: NDArray[np.bool_],
) -> Any:
    """Return what the mechanism is given for each code: `Plan.held`, then the question's value."""
    names = names_of(question, prefixes(rows, question.num_bits))
    asked = ~is_elsewhere
    if plan.known:
        asked &= is_known == (question.name == DICTIONARY)
    if not asked.all():
        elsewhere = question.name_of(ELSEWHERE)
        names = [name if is_one else elsewhere for name, is_one in zip(names, asked.tolist(), strict=True)]
    return names
