"""From needs to parameters, and from parameters to a plan: the best RAPPOR within two budgets.

Closed form, then exact thresholds that never exceed what was asked. Letters here are RAPPOR's: f, p, q; h hashes.
``E = exp(epsilon_report / h)`` is what one bit may reveal in a report, ``A = exp(epsilon_permanent / 2h)`` what any
number of reports may reveal, in one direction. docs/explanation/planning.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Final

from overstory.planning.detection import (
    NINE_IN_TEN,
    count_error,
    critical_value,
    critical_value_fdr,
    detectable_frequency,
    detectable_frequency_fdr,
    fitted_candidates,
    rare_error,
    reports_needed,
)
from overstory.planning.plan import ALPHA, RapporPlan
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import check_count, whole_number
from overstory.protocol.kinds.bits import BitMechanism, Bloom, OneHot, rappor

WRITTEN: Final = ("num_bits", "num_hashes", "num_cohorts", "f", "p", "q")  # of a RAPPOR, in a registry
MOST: Final = 1 << 62
LEAST_EPSILON: Final = 0.001
MOST_EPSILON: Final = 50.0
HASHES: Final = (1, 2, 3, 4)
GRID: Final = 10**9  # parameters are written with nine decimals
SIZES: Final = (32, 64, 128, 256)  # bits of a report; a multiple of 8 wastes nothing on the wire
MAX_COHORTS: Final = 32  # the paper's largest: a cohort is sent in the clear, and 32 of them tell 5 bits of a device
COHORT_REPORTS: Final = 1000  # fewer in a cohort, and a count of a rare bit is no longer near normal
TOLERANCE: Final = 1.05  # of the standard error without collisions
CONFUSION: Final = 1e-3  # expected pairs of candidates that no cohort tells apart


def plan_from_parameters(
    mechanism: BitMechanism,
    num_reports: int,
    num_candidates: int,
    *,
    alpha: float = ALPHA,
    share: float | None = None,
) -> RapporPlan:
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
    >>> from overstory.protocol.kinds.registry import mechanism
    >>> plan = plan_from_parameters(mechanism("rappor"), 10**6, 200, share=0.01)
    >>> round(plan.standard_error), round(plan.detectable_frequency, 4), plan.learnable_strings
    (2976, 0.0104, 96)
    >>> plan.people_needed
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

    return RapporPlan(
        mechanism=mechanism,
        written={name: value for name, value in mechanism.parameters.items() if name in WRITTEN},
        num_reports=num_reports,
        num_candidates=num_candidates,
        alpha=alpha,
        error=error / num_reports,
        critical_value=quantile,
        detectable_frequency=detectable,
        reliable_frequency=detectable + NINE_IN_TEN * error / num_reports,
        critical_value_fdr=critical_value_fdr(alpha, num_candidates, detectable_fdr),
        detectable_frequency_fdr=detectable_fdr,
        learnable_strings=min(num_candidates, int(1 / detectable)),
        num_fitted=fitted,
        asked=share,
        people_needed=None if share is None else reports_needed(mechanism, num_candidates, share, quantile),
    )


def check_collection(num_reports: int, num_candidates: int) -> tuple[int, int]:
    """Return both numbers, or raise ParameterError unless there is something to collect and something to look for."""
    reports, candidates = whole_number(num_reports), whole_number(num_candidates)
    check_count("reports", reports, 1, MOST)
    check_count("candidates", candidates, 1, MOST)
    return reports, candidates


def plan_from_needs(
    epsilon_report: float,
    epsilon_permanent: float,
    num_reports: int,
    num_candidates: int,
    *,
    alpha: float = ALPHA,
    share: float | None = None,
    hash_key: str = "",
) -> RapporPlan:
    """Return the plan of the RAPPOR with the smallest standard error whose exact epsilons are within the budgets.

    It has 1 to 4 hashes, and the fewest bits and cohorts with which collisions cost at most five percent. With `design`
    and `plan_from_parameters` other sizes are planned.

    Parameters
    ----------
    epsilon_report, epsilon_permanent
        What one report, and any number of reports of one value, may reveal at most.
    num_reports, num_candidates
        The collection: N, one report a device, and M.
    alpha, share
        As in `plan_from_parameters`.
    hash_key
        The public key of the Bloom filter's hashes.

    Raises
    ------
    ParameterError
        When the budgets contradict each other, or a number is out of range.

    Examples
    --------
    >>> plan = plan_from_needs(1.0743, 4.3945, 10**6, 200)
    >>> {letter: round(value, 4) for letter, value in plan.parameters.items()}
    {'k': 128, 'h': 1, 'm': 32, 'p': 0.2239, 'q': 0.5307, 'f': 0.2}
    >>> round(plan.standard_error)  # with the paper's f = p = 1/2, q = 3/4, h = 2 and m = 16, which spend as much, 2976
    1832
    """
    _check_budgets(epsilon_report, epsilon_permanent)
    num_reports, num_candidates = check_collection(num_reports, num_candidates)

    designs = []
    for hashes in HASHES:
        sizes = {"num_bits": SIZES[0], "num_hashes": hashes, "num_cohorts": 1}
        small = design(epsilon_report, epsilon_permanent, **sizes, hash_key=hash_key)
        designs.append(_sized(small, num_reports, num_candidates, alpha))
    best = min(designs, key=lambda mechanism: rare_error(mechanism, num_reports, num_candidates, alpha))
    plan = plan_from_parameters(best, num_reports, num_candidates, alpha=alpha, share=share)
    enough = sufficient_permanent(epsilon_report, int(plan.parameters["h"]))
    return replace(plan, sufficient_epsilon_permanent=max(epsilon_report, enough))


def _check_budgets(epsilon_report: float, epsilon_permanent: float) -> None:
    for name, epsilon in (("epsilon_report", epsilon_report), ("epsilon_permanent", epsilon_permanent)):
        if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:  # a NaN lands here as well
            raise ParameterError(f"{name} = {epsilon!r}: give a number from {LEAST_EPSILON} to {MOST_EPSILON:g}")
    if epsilon_permanent < epsilon_report:
        raise ParameterError(
            f"epsilon_permanent = {epsilon_permanent} is below epsilon_report = {epsilon_report}: all reports of a "
            "value together reveal at least what one does; lower epsilon_report or raise epsilon_permanent"
        )


def best_channel(growth: float, ceiling: float) -> tuple[float, float]:
    """Return (P(1|1), P(1|0)) of a report with the least variance of a rare string.

    E = `growth` is by what the odds of a 1 may grow, A = `ceiling` the largest P(1|1) / P(1|0), and P(0|0) / P(0|1).
    With o the odds of a 1 from a 0 the variance is proportional to ``(1+Eo)^2 / o``, least at o = 1/E: the optimized
    unary encoding. ``r = P(1|1) / P(1|0) = E (1+o) / (1+Eo)`` falls with o: beyond A or E/A that end is the best.
    """
    odds, ratio = 1 / growth, (growth + 1) / 2
    allowed = min(max(ratio, growth / ceiling), ceiling)
    if allowed != ratio:
        odds = (growth - allowed) / (growth * (allowed - 1))
    return growth * odds / (1 + growth * odds), odds / (1 + odds)


def sufficient_permanent(epsilon_report: float, num_hashes: int = 1) -> float:
    """Return the permanent budget beyond which one report does not become more precise: 2h ln((E + 1) / 2)."""
    return 2 * num_hashes * math.log((math.exp(epsilon_report / num_hashes) + 1) / 2)


def design(
    epsilon_report: float,
    epsilon_permanent: float,
    *,
    num_bits: int,
    num_hashes: int,
    num_cohorts: int,
    hash_key: str = "",
) -> BitMechanism:
    """Return the RAPPOR of least variance within two exact epsilons; One-time RAPPOR where they are equal."""

    def build(f: int, p: int, q: int) -> BitMechanism:
        return rappor(
            num_bits=num_bits,
            num_hashes=num_hashes,
            num_cohorts=num_cohorts,
            f=f / GRID,
            p=p / GRID,
            q=q / GRID,
            hash_key=hash_key,
        )

    f = max(1, _up(2 / (1 + math.exp(epsilon_permanent / (2 * num_hashes)))))
    while (permanent := build(f, 0, GRID)).epsilon_permanent > epsilon_permanent:
        f += 1
    p, q = _instantaneous(permanent, math.exp(epsilon_report / num_hashes))
    while (best := build(f, p, q)).epsilon_report > epsilon_report:
        p, q = p + 1, q - 1
    return best


def _instantaneous(permanent: BitMechanism, growth: float) -> tuple[int, int]:
    """Solve P = p + (q - p) a, Q = p + (q - p) b for p and q: the round after a permanent channel (a, b)."""
    channel = permanent.rounds.permanent
    keep_one, raise_zero, span = float(channel.keep_one), float(channel.raise_zero), float(channel.span)
    to_one, to_zero = best_channel(growth, keep_one / raise_zero)
    gap = (to_one - to_zero) / span
    p = to_zero - raise_zero * gap
    return max(0, _up(p)), min(GRID, -_up(-(p + gap)))


def _up(value: float) -> int:
    """Return the next integer above ``value * GRID``, apart from the rounding error of `value`."""
    return math.ceil(value * GRID - 1e-3)


def _sized(mechanism: BitMechanism, num_reports: int, num_candidates: int, alpha: float) -> BitMechanism:
    """Return the same channels over the fewest bits, then the fewest cohorts, whose collisions cost at most 5%."""
    given, hashes = mechanism.parameters, int(mechanism.parameters["num_hashes"])
    most = max(1, min(MAX_COHORTS, num_reports // COHORT_REPORTS))
    alone = BitMechanism("basic-rappor", {}, OneHot(2), mechanism.rounds)  # one bit that nothing collides with
    enough = TOLERANCE * count_error(alone, num_reports, 0.0, 1) / math.sqrt(hashes)
    pairs = num_candidates * (num_candidates - 1) / 2
    for bits, groups in product(SIZES, (1 << power for power in range(most.bit_length()))):
        # The same channels over a filter of another size: privacy does not depend on it.
        filters = Bloom(bits, hashes, groups, given["hash_family"], given["hash_key"])
        parameters = {**given, "num_bits": bits, "num_cohorts": groups}
        sized = replace(mechanism, parameters=parameters, encoding=filters)
        # The expected number of pairs of candidates with the same bits in every cohort.
        confused = math.exp(math.log(pairs) - groups * math.log(math.comb(bits, hashes))) if pairs else 0.0
        if confused <= CONFUSION and rare_error(sized, num_reports, num_candidates, alpha) <= enough:
            break
    return sized
