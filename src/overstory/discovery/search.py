"""The server's half of prefix extension: count, keep the best, extend, and test what is left.

Prefix extension, and the dictionary before it: what is found, how surely, and what could not be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch
from overstory.analysis.selection import Correction
from overstory.analysis.support.registry import support_of
from overstory.analysis.support.symbols import LinearSupport
from overstory.discovery.codes import Rows, are_values, byte_strings, extensions, names_of, rows_of
from overstory.discovery.domains import Domain, Strings
from overstory.discovery.limits import found_words, null_error, smallest_found
from overstory.discovery.plans import DICTIONARY, PrefixPlan
from overstory.discovery.questions import Question
from overstory.discovery.result import F64, Discovered, Level
from overstory.discovery.simulation import GroupReports, Progress, support_counts
from overstory.discovery.support_tests import (
    Found,
    counts_of,
    exact_p_values,
    frequencies_of,
    joined,
    needed_support,
    selection_level,
)

AT_ONCE = 1 << 24  # prefixes counted before the best of them are taken: memory stays flat


@dataclass(frozen=True, eq=False)
class Kept:
    """The prefixes of one level with the most support."""

    rows: Rows  # the prefixes, most supported first
    supports: NDArray[np.int64]  # how many reports support each
    tried: int  # how many were counted
    total: int  # the sum of all supports that were counted


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
    support = support_of(question.mechanism)
    for start in range(0, len(parents), part):
        some = parents[start : start + part]
        if isinstance(support, LinearSupport):
            words = np.array([question.parent_word(raw) for raw in byte_strings(some)], np.uint64)
            yield some, support.count_extensions(batch, words, question.step)
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
    """A search as far as it came."""

    levels: tuple[Level, ...]  # what each level tried and kept
    tree: tuple[F64, ...]  # the frequency estimates of what each level kept
    last: Kept | None  # what the last level kept; None when a level had no reports


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


KEEP: Final = 1024
"""Values that the last level keeps, whether detected or not."""


def find_prefixes(
    plan: PrefixPlan,
    reports: Sequence[GroupReports],
    num_devices: int,
    alpha: float,
    correction: Correction,
    progress: Progress | None,
) -> Discovered:
    """Return the dictionary's values and the searched ones; see `overstory.discovery.find`."""
    trail = search(plan, reports, max(KEEP, plan.beam), progress)
    parts, mass = _dictionary(plan, reports, num_devices)
    parts += _searched(plan, reports, trail, num_devices)
    result = joined(plan, parts, num_devices, alpha, correction)
    result = replace(
        result, levels=trail.levels, tree=trail.tree, known_frequency=mass[0], known_standard_error=mass[1]
    )
    return _with_limits(plan, result, trail)


def _found(question: Question, rows: Any, supports: Any, sizes: tuple[int, int], tried: int, source: str) -> Found:
    counts, errors = counts_of(question.mechanism, supports, *sizes)
    return Found(rows, counts, errors, exact_p_values(question.mechanism, supports, sizes[0]), tried, source)


def _searched(plan: PrefixPlan, reports: Sequence[GroupReports], trail: Trail, num_devices: int) -> list[Found]:
    if trail.last is None:
        return []
    sizes = len(reports[plan.level_groups[-1]][0]), num_devices
    return [_found(plan.levels[-1], trail.last.rows, trail.last.supports, sizes, trail.last.tried, "search")]


def _dictionary(
    plan: PrefixPlan, reports: Sequence[GroupReports], num_devices: int
) -> tuple[list[Found], tuple[float, float] | tuple[None, None]]:
    """Return the dictionary's values, and its mass with its standard error: all that is not elsewhere."""
    question, batch = plan.groups[0].questions[0], reports[0][0]
    if not isinstance(question, Question) or question.name != DICTIONARY or not len(batch):
        return [], (None, None)
    codes, sizes = sorted(plan.known), (len(batch), num_devices)
    supports = support_counts(question.mechanism, batch, [question.value(code) for code in [*codes, None]])
    elsewhere, error = counts_of(question.mechanism, supports[-1:], *sizes)
    rows = rows_of(plan.domain, [plan.domain.value(code) for code in codes])
    found = _found(question, rows, supports[:-1], sizes, len(codes), DICTIONARY)
    return [found], (1 - float(elsewhere[0]) / num_devices, float(error[0]) / num_devices)


def _with_limits(plan: PrefixPlan, result: Discovered, trail: Trail) -> Discovered:
    """Say the threshold, and what could not have been seen."""
    if trail.last is None:
        missing = plan.levels[len(trail.levels)].num_bits
        note = f"too few reports: nobody answered for prefixes of {missing} bits, so nothing could be searched for"
        return replace(result, notes=(note,))
    mechanism, num_reports = plan.levels[-1].mechanism, trail.levels[-1].num_reports
    needed = needed_support(mechanism, num_reports, selection_level(result))
    threshold = float(frequencies_of(mechanism, np.array(needed), num_reports))
    boundaries = [level.cut - level.background for level in trail.levels[:-1]] + [threshold]
    errors = [level.standard_error for level in trail.levels]
    notes = _notes(plan, result, found_words(boundaries, errors))
    smallest = smallest_found(boundaries, errors)
    return replace(result, threshold=threshold, detectable_frequency=smallest, notes=notes)


def _notes(plan: PrefixPlan, result: Discovered, seen: str) -> tuple[str, ...]:
    notes = [seen]
    if np.count_nonzero(result.detected()) >= plan.beam / 2:
        notes.append(
            "the detected values fill half of the beam or more: raise it, others may have found no place in it"
        )
    if plan.known and result.known_frequency is not None:
        rest = 1 - result.known_frequency
        notes.append(f"{rest:.1%} of the users hold a value outside the dictionary (standard error "
                     f"{result.known_standard_error:.1%}); only those values were searched for")  # fmt: skip
    return tuple(notes)
