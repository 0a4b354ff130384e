"""From needs to parameters: the best RAPPOR within two budgets, and what it gains over the paper's.

From parameters to a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from overstory.planning.design import SIZES, choose_sizes, design, sufficient_permanent
from overstory.planning.detection import (
    NINE_IN_TEN,
    count_error,
    critical_value,
    critical_value_fdr,
    detectable_frequency,
    detectable_frequency_fdr,
    fitted_candidates,
    learning_limit,
    rare_error,
    reports_needed,
)
from overstory.planning.nearest import COMMON_SHARE, Nearest, nearest
from overstory.planning.plan import PAPER, AtShare, Comparison, Plan, letters, paper_design
from overstory.privacy import statement
from overstory.protocol.encodings.base import check_count, whole_number
from overstory.protocol.encodings.bits import Bloom, OneHot
from overstory.protocol.encodings.hashing import GoogleRapporPython
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import BitMechanism

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
        The mechanism that the devices would use: any RAPPOR.
    num_reports
        N, the number of reports, one report a device.
    num_candidates
        M, how many strings are looked for.
    alpha
        The level of the tests, above 0 and below 1.
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
    if mechanism.domain_size is not None and num_candidates > mechanism.domain_size:
        raise ParameterError(f"{num_candidates} candidates do not fit a domain of {mechanism.domain_size} values")
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


LEAST_EPSILON: Final = 0.001
MOST_EPSILON: Final = 50.0
HASHES: Final = (1, 2, 3, 4)


def plan_from_needs(
    epsilon_report: float,
    epsilon_permanent: float,
    num_reports: int,
    num_candidates: int,
    *,
    alpha: float = 0.05,
    share: float | None = None,
    frequency: float = 0.0,
    num_bits: int | None = None,
    num_hashes: int | Sequence[int] | None = None,
    num_cohorts: int | None = None,
    thrifty: bool = False,
    hash_family: str = "overstory-v1",
    hash_key: str = "",
) -> Plan:
    """Return the plan of the RAPPOR with the smallest standard error whose exact epsilons are within the budgets.

    Parameters
    ----------
    epsilon_report, epsilon_permanent
        What one report, and any number of reports of one value, may reveal at most.
    num_reports, num_candidates
        The collection: N, one report a device, and M.
    alpha, share
        As in `plan_from_parameters`.
    frequency
        The share at which the standard error is made smallest; rare strings (0) are the hard ones.
    num_bits, num_hashes, num_cohorts
        Fix k, h (or the h allowed), m; otherwise h is chosen among 1 to 4, and the fewest bits and cohorts with which
        collisions cost at most five percent.
    thrifty
        Spend no more of the permanent budget than makes one report more precise.
    hash_family, hash_key
        The name of the Bloom filter's hash family, and its public key.

    Raises
    ------
    ParameterError
        When the budgets contradict each other, or a number is out of range.

    Examples
    --------
    >>> plan = plan_from_needs(1.0743, 4.3945, 10**6, 200, num_bits=128, num_cohorts=16)
    >>> {letter: round(value, 4) for letter, value in plan.parameters.items()}
    {'k': 128, 'h': 1, 'm': 16, 'p': 0.2239, 'q': 0.5307, 'f': 0.2}
    >>> round(plan.standard_error), round(plan.comparison.standard_error)
    (1880, 2976)
    """
    _check_budgets(epsilon_report, epsilon_permanent, frequency)
    num_reports, num_candidates = check_collection(num_reports, num_candidates)

    def best_for(epsilon: float, ceiling: float, number: int) -> BitMechanism:
        designs = []
        for hashes in _allowed(num_hashes, num_bits):
            enough = max(epsilon, sufficient_permanent(epsilon, hashes))
            small = design(
                epsilon,
                min(ceiling, enough) if thrifty else ceiling,
                num_bits=SIZES[0] if num_bits is None else num_bits,
                num_hashes=hashes,
                num_cohorts=1 if num_cohorts is None else num_cohorts,
                hash_family=hash_family,
                hash_key=hash_key,
                frequency=frequency,
            )
            designs.append(_sized(small, number, num_candidates, alpha, num_bits=num_bits, num_cohorts=num_cohorts))
        return min(designs, key=lambda mechanism: rare_error(mechanism, number, num_candidates, alpha))

    best = best_for(epsilon_report, epsilon_permanent, num_reports)
    plan = plan_from_parameters(best, num_reports, num_candidates, alpha=alpha, share=share)
    hashes = int(plan.parameters["h"])
    return replace(
        plan,
        nearest=_nearest(plan, best_for, epsilon_report, epsilon_permanent),
        sufficient_epsilon_permanent=max(epsilon_report, sufficient_permanent(epsilon_report, hashes)),
        basic_standard_error=_bit_error(best, num_reports) if hashes == 1 else None,
        comparison=_compare(plan, epsilon_report, epsilon_permanent),
    )


def _nearest(
    plan: Plan, best_for: Callable[[float, float, int], BitMechanism], epsilon_report: float, epsilon_permanent: float
) -> Nearest | None:
    """Return the needs with which the share asked for would be detected; a common one where nothing would be."""
    if plan.share is None and plan.detectable_frequency <= 1:
        return None
    share = COMMON_SHARE if plan.share is None else plan.share.frequency
    if plan.share is not None and plan.share.detectable:
        return None

    def devices_needed(epsilon: float, ceiling: float | None, number: int) -> int:
        best = best_for(epsilon, ceiling or epsilon, number)
        return reports_needed(best, plan.num_candidates, share, plan.critical_value)

    smallest = plan.detectable_frequency if plan.detectable_frequency <= 1 else None
    budgets = epsilon_report, epsilon_permanent, plan.num_reports
    return nearest(devices_needed, *budgets, share=share, smallest_share=smallest)


def _check_budgets(epsilon_report: float, epsilon_permanent: float, frequency: float) -> None:
    for name, epsilon in (("epsilon_report", epsilon_report), ("epsilon_permanent", epsilon_permanent)):
        if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:  # a NaN lands here as well
            raise ParameterError(f"{name} = {epsilon!r}: give a number from {LEAST_EPSILON} to {MOST_EPSILON:g}")
    if epsilon_permanent < epsilon_report:
        raise ParameterError(
            f"epsilon_permanent = {epsilon_permanent} is below epsilon_report = {epsilon_report}: all reports of a "
            "value together reveal at least what one does; lower epsilon_report or raise epsilon_permanent"
        )
    if not 0 <= frequency < 1:
        raise ParameterError(f"frequency = {frequency!r}: give a share from 0 to below 1")


def _allowed(num_hashes: int | Sequence[int] | None, num_bits: int | None) -> Sequence[int]:
    """Return the numbers of hashes to try; one that is asked for is tried, and refused, whatever the size."""
    hashes = (num_hashes,) if isinstance(num_hashes, int) else HASHES if num_hashes is None else tuple(num_hashes)
    if not hashes or min(hashes) < 1:
        raise ParameterError(f"num_hashes (h) = {num_hashes!r}: give whole numbers of at least 1")
    return [h for h in hashes if num_bits is None or h < num_bits] or hashes


def resized(mechanism: BitMechanism, num_bits: int, num_cohorts: int) -> BitMechanism:
    """Return the same channels over a filter of another size: privacy does not depend on it."""
    parameters = {**mechanism.parameters, "num_bits": num_bits, "num_cohorts": num_cohorts}
    filters = Bloom(
        *(parameters[name] for name in ("num_bits", "num_hashes", "num_cohorts", "hash_family", "hash_key"))
    )
    return replace(mechanism, parameters=parameters, encoding=filters)


def _sized(
    mechanism: BitMechanism,
    num_reports: int,
    num_candidates: int,
    alpha: float,
    *,
    num_bits: int | None,
    num_cohorts: int | None,
) -> BitMechanism:
    hashes = int(mechanism.parameters["num_hashes"])
    google = mechanism.parameters["hash_family"] == GoogleRapporPython.name
    bits, cohorts = choose_sizes(
        lambda bits, cohorts: rare_error(resized(mechanism, bits, cohorts), num_reports, num_candidates, alpha),
        ideal=_bit_error(mechanism, num_reports) / math.sqrt(hashes),
        num_reports=num_reports,
        num_candidates=num_candidates,
        num_hashes=hashes,
        sizes=(num_bits,) if num_bits is not None else SIZES[:1] if google else SIZES,
        num_cohorts=num_cohorts,
    )
    return resized(mechanism, bits, cohorts)


def _bit_error(mechanism: BitMechanism, num_reports: int) -> float:
    """Return the standard error from one bit that nothing collides with."""
    alone = BitMechanism("basic-rappor", {}, OneHot(2), mechanism.rounds)
    return count_error(alone, num_reports, 0.0, 1)


def _compare(plan: Plan, epsilon_report: float, epsilon_permanent: float) -> Comparison | None:
    if plan.parameters["k"] <= 2 * PAPER["num_hashes"]:
        return None  # so small a filter cannot hold two filters of two hashes apart
    other = paper_design(epsilon_report, epsilon_permanent, plan.mechanism)
    paper = plan_from_parameters(other, plan.num_reports, plan.num_candidates, alpha=plan.alpha)
    ratio = paper.standard_error / plan.standard_error
    higher = tuple(n for n in EPSILON_REPORTS if plan.epsilon_n[n] > paper.epsilon_n[n] + 1e-6)
    return Comparison(
        parameters=MappingProxyType(letters(other)),
        epsilon_report=paper.epsilon_report,
        epsilon_permanent=paper.epsilon_permanent,
        epsilon_n=paper.epsilon_n,
        change_leak=paper.privacy.change_leak,
        epsilon_shuffled=paper.shuffled.epsilon,
        influence=paper.mechanism.influence,
        standard_error=paper.standard_error,
        detectable_frequency=paper.detectable_frequency,
        standard_error_ratio=ratio,
        reports_ratio=ratio**2,
        higher_epsilon_n=higher,
    )
