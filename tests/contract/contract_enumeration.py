"""Privacy by brute force: every output of every input, from the thresholds, and none of `channels`' formulas."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from itertools import product

from contract_cases import some_values

from overstory.protocol.mechanisms.bits import BitMechanism

ONE = 2**32
PRECISE = Context(prec=60)
Thresholds = tuple[int, int]  # of a bit that was 1, of a bit that was 0


def chance(bit: int, given: int, thresholds: Thresholds) -> int:
    """P(bit | given) * 2**32."""
    one = thresholds[0] if given else thresholds[1]
    return one if bit else ONE - one


def outcomes_of_bit(true_bit: int, permanent: Thresholds, instantaneous: Thresholds, reports: int) -> list[int]:
    """P(the reports of this bit | the bit) times 2**(32 (reports + 1)), for each of the 2**reports outcomes."""
    likelihoods = []
    for outcome in product((0, 1), repeat=reports):
        total = 0
        for kept in (0, 1):
            path = chance(kept, true_bit, permanent)
            for bit in outcome:
                path *= chance(bit, kept, instantaneous)
            total += path
        likelihoods.append(total)
    return likelihoods


def outcomes(true_bits: Iterable[int], tables: tuple[list[int], list[int]]) -> list[int]:
    """P(all outcomes of all bits | the true bits), up to one common factor."""
    likelihoods = [1]
    for bit in true_bits:
        likelihoods = [left * right for left in likelihoods for right in tables[bit]]
    return likelihoods


@cache
def reachable(mechanism: BitMechanism) -> tuple[frozenset[tuple[int, ...]], ...]:
    """For each cohort, every bit vector that some of many values has there."""
    size, values = mechanism.encoding.num_bits, some_values(mechanism, 300)
    return tuple(
        frozenset(tuple(mechanism.encode(value, cohort) >> i & 1 for i in range(size)) for value in values)
        for cohort in range(mechanism.encoding.num_cohorts)
    )


def worst_ratio(vectors: frozenset[tuple[int, ...]], tables: tuple[list[int], list[int]]) -> Fraction | None:
    """Largest P(y | v) / P(y | w) over outputs y and vectors v, w; None when it is infinite."""
    worst = Fraction(1)
    for column in zip(*(outcomes(vector, tables) for vector in vectors), strict=True):
        high, low = max(column), min(column)
        if low == 0 and high > 0:
            return None
        if low and high * worst.denominator > low * worst.numerator:
            worst = Fraction(high, low)
    return worst


def exact_epsilon(mechanism: BitMechanism, reports: int) -> Decimal:
    """Worst-case log likelihood ratio of `reports` reports of one value; 0 reports: of its permanent response."""
    permanent = mechanism.rounds.permanent.thresholds
    later = mechanism.rounds.instantaneous.thresholds if reports else (ONE, 0)
    tables = tuple(outcomes_of_bit(bit, permanent, later, max(reports, 1)) for bit in (0, 1))
    ratios = [worst_ratio(vectors, tables) for vectors in set(reachable(mechanism))]
    if None in ratios:
        return Decimal("Infinity")
    worst = max(ratios)
    return PRECISE.ln(PRECISE.divide(Decimal(worst.numerator), Decimal(worst.denominator)))
