"""From the answers of all devices to heavy hitters, whatever the protocol.

The lecture's Theorem 2 on the server: in every bucket, the likelier value of every bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import Correction, IntervalKind, check_alpha, check_interval_kind
from overstory.discovery.codes import Rows, are_values, buckets_of
from overstory.discovery.limits import found_words, null_error, smallest_found
from overstory.discovery.plans import BitPlan, Plan, PrefixPlan
from overstory.discovery.result import F64, Discovered, nothing
from overstory.discovery.search import find_prefixes
from overstory.discovery.simulation import GroupReports, Progress, support_counts
from overstory.discovery.support_tests import Found, counts_of, joined, selection_level
from overstory.protocol.errors import ParameterError

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
    found = _consistent(plan, rows, total, np.sqrt(squares), math.sqrt(nobody))
    result = joined(plan, [found], num_devices, alpha, correction)
    return _with_limits(result, [(q.mechanism, len(b)) for q, b in zip(questions, batches, strict=True)], nobody)


def _consistent(plan: BitPlan, rows: Rows, total: F64, errors: F64, null: float) -> Found:
    """Keep the buckets whose recovered value is a value and hashes back to them: noise does so once in T.

    `errors` are the counts' own; `null` is that of an empty bucket, which p-values are about.
    """
    from scipy.special import ndtr

    back: NDArray[np.bool_] = buckets_of(rows, plan.key, plan.buckets) == np.arange(plan.buckets)
    chosen = np.flatnonzero(back & are_values(plan.domain, rows) & (total > 0))
    p_values = ndtr(-total[chosen] / null)
    return Found(rows[chosen], total[chosen], errors[chosen], p_values, plan.buckets, "bits")


def _with_limits(result: Discovered, asked: Sequence[tuple[object, int]], variance: float) -> Discovered:
    """Say the threshold; to be found, a value must also win every one of its bits."""
    quantile = NormalDist().inv_cdf(1 - selection_level(result))
    threshold = quantile * math.sqrt(variance) / result.num_reports
    errors = [math.sqrt(2) * null_error(mechanism, size) for mechanism, size in asked]  # type: ignore[arg-type]
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
    >>> from overstory.discovery import Integers, prefix_extension, simulate
    >>> plan = prefix_extension(epsilon=4.0, domain=Integers(16), beam=8)
    >>> reports = simulate(plan, np.array([7] * 600 + [4711] * 400), np.random.default_rng(1))
    >>> find(plan, reports, correction="bonferroni").found()
    (7, 4711)
    """
    check_alpha(alpha)
    if correction not in {"fdr", "bonferroni"}:
        raise ParameterError(f"correction must be fdr or bonferroni, not {correction!r}")
    check_interval_kind(interval_kind)
    _check(plan, reports)
    return replace(_found(plan, reports, alpha, correction, progress), interval_kind=interval_kind)


def _found(
    plan: Plan, reports: Sequence[GroupReports], alpha: float, correction: Correction, progress: Progress | None
) -> Discovered:
    num_devices = sum(len(batches[0]) for batches in reports)
    if not num_devices:
        return nothing(plan, alpha, correction, "there are no reports: nothing can be said")
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
