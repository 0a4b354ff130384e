"""Privacy by brute force: every output of every input, from the thresholds, and none of `channels`' formulas."""

from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.sets import SetMechanism
from overstory.protocol.kinds.symbols import SymbolMechanism
from support.contract_cases import some_values
from support.contract_views import output_chances

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


COHORTS = 64  # of those that are seeds, as many are tried


@cache
def reachable(mechanism: BitMechanism) -> tuple[frozenset[tuple[int, ...]], ...]:
    """For each cohort, every bit vector that some of many values has there."""
    size, values = mechanism.encoding.num_bits, some_values(mechanism, 300)
    return tuple(
        frozenset(bits_of(mechanism.encode(value, cohort), size) for value in values)
        for cohort in range(mechanism.encoding.num_cohorts)
    )


def worst_ratio(likelihoods: Iterable[Iterable[int | Fraction]]) -> Fraction | None:
    """Largest P(y | v) / P(y | w) over outputs y and inputs v, w, an input a row; None when it is infinite."""
    worst = Fraction(1)
    for column in zip(*likelihoods, strict=True):
        high, low = max(column), min(column)
        if low == 0 and high > 0:
            return None
        if low and high * worst.denominator > low * worst.numerator:
            worst = Fraction(high) / Fraction(low)
    return worst


def bits_of(word: int, size: int) -> tuple[int, ...]:
    """The bits of an integer, the lowest first."""
    return tuple(word >> place & 1 for place in range(size))


def bit_ratios(mechanism: BitMechanism, reports: int, nothing: int) -> list[Fraction | None]:
    """The worst ratio in each cohort, every outcome of every vector of bits tried."""
    permanent = mechanism.rounds.permanent.thresholds
    later = mechanism.rounds.instantaneous.thresholds if reports else (ONE, 0)
    tables = tuple(outcomes_of_bit(bit, permanent, later, max(reports, 1)) for bit in (0, 1))
    none = bits_of(nothing, mechanism.encoding.num_bits)
    return [worst_ratio(outcomes(v, tables) for v in {*vectors, none}) for vectors in set(reachable(mechanism))]


def symbol_chances(alpha: Fraction, size: int) -> list[list[int]]:
    """P(y | x) * size * 2**32: kept with alpha, else any of them."""
    kept = int(alpha * ONE)
    return [[kept * size * (x == y) + ONE - kept for y in range(size)] for x in range(size)]


def symbol_ratios(mechanism: SymbolMechanism, reports: int) -> list[Fraction | None]:
    """The worst ratio in each cohort, over the symbols that values have there and all sequences of reports."""
    size = mechanism.encoding.num_symbols
    first = symbol_chances(mechanism.rounds.permanent.alpha, size)
    later = symbol_chances(mechanism.rounds.instantaneous.alpha if reports else Fraction(1), size)
    values, cohorts = some_values(mechanism, 40), range(min(mechanism.num_cohorts, COHORTS))
    held = {frozenset(mechanism.encoding.symbol(value, cohort) for value in values) for cohort in cohorts}

    def row(chances: list[int]) -> list[int]:
        sequences = product(range(size), repeat=max(reports, 1))
        return [sum(chances[z] * prod(later[z][y] for y in sequence) for z in range(size)) for sequence in sequences]

    rows, uniform = [row(chances) for chances in first], row([ONE] * size)
    return [worst_ratio([uniform, *(rows[symbol] for symbol in symbols)]) for symbols in held]


def set_ratios(mechanism: SetMechanism) -> list[Fraction | None]:
    """The worst ratio over all outputs; reports are one memoized output, however many."""
    rows = output_chances(mechanism)
    return [worst_ratio([*rows, [Fraction(1, len(rows[0]))] * len(rows[0])])]


def log_of(ratio: Fraction) -> Decimal:
    """The natural logarithm, to 60 digits."""
    return PRECISE.ln(PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))


def exact_epsilon(mechanism: Mechanism, reports: int, nothing: int | None = None) -> Decimal:
    """Worst-case log likelihood ratio of `reports` reports of one value, or of none; 0: of the permanent response.

    Nothing is a set of bits of its own, a uniform symbol, a uniform output.
    """
    if isinstance(mechanism, BitMechanism):
        ratios = bit_ratios(mechanism, reports, mechanism.encoding.nothing if nothing is None else nothing)
    elif isinstance(mechanism, SymbolMechanism):
        ratios = symbol_ratios(mechanism, reports)
    else:
        ratios = set_ratios(mechanism)
    return Decimal("Infinity") if None in ratios else log_of(max(ratios))
