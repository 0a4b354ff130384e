"""Prefix extension, and the dictionary before it: what is found, how surely, and what could not be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from overstory.analysis.selection import Correction
from overstory.discovery.bulk import rows_of
from overstory.discovery.limits import found_words, smallest_found
from overstory.discovery.plans import DICTIONARY, PrefixPlan
from overstory.discovery.questions import Question
from overstory.discovery.reading import support_counts
from overstory.discovery.result import Discovered
from overstory.discovery.search import Trail, search
from overstory.discovery.simulating import GroupReports, Progress
from overstory.discovery.support_tests import counts_of, exact_p_values, frequencies_of, needed_support
from overstory.discovery.tables import Found, joined, selection_level

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
