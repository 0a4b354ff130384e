"""The server's half of prefix extension: count, keep the best, extend, and test what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch
from overstory.discovery.bulk import Rows, are_values, byte_strings, extensions, names_of
from overstory.discovery.domains import Domain, Strings
from overstory.discovery.limits import null_error
from overstory.discovery.plans import PrefixPlan
from overstory.discovery.questions import Question
from overstory.discovery.reading import LinearSupport, reader_of, support_counts
from overstory.discovery.result import F64, Level
from overstory.discovery.simulating import GroupReports, Progress
from overstory.discovery.support_tests import frequencies_of

AT_ONCE = 1 << 24  # prefixes counted before the best of them are taken: memory stays flat


@dataclass(frozen=True, eq=False)
class Kept:
    """The prefixes of one level with the most support.

    Attributes
    ----------
    rows
        The prefixes, most supported first.
    supports
        How many reports support each.
    tried
        How many were counted.
    total
        The sum of all supports that were counted.
    """

    rows: Rows
    supports: NDArray[np.int64]
    tried: int
    total: int


def extend(question: Question, batch: ReportBatch, parents: Rows, keep: int, domain: Domain) -> Kept:
    """Return the `keep` most supported extensions of `parents` by the question's step."""
    before, last = question.num_bits - question.step, question.num_bits == question.width
    best = Kept(np.zeros((0, -(-question.num_bits // 8)), np.uint8), np.zeros(0, np.int64), 0, 0)
    for some, counts in _counted(question, batch, parents):
        places = np.arange(counts.size)
        if last and isinstance(domain, Strings):
            places = places[are_values(domain, extensions(some, before, question.step))]
        supports = counts.ravel()[places]
        chosen = _largest(supports, keep)
        rows = np.concatenate((best.rows, extensions(some, before, question.step, places[chosen])))
        merged = np.concatenate((best.supports, supports[chosen]))
        order = _largest(merged, keep)
        best = Kept(rows[order], merged[order], best.tried + supports.size, best.total + int(supports.sum()))
    return best


def _counted(question: Question, batch: ReportBatch, parents: Rows) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """Yield parents, and the support of their extensions, in parts that fit into memory."""
    part = max(1, AT_ONCE >> question.step)
    reader = reader_of(question.mechanism)
    for start in range(0, len(parents), part):
        some = parents[start : start + part]
        if isinstance(reader, LinearSupport):
            words = np.array([question.parent_word(raw) for raw in byte_strings(some)], np.uint64)
            yield some, reader.blocks(batch, words, question.step)
        else:
            children = extensions(some, question.num_bits - question.step, question.step)
            yield some, support_counts(question.mechanism, batch, names_of(question, children))


def _largest(numbers: NDArray[np.int64], keep: int) -> NDArray[np.intp]:
    """Return the places of the largest numbers, largest first; of equal ones the first."""
    if numbers.size > keep:
        least = np.partition(numbers, numbers.size - keep)[numbers.size - keep]
        over, at = np.flatnonzero(numbers > least), np.flatnonzero(numbers == least)
        places = np.concatenate((over, at[: keep - over.size]))
    else:
        places = np.arange(numbers.size)
    return places[np.argsort(-numbers[places], kind="stable")]


@dataclass(frozen=True, eq=False)
class Trail:
    """A search as far as it came.

    Attributes
    ----------
    levels
        What each level tried and kept.
    tree
        The frequency estimates of what each level kept.
    last
        What the last level kept; None when a level had no reports.
    """

    levels: tuple[Level, ...]
    tree: tuple[F64, ...]
    last: Kept | None


def search(plan: PrefixPlan, reports: Sequence[GroupReports], keep: int, progress: Progress | None = None) -> Trail:
    """Extend prefixes level by level; the last level keeps `keep` values, the others the plan's beam."""
    levels: list[Level] = []
    tree: list[F64] = []
    kept = Kept(np.zeros((1, 0), np.uint8), np.zeros(1, np.int64), 1, 0)
    for place, (question, group) in enumerate(zip(plan.levels, plan.level_groups, strict=True)):
        (batch,) = reports[group]
        if progress:
            progress(f"prefixes of {question.num_bits} bits", place / len(plan.levels))
        if not len(batch):
            return Trail(tuple(levels), tuple(tree), None)
        wanted = keep if question.num_bits == question.width else plan.beam
        kept = extend(question, batch, kept.rows, wanted, plan.domain)
        estimates = frequencies_of(question.mechanism, kept.supports, len(batch))
        levels.append(_level(question, batch, kept, estimates))
        tree.append(estimates)
    return Trail(tuple(levels), tuple(tree), kept)


def _level(question: Question, batch: ReportBatch, kept: Kept, estimates: F64) -> Level:
    left = kept.tried - estimates.size
    rest = np.array([(kept.total - kept.supports.sum()) / max(left, 1)])
    return Level(
        name=question.name,
        num_bits=question.num_bits,
        num_reports=len(batch),
        tried=kept.tried,
        kept=estimates.size,
        standard_error=null_error(question.mechanism, len(batch)),
        cut=float(estimates.min(initial=np.inf)),
        background=float(frequencies_of(question.mechanism, rest, len(batch))[0]) if left else 0.0,
    )
