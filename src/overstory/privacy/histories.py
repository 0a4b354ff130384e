"""What distinguishes one history of values from another, exactly.

A history is what a device held, report by report. Its reports are not independent: those of one value share a
memoized permanent response, and those of two values do not, unless these share one. So a history is known by its
pattern of equal and different permanent responses as well as by the values themselves.

The worst outcome of two histories is computed without going through all outcomes. A history is, report by report, which
permanent response the report is read through and what the true symbol was. Reports that have the same entry in both
histories form a *block*. Within a block the worst outcome is constant:

    Fix all that is seen outside a block. What is seen in it then has, under either history, the likelihood
    sum over z of w_z R^(v_z), where v_z of the block's reports are z, the w_z are what the rest says of the permanent
    response, and R >= 1 is P(keep) / P(other) of the instantaneous round. Whether the ratio of two such sums reaches
    c is the sign of sum of s_z R^(v_z), with s_z = w_z - c w'_z. Reports moved from where s_z is negative to where it
    is positive do not lower it, and over the latter it is convex: so its maximum lies at a corner, where all of the
    block's reports are one symbol. For a bit, whose channel need not be symmetric, the likelihood ratio is monotone
    in the number of ones, with the same end.

So b blocks have (number of symbols)^b outcomes to look at, however many reports there are. `tests/privacy` goes
through all of them for short histories, and finds the same.

The leak of a change is what n reports say about whether the value changed on the way: the permanent response is drawn
again, and reports before and after cease to agree. *Nothing* to report has a permanent response of its own, so to begin
or to cease to have a value is a change as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from typing import Final, NamedTuple

from overstory.protocol.channels import Rounds, SymbolRounds, as_decimal, log_ratio, mix, power, round_up, weighted_sum
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Shape

# Per report: which permanent response it is read through, and the true symbol (or bit).
Entry = tuple[Hashable, int]
# Reports that neither history distinguishes: (the first's entry, the second's), and how many of them there are.
Blocks = list[tuple[tuple[Entry, Entry], int]]
# From a true symbol, and how often each symbol was seen through one permanent response, to the probability of that.
Likelihood = Callable[[int, Mapping[int, int]], Decimal]
# Numerator and denominator.
Ratio = tuple[Decimal, Decimal]

PRECISE: Final = Context(prec=100)
MAX_REPORTS: Final = 10_000
MAX_OUTCOMES: Final = 100_000
SLACK: Final = 1e-9  # what a bound in floats is raised by, relatively: more than its arithmetic can be wrong


class Worst(NamedTuple):
    """Epsilon between any two histories, rounded up, and whether it is the exact one or a bound."""

    epsilon: float
    exact: bool


def check_reports(reports: int, least: int = 1, most: int = MAX_REPORTS) -> int:
    """Return `reports`, or raise ParameterError unless it is a whole number in ``least .. most``."""
    if not isinstance(reports, int) or isinstance(reports, bool) or not least <= reports <= most:
        raise ParameterError(f"reports = {reports!r}: give a whole number from {least} to {most}")
    return reports


def blocks_of(first: Sequence[Entry], second: Sequence[Entry]) -> Blocks:
    """Return the blocks of two histories."""
    if len(first) != len(second) or not first:
        raise ParameterError(f"histories of {len(first)} and {len(second)} reports: give two of one length, not empty")
    check_reports(len(first))
    return list(Counter(zip(first, second, strict=True)).items())


def worst_ratios(blocks: Blocks, symbols: Iterable[int], likelihood: Likelihood) -> tuple[Ratio, Ratio]:
    """Worst ratios over all outcomes, either way; one symbol of each sort that the histories tell apart is enough."""
    choices = tuple(symbols)
    if len(choices) ** len(blocks) > MAX_OUTCOMES:
        raise ParameterError(
            f"{len(blocks)} different reports of {len(choices)} symbols have more than {MAX_OUTCOMES} outcomes: "
            "shorten the histories"
        )
    ahead, behind = (Decimal(1), Decimal(1)), (Decimal(1), Decimal(1))
    with localcontext(PRECISE):
        # The worst outcome is constant in each block (see the proof above): go through the corners.
        for outcome in product(choices, repeat=len(blocks)):
            first_chance, second_chance = (_probability(blocks, which, outcome, likelihood) for which in (0, 1))
            ahead, behind = larger(ahead, (first_chance, second_chance)), larger(behind, (second_chance, first_chance))
    return ahead, behind


def _probability(blocks: Blocks, which: int, outcome: tuple[int, ...], likelihood: Likelihood) -> Decimal:
    """Probability of an outcome under one of the histories: a product over permanent responses."""
    seen: dict[Entry, dict[int, int]] = {}
    for (entries, size), symbol in zip(blocks, outcome, strict=True):
        counts = seen.setdefault(entries[which], {})
        counts[symbol] = counts.get(symbol, 0) + size
    return math.prod((likelihood(true, counts) for (_, true), counts in seen.items()), start=Decimal(1))


def larger(best: Ratio, new: Ratio) -> Ratio:
    """Return the larger of two ratios, a denominator of 0 being infinite."""
    return new if new[0] * best[1] > best[0] * new[1] else best


MOST_CASES: Final = 1 << 12
"""Probabilities of one mechanism that are held: histories of one length ask for few, each many times."""
UNIFORM: Final = -1
"""What replaces a symbol where there is nothing to report: the permanent symbol is then drawn uniformly."""


def bit_losses(rounds: Rounds, first: Sequence[Entry], second: Sequence[Entry]) -> tuple[Decimal, Decimal]:
    """Worst log ratios at one position of an encoding: (first against second, second against first)."""
    likely = bits_seen(rounds)
    ahead, behind = worst_ratios(
        blocks_of(first, second), (0, 1), lambda bit, seen: likely(bit, seen.get(1, 0), seen.get(0, 0))
    )
    return log_ratio(*ahead), log_ratio(*behind)


def symbol_ratios(rounds: SymbolRounds, first: Sequence[Entry], second: Sequence[Entry]) -> tuple[Ratio, Ratio]:
    """Worst ratios of two histories of symbols, either way: of those in neither, one for each block is enough."""
    blocks = blocks_of(first, second)
    held = {symbol for history in (first, second) for _, symbol in history} - {UNIFORM}
    size = rounds.permanent.domain_size
    others = (symbol for symbol in range(size) if symbol not in held)
    spare = min(len(blocks), size - len(held))
    return worst_ratios(blocks, [*held, *(next(others) for _ in range(spare))], _symbols_seen(rounds))


@lru_cache(maxsize=64)
def bits_seen(rounds: Rounds) -> Callable[[int, int, int], Decimal]:
    """Return P(ones and zeros | true bit), in that order: the permanent bit is drawn once, then seen."""
    first, later = rounds.permanent, rounds.instantaneous

    @lru_cache(maxsize=MOST_CASES)
    def likely(bit: int, ones: int, zeros: int) -> Decimal:
        with localcontext(PRECISE):
            # u = P^t (1 - P)^z through a permanent 1, v = Q^t (1 - Q)^z through a 0; a u + (1 - a) v.
            seen = (power(rate, ones) * power(1 - rate, zeros) for rate in (later.keep_one, later.raise_zero))
            return mix(first.keep_one if bit else first.raise_zero, *seen)

    return likely


@lru_cache(maxsize=64)
def _symbols_seen(rounds: SymbolRounds) -> Likelihood:
    """Return P(these reports | true symbol): any symbol may be the permanent one; those not seen are equally likely."""
    keep, other = as_decimal(rounds.instantaneous.keep), as_decimal(rounds.instantaneous.other)
    exact = {
        "uniform": Fraction(1, rounds.permanent.domain_size),
        "own": rounds.permanent.keep,
        "foreign": rounds.permanent.other,
    }
    drawn = {way: as_decimal(share) for way, share in exact.items()}

    @lru_cache(maxsize=MOST_CASES)
    def likely(ways: tuple[str, ...], often: tuple[int, ...]) -> Decimal:
        reports, total = sum(often), Decimal(0)
        for way, times in zip(ways, often, strict=True):
            # P(counts | s) = sum over z of P1(z|s) keep^(v_z) other^(n - v_z); unseen z have v_z = 0.
            total += drawn[way] * power(keep, times) * power(other, reports - times)
        unseen = as_decimal(1 - sum((exact[way] for way in ways), Fraction(0)))
        return total + unseen * power(other, reports)

    def seen_given(symbol: int, seen: Mapping[int, int]) -> Decimal:
        if symbol == UNIFORM:
            return likely(("uniform",) * len(seen), tuple(seen.values()))
        return likely(tuple("own" if shown == symbol else "foreign" for shown in seen), tuple(seen.values()))

    return seen_given


def with_nothing(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """Return shapes of two values, and after them those of a value and of *nothing* to report, either way round.

    They follow from how many ones a value's encoding has. Nothing has none; where filters are crowded (all of h
    distinct positions, h > k/2), it is a filter as any, and may be a value's own: see `Encoding.nothing`.
    """
    if not shapes:
        raise ParameterError("no shapes: give at least one of two values")
    num_bits = sum(shapes[0])
    ones = sorted({shape.both + own for shape in shapes for own in (shape.lowered, shape.raised)})
    if crowded(num_bits, ones[0], ones[-1]):
        return tuple(dict.fromkeys([*shapes, Shape(ones[0], 0, 0, num_bits - ones[0])]))
    pairs = [pair for own in ones for pair in ((0, own), (own, 0))]
    return tuple(dict.fromkeys([*shapes, *(Shape(0, *pair, num_bits - sum(pair)) for pair in pairs)]))


def crowded(num_bits: int, fewest: int, most: int) -> bool:
    """Whether nothing to report is a filter as any: all have as many ones, and these are more than half of the bits."""
    return fewest == most and 2 * most > num_bits


MOST_CHANGE_REPORTS: Final = 1000  # up to so many reports every moment of a change is looked at


@lru_cache(maxsize=1024)
def bits_change(rounds: Rounds, shapes: tuple[Shape, ...], reports: int) -> float:
    """Exact epsilon between n reports of a and n of a that become b, or nothing, on the way: bits. Rounded up."""
    check_reports(reports, 2, MOST_CHANGE_REPORTS)
    pairs = with_nothing(shapes)
    return round_up(max(_worst_of_bits(rounds, pairs, reports, before) for before in range(1, reports)))


@lru_cache(maxsize=1024)
def symbol_change(rounds: SymbolRounds, reports: int) -> float:
    """Exact epsilon between n reports of a and n of a that become another symbol, or nothing (uniform); rounded up."""
    check_reports(reports, 2, MOST_CHANGE_REPORTS)
    pairs = (0, 1), (0, UNIFORM), (UNIFORM, 0)
    histories = (_histories(*pair, reports, before) for pair in pairs for before in range(1, reports))
    worst = Decimal(1), Decimal(1)
    with localcontext(PRECISE):
        for pair in histories:
            worst = reduce(larger, symbol_ratios(rounds, *pair), worst)
            if not worst[1]:
                break
    return round_up(log_ratio(*worst))


def _worst_of_bits(rounds: Rounds, shapes: tuple[Shape, ...], reports: int, before: int) -> Decimal:
    """Worst total loss, either way, when `before` of the reports are of a and the others of b instead of a."""
    # In the order of a shape's numbers: (bit of a, bit of b).
    losses = [
        bit_losses(rounds, *_histories(old, new, reports, before)) for old, new in ((1, 1), (1, 0), (0, 1), (0, 0))
    ]
    return max(_total(shape, losses, way) for shape in shapes for way in (0, 1))


def _histories(old: int, new: int, reports: int, before: int) -> tuple[list[Entry], list[Entry]]:
    before_it: list[Entry] = [("a", old)] * before
    return before_it + [("a", old)] * (reports - before), before_it + [("b", new)] * (reports - before)


def _total(shape: Shape, losses: list[tuple[Decimal, Decimal]], way: int) -> Decimal:
    return weighted_sum((bits, loss[way]) for bits, loss in zip(shape, losses, strict=True))
