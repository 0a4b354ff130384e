"""From parameters to a plan."""

from __future__ import annotations

import math
from typing import Final

from overstory.planning.detection import (
    NINE_IN_TEN,
    critical_value,
    critical_value_fdr,
    detectable_frequency,
    detectable_frequency_fdr,
    learning_limit,
    reports_needed,
)
from overstory.planning.plan import AtShare, Plan
from overstory.planning.precision import count_error, fitted_candidates
from overstory.privacy import statement
from overstory.protocol.encodings import OneHot, check_count, whole_number
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism

EPSILON_REPORTS: Final = (1, 2, 3, 5, 10, 20, 100)
MOST: Final = 1 << 62


def plan_from_parameters(
    mechanism: BitMechanism,
    num_reports: int,
    num_candidates: int,
    *,
    alpha: float = 0.05,
    share: float | None = None,
) -> Plan:
    """Return what a collection with these parameters reveals and learns.

    Parameters
    ----------
    mechanism
        The mechanism: any RAPPOR.
    num_reports
        N, one report a device.
    num_candidates
        M, how many strings are looked for.
    alpha
        Level of the tests.
    share
        A share to plan for: how well a string of it will be known, and how many reports would detect it.

    Raises
    ------
    ParameterError
        When a number is out of range.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> plan = plan_from_parameters(mechanism("rappor"), 10**6, 200, share=0.01)
    >>> round(plan.standard_error), round(plan.detectable_frequency, 4), plan.learnable_strings
    (2976, 0.0104, 96)
    >>> plan.share.reports_needed
    1073003
    """
    num_reports, num_candidates = check_collection(num_reports, num_candidates)
    _check_domain(mechanism, num_candidates)
    quantile = critical_value(alpha, num_candidates)
    detectable = detectable_frequency(mechanism, num_reports, num_candidates, quantile)
    detectable_fdr = detectable_frequency_fdr(mechanism, num_reports, num_candidates, alpha)
    fitted = fitted_candidates(mechanism, num_candidates, detectable)
    error = count_error(mechanism, num_reports, 0.0, fitted)
    return Plan(
        mechanism=mechanism,
        num_reports=num_reports,
        num_candidates=num_candidates,
        alpha=alpha,
        privacy=statement(mechanism, reports=EPSILON_REPORTS),
        standard_error=error,
        critical_value=quantile,
        detectable_frequency=detectable,
        reliable_frequency=detectable + NINE_IN_TEN * error / num_reports,
        critical_value_fdr=critical_value_fdr(alpha, num_candidates, detectable_fdr),
        detectable_frequency_fdr=detectable_fdr,
        learnable_strings=min(num_candidates, int(learning_limit(mechanism, num_reports, num_candidates, alpha=alpha))),
        rule_of_thumb=math.sqrt(num_reports) / 10,
        num_fitted=fitted,
        share=None if share is None else _at_share(mechanism, num_reports, num_candidates, quantile, share, fitted),
    )


def _at_share(
    mechanism: BitMechanism, num_reports: int, num_candidates: int, quantile: float, share: float, fitted: int
) -> AtShare:
    needed = reports_needed(mechanism, num_candidates, share, quantile)
    error = count_error(mechanism, num_reports, share, fitted)
    return AtShare(share, share * num_reports, error, num_reports >= needed, needed)


def check_collection(num_reports: int, num_candidates: int) -> tuple[int, int]:
    """Return both numbers, or raise ParameterError unless there is something to collect and something to look for."""
    reports, candidates = whole_number(num_reports), whole_number(num_candidates)
    check_count("reports", reports, 1, MOST)
    check_count("candidates", candidates, 1, MOST)
    return reports, candidates


def _check_domain(mechanism: BitMechanism, num_candidates: int) -> None:
    encoding = mechanism.encoding
    if isinstance(encoding, OneHot) and num_candidates > encoding.domain_size:
        raise ParameterError(f"{num_candidates} candidates do not fit a domain of {encoding.domain_size} values")
