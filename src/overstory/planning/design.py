"""The best RAPPOR for two budgets: closed form, then exact thresholds that never exceed what was asked.

Letters here are RAPPOR's: f, p, q; h hashes. ``E = exp(epsilon_report / h)`` is what one bit may reveal in a report,
``A = exp(epsilon_permanent / 2h)`` what any number of reports may reveal, in one direction.
docs/explanation/planning.md has the proofs.

Report size against collisions: how many bits and cohorts a collection needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from overstory.protocol.mechanisms.bits import rappor
from overstory.protocol.mechanisms.payloads import BitMechanism

GRID: Final = 10**9  # parameters are written with nine decimals


def best_channel(growth: float, ceiling: float, frequency: float = 0.0) -> tuple[float, float]:
    """Return (P(1|1), P(1|0)) of a report with the least variance at `frequency`.

    The odds of a 1 may grow by the factor E = `growth`, from a bit that is 0 to a bit that is 1; A = `ceiling` is the
    largest ratio P(1|1) / P(1|0), and P(0|0) / P(0|1), that the permanent round lets through.

    With o the odds of a 1 from a 0 the variance is proportional to ``[(1-x)(1+Eo)^2 + xE(1+o)^2] / o``, least at
    ``o^2 = (1-x+xE) / (E ((1-x)E + x))``; at x = 0 that is o = 1/E: P(1|1) = 1/2, P(1|0) = 1/(E+1), the optimized
    unary encoding. The ratio ``r = P(1|1) / P(1|0) = E (1+o) / (1+Eo)`` falls with o and the variance has one minimum,
    so where r would exceed A (or fall below E/A) the best is at that end.
    """
    rest = 1 - frequency
    odds = math.sqrt((rest + frequency * growth) / (growth * (rest * growth + frequency)))
    ratio = growth * (1 + odds) / (1 + growth * odds)
    allowed = min(max(ratio, growth / ceiling), ceiling)
    if allowed != ratio:
        odds = (growth - allowed) / (growth * (allowed - 1))
    return growth * odds / (1 + growth * odds), odds / (1 + odds)


def sufficient_permanent(epsilon_report: float, num_hashes: int = 1) -> float:
    """Return the permanent budget beyond which one report does not become more precise: 2h ln((E + 1) / 2).

    Examples
    --------
    >>> round(sufficient_permanent(1.0743), 3)
    1.35
    """
    return 2 * num_hashes * math.log((math.exp(epsilon_report / num_hashes) + 1) / 2)


def design(
    epsilon_report: float,
    epsilon_permanent: float,
    *,
    num_bits: int,
    num_hashes: int,
    num_cohorts: int,
    hash_family: str = "overstory-v1",
    hash_key: str = "",
    frequency: float = 0.0,
) -> BitMechanism:
    """Return the RAPPOR with the least variance whose exact epsilons are at most the two given.

    Where the permanent budget equals the report's, it is One-time RAPPOR (p = 0, q = 1).

    Examples
    --------
    >>> best = design(1.0743, 4.3945, num_bits=128, num_hashes=1, num_cohorts=16).parameters
    >>> [round(best[letter], 4) for letter in "fpq"]
    [0.2, 0.2239, 0.5307]
    """

    def build(f: int, p: int, q: int) -> BitMechanism:
        return rappor(
            num_bits=num_bits,
            num_hashes=num_hashes,
            num_cohorts=num_cohorts,
            f=f / GRID,
            p=p / GRID,
            q=q / GRID,
            hash_family=hash_family,
            hash_key=hash_key,
        )

    f = max(1, _up(2 / (1 + math.exp(epsilon_permanent / (2 * num_hashes)))))
    while (permanent := build(f, 0, GRID)).epsilon_permanent > epsilon_permanent:
        f += 1
    p, q = _instantaneous(permanent, math.exp(epsilon_report / num_hashes), frequency)
    while (best := build(f, p, q)).epsilon_report > epsilon_report:
        p, q = p + 1, q - 1
    return best


def _instantaneous(permanent: BitMechanism, growth: float, frequency: float) -> tuple[int, int]:
    """Solve P = p + (q - p) a, Q = p + (q - p) b for p and q: the round after a permanent channel (a, b)."""
    channel = permanent.rounds.permanent
    keep_one, raise_zero, span = float(channel.keep_one), float(channel.raise_zero), float(channel.span)
    to_one, to_zero = best_channel(growth, keep_one / raise_zero, frequency)
    gap = (to_one - to_zero) / span
    p = to_zero - raise_zero * gap
    return max(0, _up(p)), min(GRID, -_up(-(p + gap)))


def _up(value: float) -> int:
    """Return the next integer above ``value * GRID``, apart from the rounding error of `value`."""
    return math.ceil(value * GRID - 1e-3)


SIZES: Final = (32, 64, 128, 256)  # bits of a report; a multiple of 8 wastes nothing on the wire
MAX_COHORTS: Final = 32  # the paper's largest: a cohort is sent in the clear, and 32 of them tell 5 bits of a device
COHORT_REPORTS: Final = 1000  # fewer in a cohort, and a count of a rare bit is no longer near normal
TOLERANCE: Final = 1.05  # of the standard error without collisions
CONFUSION: Final = 1e-3  # expected pairs of candidates that no cohort tells apart

# (bits, cohorts) -> standard error.
Errors = Callable[[int, int], float]


def choose_sizes(
    error: Errors,
    *,
    ideal: float,
    num_reports: int,
    num_candidates: int,
    num_hashes: int,
    sizes: Sequence[int] = SIZES,
    num_cohorts: int | None = None,
) -> tuple[int, int]:
    """Return the fewest bits, then the fewest cohorts, with which collisions cost at most five percent.

    The yardstick `ideal` is the standard error when nothing collides. Where no choice comes within five percent of
    it, the largest is taken. `sizes` are the bits to choose from; `num_cohorts` stays fixed where it is given.
    """
    cohorts = [num_cohorts] if num_cohorts is not None else _cohort_choices(num_reports)
    for bits in sizes:
        for groups in cohorts:
            apart = _confused(num_candidates, bits, num_hashes, groups) <= CONFUSION
            if apart and error(bits, groups) <= TOLERANCE * ideal:
                return bits, groups
    return sizes[-1], cohorts[-1]


def _cohort_choices(num_reports: int) -> list[int]:
    most = max(1, min(MAX_COHORTS, num_reports // COHORT_REPORTS))
    return [1 << power for power in range(most.bit_length())]


def _confused(num_candidates: int, num_bits: int, num_hashes: int, num_cohorts: int) -> float:
    """Return the expected number of pairs of candidates with the same bits in every cohort."""
    pairs = num_candidates * (num_candidates - 1) / 2
    filters = math.comb(num_bits, num_hashes)
    return math.exp(math.log(pairs) - num_cohorts * math.log(filters)) if pairs else 0.0
