"""From the answers of all devices to heavy hitters, whatever the protocol.

Prefix extension: count, keep the best, extend, and test what is left, with the dictionary's values. The lecture's
Theorem 2: in every bucket, the likelier value of every bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import Correction, IntervalKind, check_alpha, check_interval_kind
from overstory.analysis.selection.search_power import found_words, null_error, smallest_found
from overstory.discovery.codes import Rows, are_values, buckets_of, rows_of
from overstory.discovery.detection import (
    Tested,
    counts_of,
    exact_p_values,
    frequencies_of,
    joined,
    needed_support,
    selection_level,
)
from overstory.discovery.prefixes import Trail, ended_strings, search
from overstory.discovery.remainder import elsewhere_share, heavy_prefixes, remainder_notes
from overstory.discovery.result import F64, Discovered, nothing
from overstory.discovery.simulation import GroupReports, Progress, support_counts
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.search.plans import DICTIONARY, BitPlan, Plan, PrefixPlan, Question

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
    elsewhere = elsewhere_share(plan, reports, num_devices, mass)
    result = replace(
        joined(plan, parts, num_devices, alpha, correction),
        levels=trail.levels,
        tree=_tree(plan, trail),
        known_frequency=mass[0],
        known_standard_error=mass[1],
        elsewhere_frequency=elsewhere[0],
        elsewhere_standard_error=elsewhere[1],
    )
    return _prefix_limits(plan, replace(result, prefixes=heavy_prefixes(plan, trail, result)), trail)


def _tree(plan: PrefixPlan, trail: Trail) -> tuple[F64, ...]:
    """Return the estimates of what each level kept."""
    asked = zip(plan.levels, trail.levels, trail.frontiers, strict=False)
    return tuple(
        frequencies_of(question.mechanism, kept.supports, level.num_reports) for question, level, kept in asked
    )


def _tested(mechanism: Mechanism, rows: Any, supports: Any, sizes: tuple[int, int], tried: int, source: str) -> Tested:
    counts, errors = counts_of(mechanism, supports, *sizes)
    return Tested(rows, counts, errors, exact_p_values(mechanism, supports, sizes[0]), tried, source)


def _searched(plan: PrefixPlan, reports: Sequence[GroupReports], trail: Trail, num_devices: int) -> list[Tested]:
    """Return the strings that ended early, each with its level's later answers, and the values of the last level."""
    parts = [
        _tested(ended.mechanism, ended.rows, ended.supports, (ended.num_reports, num_devices), ended.tried, "search")
        for ended in ended_strings(plan, reports, trail)
    ]
    if trail.last is not None:
        sizes = len(reports[plan.level_groups[-1]][0]), num_devices
        last = trail.last
        parts.append(
            _tested(plan.levels[-1].mechanism, last.rows, last.supports, sizes, trail.levels[-1].tried, "search")
        )
    return parts


def _dictionary(
    plan: PrefixPlan, reports: Sequence[GroupReports], num_devices: int
) -> tuple[list[Tested], tuple[float, float] | tuple[None, None]]:
    """Return the dictionary's values, and its mass with its standard error: all that is not elsewhere."""
    question, batch = plan.groups[0].questions[0], reports[0][0]
    if not isinstance(question, Question) or question.name != DICTIONARY or not len(batch):
        return [], (None, None)
    codes, sizes = sorted(plan.known), (len(batch), num_devices)
    supports = support_counts(question.mechanism, batch, [question.value(code) for code in [*codes, None]])
    elsewhere, error = counts_of(question.mechanism, supports[-1:], *sizes)
    rows = rows_of(plan.domain, [plan.domain.value(code) for code in codes])
    tested = _tested(question.mechanism, rows, supports[:-1], sizes, len(codes), DICTIONARY)
    return [tested], (1 - float(elsewhere[0]) / num_devices, float(error[0]) / num_devices)


def _prefix_limits(plan: PrefixPlan, result: Discovered, trail: Trail) -> Discovered:
    """Say the threshold, and what could not have been seen."""
    if trail.last is None:
        missing = plan.levels[len(trail.levels)].num_bits
        note = f"too few reports: nobody answered for prefixes of {missing} bits, so nothing could be searched for"
        all_ended = f"every string ended before {missing} bits: each was tested by all later levels together"
        return replace(result, notes=(all_ended if trail.has_reports else note, *remainder_notes(result)))
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
    return (*notes, *remainder_notes(result))


NOTE: Final = (
    "a count is that of the value's bucket: other values that the public hash puts there are in it; of the buckets, "
    "only those whose recovered value hashes back to them are listed"
)


def find_bits(
    plan: BitPlan,
    reports: Sequence[GroupReports],
    num_devices: int,
    alpha: float,
    correction: Correction,
    progress: Progress | None,
) -> Discovered:
    """Return the values recovered from the buckets; see `overstory.discovery.find`.

    The bucket's count is the mean over the bits (or the sum over the groups) of the estimates of (t, 0) and (t, 1): it
    does not depend on which bit won, so it is unbiased.
    """
    batches = [batch for group in reports for batch in group]
    questions = [question for group in plan.groups for question in group.questions]
    weight = 1 if len(plan.groups) > 1 else 1 / len(questions)
    rows = np.zeros((plan.buckets, -(-plan.domain.width // 8)), np.uint8)
    total, squares, nobody = np.zeros(plan.buckets), np.zeros(plan.buckets), 0.0
    for bit, (question, batch) in enumerate(zip(questions, batches, strict=True)):
        if progress:
            progress(f"bit {bit + 1} of {len(questions)}", bit / len(questions))
        supports = support_counts(question.mechanism, batch, range(2 * plan.buckets)).reshape(-1, 2)
        rows[:, bit // 8] |= ((supports[:, 1] > supports[:, 0]) << (7 - bit % 8)).astype(np.uint8)
        if len(batch):
            counts, errors = counts_of(question.mechanism, supports, len(batch), len(batch))
            total += weight * counts.sum(axis=1)
            squares += weight**2 * (errors**2).sum(axis=1)
            nobody += 2 * (weight * len(batch) * null_error(question.mechanism, len(batch))) ** 2
    recovered = _consistent(plan, rows, total, np.sqrt(squares), math.sqrt(nobody))
    result = joined(plan, [recovered], num_devices, alpha, correction)
    return _bit_limits(result, [(q.mechanism, len(b)) for q, b in zip(questions, batches, strict=True)], nobody)


def _consistent(plan: BitPlan, rows: Rows, total: F64, errors: F64, null: float) -> Tested:
    """Keep the buckets whose recovered value is a value and hashes back to them: noise does so once in T.

    `errors` are the counts' own; `null` is that of an empty bucket, which p-values are about.
    """
    from scipy.special import ndtr

    back: NDArray[np.bool_] = buckets_of(rows, plan.key, plan.buckets) == np.arange(plan.buckets)
    chosen = np.flatnonzero(back & are_values(plan.domain, rows) & (total > 0))
    p_values = ndtr(-total[chosen] / null)
    return Tested(rows[chosen], total[chosen], errors[chosen], p_values, plan.buckets, "bits")


def _bit_limits(result: Discovered, asked: Sequence[tuple[Mechanism, int]], variance: float) -> Discovered:
    """Say the threshold; to be found, a value must also win every one of its bits."""
    quantile = NormalDist().inv_cdf(1 - selection_level(result))
    threshold = quantile * math.sqrt(variance) / result.num_reports
    errors = [math.sqrt(2) * null_error(mechanism, size) for mechanism, size in asked]
    spread = [*errors, math.sqrt(variance) / result.num_reports]
    boundaries = [*(0.0 for _ in errors), threshold]
    smallest = smallest_found(boundaries, spread)
    notes = (NOTE, found_words(boundaries, spread))
    return replace(result, threshold=threshold, detectable_frequency=smallest, notes=notes)


def find(
    plan: Plan,
    reports: Sequence[GroupReports],
    *,
    alpha: float = 0.05,
    correction: Correction = "fdr",
    interval_kind: IntervalKind = "reports",
    progress: Progress | None = None,
) -> Discovered:
    """Return the heavy hitters that the devices' answers show.

    Parameters
    ----------
    plan
        The plan that the devices followed.
    reports
        For each of its groups, a batch for each question.
    alpha, correction
        A value is detected when its p-value passes this rule over everything that the last questions tried: Benjamini
        and Hochberg's at a false discovery rate, or Bonferroni's at a chance of any false one.
    interval_kind
        What intervals are for: ``reports``, these devices; ``population``, all devices like these.
    progress
        Called with the progress after every level.

    Raises
    ------
    ParameterError
        When the batches do not fit the plan, or alpha is no level.

    Examples
    --------
    >>> import numpy as np
    >>> from overstory.discovery import CodedIntegers, prefix_extension, simulate
    >>> plan = prefix_extension(epsilon=4.0, domain=CodedIntegers(16), beam=8)
    >>> reports = simulate(plan, np.array([7] * 600 + [4711] * 400), np.random.default_rng(1))
    >>> find(plan, reports, correction="bonferroni").found()
    (7, 4711)
    """
    check_alpha(alpha)
    if correction not in {"fdr", "bonferroni"}:
        raise ParameterError(f"correction must be fdr or bonferroni, not {correction!r}")
    check_interval_kind(interval_kind)
    _check(plan, reports)
    return replace(_find(plan, reports, alpha, correction, progress), interval_kind=interval_kind)


def _find(
    plan: Plan, reports: Sequence[GroupReports], alpha: float, correction: Correction, progress: Progress | None
) -> Discovered:
    num_devices = sum(len(batches[0]) for batches in reports)
    if not num_devices:
        return nothing(plan, alpha, correction, "there are no reports: nothing can be estimated")
    if isinstance(plan, BitPlan):
        return find_bits(plan, reports, num_devices, alpha, correction, progress)
    assert isinstance(plan, PrefixPlan)
    return find_prefixes(plan, reports, num_devices, alpha, correction, progress)


def _check(plan: Plan, reports: Sequence[GroupReports]) -> None:
    if len(reports) != len(plan.groups):
        raise ParameterError(f"answers of {len(reports)} groups for a plan of {len(plan.groups)}")
    for number, (group, batches) in enumerate(zip(plan.groups, reports, strict=True)):
        asked = [(q.mechanism.payload_bits, q.mechanism.num_cohorts) for q in group.questions]
        given = [(batch.num_bits, batch.num_cohorts) for batch in batches]
        if asked != given or len({len(batch) for batch in batches}) != 1:
            raise ParameterError(f"group {number} answers other questions than its plan asks")
