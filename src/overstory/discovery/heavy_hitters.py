"""From the answers of all devices to heavy hitters, whatever the protocol.

Prefix extension: count, keep the best, extend, and test what is left, with the dictionary's values. The lecture's
Theorem 2: in every bucket, the likelier value of every bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch
from overstory.analysis.selection import Correction, IntervalKind, check_alpha, check_interval_kind
from overstory.analysis.support.registry import support_of
from overstory.analysis.support.symbols import LinearSupport
from overstory.discovery.codes import Rows, are_values, buckets_of, byte_strings, extensions, names_of, rows_of
from overstory.discovery.detection import (
    Tested,
    counts_of,
    exact_p_values,
    found_words,
    frequencies_of,
    joined,
    needed_support,
    null_error,
    selection_level,
    smallest_found,
)
from overstory.discovery.result import F64, Discovered, Level, nothing
from overstory.discovery.simulation import GroupReports, Progress, support_counts
from overstory.protocol.domains.codes import CodedDomain, CodedStrings
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.search.plans import DICTIONARY, BitPlan, Plan, PrefixPlan, Question

AT_ONCE = 1 << 24  # prefixes counted before the best of them are taken: memory stays flat


@dataclass(frozen=True, eq=False)
class Frontier:
    """The prefixes of one level with the most support."""

    rows: Rows  # the prefixes, most supported first
    supports: NDArray[np.int64]  # how many reports support each
    tried: int  # how many were counted
    total: int  # the sum of all supports that were counted


def extend(question: Question, batch: ReportBatch, parents: Rows, keep: int, domain: CodedDomain) -> Frontier:
    """Return the `keep` most supported extensions of `parents` by the question's step."""
    before, last = question.num_bits - question.step, question.num_bits == question.width
    best = Frontier(np.zeros((0, -(-question.num_bits // 8)), np.uint8), np.zeros(0, np.int64), 0, 0)
    for some, counts in _counted(question, batch, parents):
        places = np.arange(counts.size)
        if last and isinstance(domain, CodedStrings):
            places = places[are_values(domain, extensions(some, before, question.step))]
        supports = counts.ravel()[places]
        chosen = _largest(supports, keep)
        rows = np.concatenate((best.rows, extensions(some, before, question.step, places[chosen])))
        merged = np.concatenate((best.supports, supports[chosen]))
        order = _largest(merged, keep)
        best = Frontier(rows[order], merged[order], best.tried + supports.size, best.total + int(supports.sum()))
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

    levels: tuple[Level, ...]  # what each level tried and let through
    tree: tuple[F64, ...]  # the frequency estimates of what each level kept
    last: Frontier | None  # the last level's; None when a level had no reports


def search(plan: PrefixPlan, reports: Sequence[GroupReports], keep: int, progress: Progress | None = None) -> Trail:
    """Extend prefixes level by level; the last level keeps `keep` values, the others the plan's beam."""
    levels: list[Level] = []
    tree: list[F64] = []
    frontier = Frontier(np.zeros((1, 0), np.uint8), np.zeros(1, np.int64), 1, 0)
    for place, (question, group) in enumerate(zip(plan.levels, plan.level_groups, strict=True)):
        (batch,) = reports[group]
        if progress:
            progress(f"prefixes of {question.num_bits} bits", place / len(plan.levels))
        if not len(batch):
            return Trail(tuple(levels), tuple(tree), None)
        wanted = keep if question.num_bits == question.width else plan.beam
        frontier = extend(question, batch, frontier.rows, wanted, plan.domain)
        estimates = frequencies_of(question.mechanism, frontier.supports, len(batch))
        levels.append(_level(question, batch, frontier, estimates))
        tree.append(estimates)
    return Trail(tuple(levels), tuple(tree), frontier)


def _level(question: Question, batch: ReportBatch, frontier: Frontier, estimates: F64) -> Level:
    left = frontier.tried - estimates.size
    rest = np.array([(frontier.total - frontier.supports.sum()) / max(left, 1)])
    return Level(
        name=question.name,
        num_bits=question.num_bits,
        num_reports=len(batch),
        tried=frontier.tried,
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
    return _prefix_limits(plan, result, trail)


def _tested(question: Question, rows: Any, supports: Any, sizes: tuple[int, int], tried: int, source: str) -> Tested:
    counts, errors = counts_of(question.mechanism, supports, *sizes)
    return Tested(rows, counts, errors, exact_p_values(question.mechanism, supports, sizes[0]), tried, source)


def _searched(plan: PrefixPlan, reports: Sequence[GroupReports], trail: Trail, num_devices: int) -> list[Tested]:
    if trail.last is None:
        return []
    sizes = len(reports[plan.level_groups[-1]][0]), num_devices
    return [_tested(plan.levels[-1], trail.last.rows, trail.last.supports, sizes, trail.last.tried, "search")]


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
    tested = _tested(question, rows, supports[:-1], sizes, len(codes), DICTIONARY)
    return [tested], (1 - float(elsewhere[0]) / num_devices, float(error[0]) / num_devices)


def _prefix_limits(plan: PrefixPlan, result: Discovered, trail: Trail) -> Discovered:
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
