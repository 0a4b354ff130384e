"""From the answers of all devices to heavy hitters, whatever the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from overstory.analysis.selection import Correction, IntervalKind, check_alpha, check_interval_kind
from overstory.discovery.bit_search import find_bits
from overstory.discovery.plans import BitPlan, Plan, PrefixPlan
from overstory.discovery.prefix_search import find_prefixes
from overstory.discovery.result import Discovered, nothing
from overstory.discovery.simulating import GroupReports, Progress
from overstory.protocol.errors import ParameterError


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
        The devices' plan.
    reports
        For each of its groups, a batch for each question.
    alpha, correction
        A value is detected when its p-value passes this rule over everything that the last questions tried: Benjamini
        and Hochberg's at a false discovery rate, or Bonferroni's at a chance of any false one.
    interval_kind
        What intervals are for: ``reports``, these devices; ``population``, all devices like these.
    progress
        Told of every level.

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
