"""What a vector of bits discloses: two binary channels, on bits of which two values share some.

Any two histories of n reports, where bits are memoized, are exact for a few reports, and bounded for any number.

Given a history, positions are independent, so the worst outcome is the worst outcome of every position. What a position
is read through depends on the history's *pattern*, which of its reports share a permanent response, and on the
position's bit in each of these. With g(x; t, z) the probability of t ones and z zeros read through one response of a
bit x, a position's reports have the product of g over the pattern's responses.

*Exact.* Go through all pairs of patterns (up to the order of reports) and all ways in which the values of both can
lie to each other: a one-hot value of one history is a value of the other or of neither; filters overlap as they like.
One of a history's responses may be that of *nothing* to report, which has no one.

*Bound.* Where that is too much, every position is bounded on its own.
A position's reports have the product of g(x; t, z) over the permanent responses that the history reads them through:
the probability of t ones and z zeros through one response of a bit x, that is a u + (1 - a) v with a = P1(1|x), u the
probability of these through a permanent 1, v through a 0. The bound is the largest such product over the smallest.

- The largest is at most g(x; t, 0) g(x'; 0, z). Ones and zeros want the response to be opposite things, so
  g(x; t, z) <= g(x; t, 0) g(x; 0, z), and g(x; t, 0) g(x; t', 0) <= g(x; t + t', 0) (Chebyshev's inequality, both).
- The smallest is searched for up to `MOST_SHARED` reports. Besides, for any weights (w, 1 - w) a response's g is at
  least e^-KL(w, a) u^w v^(1-w), by the inequality of the means; with w = a nothing is lost by the first factor. The
  logarithm of this is linear in t, while that of the largest is convex in t, so the ratio is worst at t = 0 or t = n.

With n it starts at 0, is convex and never below 0: it never falls.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from overstory.privacy.shared import NO_LIKENESS, Constant, Likeness, log_sum, unary
from overstory.privacy.terms import (
    PRECISE,
    SLACK,
    Atom,
    Attack,
    Evidence,
    OfSets,
    PayloadTerms,
    Success,
    Worst,
    most_guess,
    share,
    true_positives,
)
from overstory.protocol.channels import ONE, BinaryChannel, Rounds, as_decimal, log_ratio, mix, power, round_up
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Shape

if TYPE_CHECKING:
    from overstory.protocol.kinds.base import Report

MOST_SHARED: Final = 10  # up to as many reports the smallest probability is searched for
TILTS: Final = 16


@dataclass(frozen=True)
class Position:
    """One position in floats, its outputs named so that a one is likelier from a one."""

    weights: tuple[float, float]  # P(permanent bit is 1 | true bit), for a true 0 and 1
    ones: tuple[float, float]  # log P(a one) through a permanent 1 and 0
    zeros: tuple[float, float]  # log P(a zero) through them
    reports: int
    blocks: int  # how many permanent responses there can be among the reports
    single: bool  # whether at most one of a history's values has a one at a position

    @classmethod
    def of(cls, rounds: Rounds, reports: int, blocks: int, *, single: bool) -> Position:
        later = rounds.instantaneous
        ones = _log(float(later.keep_one)), _log(float(later.raise_zero))
        zeros = _log(float(1 - later.keep_one)), _log(float(1 - later.raise_zero))
        if ones[0] < ones[1]:
            ones, zeros = zeros, ones
        weights = float(rounds.permanent.raise_zero), float(rounds.permanent.keep_one)
        return cls(weights, ones, zeros, reports, blocks, single)

    def worst(self, first: Sequence[int], second: Sequence[int]) -> float:
        """Return a bound on the log ratio where the true bits are among `one` in one history, `other` in the other."""
        # The log ratio is convex in the number of ones t, so t = 0 and t = n are enough.
        ends = self._most(first, self.reports), self._most(first, 0)
        low, high = min(self.weights), max(self.weights)
        even = [low + (high - low) * i / TILTS for i in range(TILTS + 1)]
        floors = [self._floor(w, second) for w in (*even, *(self.weights[bit] for bit in second), 0.0, 1.0)]
        floors.append(
            (min(self._mean(b, self.ones) for b in second), min(self._mean(b, self.zeros) for b in second), 0.0)
        )
        # Every choice of weights is a bound: take the best of them.
        bound = min(
            max(end - self.reports * rate for end, rate in zip(ends, rates, strict=True)) + apart
            for *rates, apart in floors
        )
        if self.reports > MOST_SHARED:
            return bound
        least = self._least(second)
        return min(bound, max(self._most(first, t) - least[t][self.reports - t] for t in range(self.reports + 1)))

    def _seen(self, bit: int, ones: int, zeros: int) -> float:
        likely = [_times_log(ones, self.ones[i]) + _times_log(zeros, self.zeros[i]) for i in (0, 1)]
        return log_sum(map(add, (_log(self.weights[bit]), _log(1 - self.weights[bit])), likely))

    def _most(self, bits: Sequence[int], ones: int) -> float:
        zeros = self.reports - ones
        return max(self._seen(bit, ones, 0) for bit in bits) + max(self._seen(bit, 0, zeros) for bit in bits)

    def _least(self, bits: Sequence[int]) -> list[list[float]]:
        """Return the smallest probabilities of up to n ones and zeros, over all patterns."""
        size = range(self.reports + 1)
        seen = {(b, t, z): self._seen(b, t, z) for b in bits for t in size for z in size if 0 < t + z <= self.reports}
        if not self.single:
            return self._shared({(t, z): min(seen[b, t, z] for b in bits) for _, t, z in seen})
        unlit = self._shared({(t, z): seen[0, t, z] for _, t, z in seen})
        if 1 not in bits:
            return unlit
        # One response may have the true bit 1: split (ones, zeros) between it and the others.
        lit = [row[:] for row in unlit]
        for (bit, t, z), loss in seen.items():
            if bit:
                for ones, zeros in product(range(t, self.reports + 1), range(z, self.reports + 1)):
                    if ones + zeros <= self.reports:
                        lit[ones][zeros] = min(lit[ones][zeros], loss + unlit[ones - t][zeros - z])
        return lit

    def _shared(self, items: dict[tuple[int, int], float]) -> list[list[float]]:
        least = [[math.inf] * (self.reports + 1) for _ in range(self.reports + 1)]
        least[0][0] = 0.0
        for (t, z), loss in items.items():
            for ones in range(t, self.reports + 1):
                for zeros in range(z, self.reports + 1 - ones):
                    # Unbounded knapsack: one more response that shows t ones and z zeros.
                    reached = least[ones - t][zeros - z] + loss
                    least[ones][zeros] = min(least[ones][zeros], reached)
        return least

    def _mean(self, bit: int, logs: tuple[float, float]) -> float:
        weight = self.weights[bit]
        return _times_log(weight, logs[0]) + _times_log(1 - weight, logs[1])

    def _floor(self, w: float, bits: Sequence[int]) -> tuple[float, float, float]:
        """Least logarithms of a one and of a zero with weights (w, 1 - w), and what these weights cost over all."""
        apart = max(_divergence(w, self.weights[bit]) for bit in bits)
        # g >= e^-KL(w, a) u^w v^(1-w): what one more one, and one more zero, takes at least.
        one, zero = (_times_log(w, logs[0]) + _times_log(1 - w, logs[1]) for logs in (self.ones, self.zeros))
        return one, zero, self.blocks * apart


def _log(chance: float) -> float:
    return math.log(chance) if chance else -math.inf


def _times_log(times: float, logarithm: float) -> float:
    return times * logarithm if times else 0.0


def _divergence(w: float, weight: float) -> float:
    """KL divergence of (w, 1 - w) from (weight, 1 - weight)."""
    total = 0.0
    for given, real in ((w, weight), (1 - w, 1 - weight)):
        if given:
            total += given * (math.log(given / real) if real else math.inf)
    return total


MOST_CASES: Final = 1 << 12
"""Probabilities of one mechanism that are held: histories of one length ask for few, each many times."""


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


def crowded(num_bits: int, fewest: int, most: int) -> bool:
    """Whether nothing to report is a filter as any: all have as many ones, and these are more than half of the bits."""
    return fewest == most and 2 * most > num_bits


MOST_DISJOINT: Final = 4  # up to as many reports of one-hot values the worst pair of histories is searched
MOST_FILTERS: Final = 3
"""The same for filters, unless they have so many hashes that the search takes more than `MOST_STEPS`."""
MOST_STEPS: Final = 200_000
# How many reports have response i in the first history and response j in the second.
Pattern = tuple[tuple[tuple[int, int], int], ...]
# Per outcome at a position: g of every response of a history, for a true bit 0 and 1.
Outcomes = list[list[tuple[Decimal, Decimal]]]


def worst_of_bits(rounds: Rounds, shapes: tuple[Shape, ...], most_values: int | None, reports: int) -> Worst:
    """Return epsilon between any two histories of `reports`, at least two; `most_values` None: as many as reports."""
    values = _Values.of(shapes, most_values)
    if values.disjoint and reports <= MOST_DISJOINT:
        return Worst(_exact(rounds, values, reports), exact=True)
    if values.most is None and reports <= MOST_FILTERS and _steps(values, reports) <= MOST_STEPS:
        return Worst(_exact(rounds, values, reports), exact=values.free)
    return Worst(_bound(rounds, values, reports), exact=False)


@dataclass(frozen=True)
class _Values:
    """What the shapes say of values: their bits, how many of these are ones, how many values there are."""

    bits: int
    fewest: int
    most_ones: int
    most: int | None
    disjoint: bool
    free: bool

    @classmethod
    def of(cls, shapes: tuple[Shape, ...], most_values: int | None) -> _Values:
        ones = [weight for both, lowered, raised, _ in shapes for weight in (both + lowered, both + raised)]
        disjoint = most_values == sum(shapes[0]) and set(ones) == {1} and all(shape.both == 0 for shape in shapes)
        free = min(ones) == max(ones) and any(shape.lowered == shape.raised == 0 for shape in shapes)
        return cls(sum(shapes[0]), min(ones), max(ones), most_values, disjoint, free)

    def may_have(self, left: Sequence[int]) -> bool:
        """Whether a history's filters may lack so many of their ones: one of them all, where nothing has no bit."""
        lacking = [ones for ones in left if ones > self.most_ones - self.fewest]
        return not lacking or (lacking == [self.most_ones] and not crowded(self.bits, self.fewest, self.most_ones))


def _exact(rounds: Rounds, values: _Values, reports: int) -> float:
    seen, worst = bits_seen(rounds), Decimal(1)
    with localcontext(PRECISE):
        for pattern in patterns(reports):
            sizes = 1 + max(i for (i, _), _ in pattern), 1 + max(j for (_, j), _ in pattern)
            if values.most is None or max(sizes) <= values.most + 1:  # and nothing
                # Both directions: the ratio of the first history's probability to the second's, and the inverse.
                first, second = _outcomes(seen, pattern, sizes)
                worst = max(worst, _largest(values, first, second), _largest(values, second, first))
    return round_up(log_ratio(worst, Decimal(1)))


@lru_cache(maxsize=8)
def patterns(reports: int) -> tuple[Pattern, ...]:
    """Return pairs of patterns of as many reports: each at least once, up to the order of reports and of the two."""
    distinct: dict[Pattern, None] = {}
    for first, second in product(_shares(reports), repeat=2):
        sizes = [sorted(Counter(labels).values(), reverse=True) for labels in (first, second)]
        ordered = sorted(first) == list(first) and [*Counter(first).values()] == sizes[0]
        if not ordered or sizes[0] < sizes[1]:
            continue
        # A pair of patterns up to order is a matrix of counts with its columns sorted.
        cells = Counter(zip(first, second, strict=True))
        columns = sorted(tuple(cells[i, j] for i in range(len(sizes[0]))) for j in range(len(sizes[1])))
        matrix = [((i, j), count) for j, column in enumerate(columns) for i, count in enumerate(column) if count]
        distinct[tuple(matrix)] = None
    return tuple(distinct)


def _shares(reports: int) -> Iterator[tuple[int, ...]]:
    """Which permanent response each report has, the responses being numbered as they come."""
    labels: list[tuple[int, ...]] = [()]
    for _ in range(reports):
        # Restricted growth strings: the next report reuses a response or takes the next new number.
        labels = [(*before, label) for before in labels for label in range(max(before, default=-1) + 2)]
    yield from labels


def _outcomes(
    seen: Callable[[int, int, int], Decimal], pattern: Pattern, sizes: tuple[int, int]
) -> tuple[Outcomes, Outcomes]:
    outcomes: tuple[Outcomes, Outcomes] = ([], [])
    for bits in product((0, 1), repeat=len(pattern)):
        for which, responses in enumerate(sizes):
            counts = [[0, 0] for _ in range(responses)]
            for (labels, reports), bit in zip(pattern, bits, strict=True):
                counts[labels[which]][bit] += reports
            outcomes[which].append([(seen(0, ones, zeros), seen(1, ones, zeros)) for zeros, ones in counts])
    return outcomes


def _chances(outcomes: Outcomes, bits: Sequence[int]) -> list[Decimal]:
    return [
        math.prod((chances[bit] for chances, bit in zip(outcome, bits, strict=True)), start=Decimal(1))
        for outcome in outcomes
    ]


def _worst(over: list[Decimal], under: list[Decimal]) -> Decimal:
    worst = Decimal(0)
    for likely, unlikely in zip(over, under, strict=True):
        if likely > worst * unlikely:
            if not unlikely:
                return Decimal("Infinity")
            worst = likely / unlikely
    return worst


def _largest(values: _Values, first: Outcomes, second: Outcomes) -> Decimal:
    """Largest ratio over how values overlap: position by position, ones that are left being the state."""
    rows, responses = len(first[0]), len(first[0]) + len(second[0])
    over, under = (
        {bits: _chances(side, bits) for bits in product((0, 1), repeat=len(side[0]))} for side in (first, second)
    )
    steps = _Steps.of(values.most_ones, rows, responses, values.disjoint)
    # The worst ratio at a position with each combination of bits; positions are independent, so factors multiply.
    ratios = [_worst(over[bits[:rows]], under[bits[rows:]]) for bits in steps.bits]
    if any(ratio.is_infinite() for ratio in ratios):
        return Decimal("Infinity")
    best = [Decimal(0)] * steps.states
    best[-1] = Decimal(1)  # all ones are left
    if values.bits >= values.most_ones * responses:  # there is a position for every one: any may be left without
        # Relative to a position without ones: an unbounded knapsack over the ones that are left.
        shares = [ratio / ratios[0] for ratio in ratios]
        for share, moves in zip(shares[1:], steps.moves[1:], strict=True):
            for before, then in moves:  # from all ones down, so that one kind of position may come several times
                best[then] = max(best[then], best[before] * share)
        none = PRECISE.power(ratios[0], values.bits)
    else:
        for _ in range(values.bits):
            # Position by position: dynamic programming, state = how many ones each filter has left.
            after = [value * ratios[0] for value in best]
            for ratio, moves in zip(ratios[1:], steps.moves[1:], strict=True):
                for before, then in moves:
                    after[then] = max(after[then], best[before] * ratio)
            best = after
        none = Decimal(1)
    return none * max(
        best[state]
        for state, digits in enumerate(steps.digits)
        if values.may_have(digits[:rows]) and values.may_have(digits[rows:])
    )


class _Steps(NamedTuple):
    """What the search over filters goes through: all bits of a position, and which states each leads between."""

    bits: tuple[tuple[int, ...], ...]
    digits: tuple[tuple[int, ...], ...]
    moves: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def states(self) -> int:
        return len(self.digits)

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, ones: int, rows: int, responses: int, disjoint: bool) -> _Steps:  # noqa: FBT001 - of cached arguments
        bits = tuple(
            position
            for position in product((0, 1), repeat=responses)
            if not disjoint or max(sum(position[:rows]), sum(position[rows:])) <= 1  # no two values share a one
        )
        digits = tuple(product(range(ones + 1), repeat=responses))
        places = [(ones + 1) ** place for place in reversed(range(responses))]  # a state's number has its digits
        moves = []
        for position in bits:
            step = sum(place for place, bit in zip(places, position, strict=True) if bit)
            least = (range(place * bit, place * (ones + 1), place) for place, bit in zip(places, position, strict=True))
            states = [sum(parts) for parts in product(*least)]
            moves.append(tuple((state, state - step) for state in reversed(states)))
        return cls(bits, digits, tuple(moves))


def _steps(values: _Values, reports: int) -> int:
    passes = 1 if values.bits >= 2 * reports * values.most_ones else values.bits
    one_pass: int = (2 * values.most_ones + 1) ** (2 * reports)
    return passes * one_pass


def _bound(rounds: Rounds, values: _Values, reports: int) -> float:
    """Sum of the positions' worst: those with a one in both histories, in either, in neither."""
    blocks = reports if values.most is None else min(reports, values.most + 1)
    ones = min(values.bits, values.most_ones * blocks)
    position = Position.of(rounds, reports, blocks, single=values.disjoint)
    worst = {pair: position.worst(*pair) for pair in product(((0,), (0, 1)), repeat=2)}
    totals = []
    for both in (max(0, 2 * ones - values.bits), ones):
        # Of `ones` bits in each history `both` coincide; the total is linear in `both`, so its ends are enough.
        counts = (
            (both, worst[(0, 1), (0, 1)]),
            (ones - both, worst[(0, 1), (0,)]),
            (ones - both, worst[(0,), (0, 1)]),
            (values.bits - 2 * ones + both, worst[(0,), (0,)]),
        )
        totals.append(sum(times * loss for times, loss in counts if times))
    return math.nextafter(max(totals) * (1 + SLACK) + 1e-13 * reports * values.bits, math.inf)


Pair = tuple[int, int]


@dataclass(frozen=True)
class BitTerms(PayloadTerms):
    """Two binary channels, and how far two encodings can be apart."""

    kind: ClassVar[str] = "bits"
    blankets: ClassVar[str] = "bits"
    permanent: Pair  # (P(1|1), P(1|0)) over 2**32
    instantaneous: Pair  # of a permanent bit, as above
    differences: tuple[Pair, ...]  # worst pairs (ones lowered, zeros raised)
    shapes: tuple[Shape, ...]  # of two values: `Encoding.shapes`
    most_values: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", tuple(Shape(*shape) for shape in self.shapes))
        if not self.shapes:
            raise ParameterError("no shapes: give at least one of two values")

    @property
    def rounds(self) -> Rounds:
        return _rounds(self.permanent, self.instantaneous)

    @property
    def fresh(self) -> bool:
        return self.permanent == (ONE, 0)

    @property
    def epsilon_permanent(self) -> float:
        return self.rounds.epsilon_permanent(self.differences)

    @property
    def even_bits(self) -> tuple[int, Pair] | None:
        even = len(self.differences) == 1 and len(set(self.differences[0])) == 1
        return (self.differences[0][0], self.instantaneous) if even else None

    def _few(self, reports: int) -> float:
        return self.rounds.epsilon(self.differences, reports=reports)

    def _worst(self, reports: int) -> Worst:
        if self.rounds.instantaneous.is_identity:
            return super()._worst(reports)
        return worst_of_bits(self.rounds, self.shapes, self.most_values, reports)

    @classmethod
    def of(cls, mechanism: Any) -> BitTerms:
        encoding, rounds = mechanism.encoding, mechanism.rounds
        return BitTerms(
            rounds.permanent.thresholds,
            rounds.instantaneous.thresholds,
            tuple((lowered, raised) for lowered, raised in encoding.differences),
            encoding.shapes(equal_bits=not mechanism.permanence.by_bits),
            encoding.most_values,
        )

    @classmethod
    def evidence(cls, mechanism: Any, reports: Sequence[Report]) -> Evidence:
        likely, cohort, n = bits_seen(mechanism.rounds), reports[0].cohort, len(reports)

        @cache
        def gain_of(ones: int) -> Decimal:
            """Logarithm of P(ones of n | the true bit is 1) over P(the same | it is 0)."""
            lit, unlit = (likely(bit, ones, n - ones) for bit in (1, 0))
            if lit == unlit == 0:
                raise ParameterError("no device sends these reports of one value: a bit differs without a cause")
            return log_ratio(lit, unlit)

        positions = range(mechanism.payload_bits)
        gains = [gain_of(sum(report.bits >> position & 1 for report in reports)) for position in positions]

        def evidence(value: Any) -> Decimal:
            bits = mechanism.encode(value, cohort)
            with localcontext(PRECISE):
                return sum((gain for bit, gain in enumerate(gains) if bits >> bit & 1), Decimal(0))

        return evidence

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        encoding, rounds = mechanism.encoding, mechanism.rounds
        values = encoding.domain_size or candidates
        successes = []
        for channel, epsilon in ((rounds.combined, mechanism.epsilon_report), (rounds.permanent, math.inf)):
            positives = max(true_positives(_atoms(channel, *pair)) for pair in encoding.differences)
            if encoding.domain_size is None:
                guess = most_guess(min(epsilon, mechanism.epsilon_permanent), values)
            else:
                guess = _guess(channel, encoding.num_bits, values)
            successes.append(Success(guess, positives))
        single, ever = successes
        return Attack(values, single, ever, exact=encoding.domain_size is not None)

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        """The cohort and permanent bits, of as many ones as disclose most; in some cohorts no bit may be its own."""
        encoding, channel = mechanism.encoding, mechanism.rounds.permanent
        size, cohorts, (fewest, most) = encoding.num_bits, encoding.num_cohorts, encoding.ones
        rates = float(channel.keep_one), float(channel.raise_zero)
        own = max((unary(n, size - n, *rates) for n in range(fewest, most + 1)), key=lambda constant: constant.bits)
        asked = round(encoding.asked * cohorts)
        kinds = ((own, asked), (unary(0, size, *rates), cohorts - asked))
        # A cohort is uniform: each of its outcomes has 1 / cohorts of its probability, in `many` cohorts alike.
        return Constant(
            tuple(
                (count + math.log(many), each - math.log(cohorts))
                for constant, many in kinds
                if many
                for count, each in constant.groups
            )
        )

    @classmethod
    def likeness(cls, mechanism: Any) -> Likeness:
        if mechanism.repeats:
            return NO_LIKENESS
        encoding = mechanism.encoding
        numbers = {ones * encoding.asked for ones in encoding.ones}
        return Likeness(mechanism.rounds, tuple((ones, encoding.num_bits - ones) for ones in sorted(numbers)))


@lru_cache(maxsize=64)
def _rounds(*thresholds: Pair) -> Rounds:
    return Rounds(*(BinaryChannel(Fraction(a, ONE), Fraction(b, ONE)) for a, b in thresholds))


def _guess(channel: BinaryChannel, asked: int, values: int) -> float:
    """Best guess where `asked` of the values have a bit of their own: any value whose bit is 1, if there is one.

    With t ones among the `asked` bits, a value whose bit is 1 has likelihood p q^(t-1) (1-q)^(asked-t). So the sum over
    reports is (p/q) (1 - (1-q)^asked), and where all bits are 0 the likelihood of a value without a bit, or with one.
    """
    high, low = channel.keep_one, channel.raise_zero
    if high < low:
        high, low = 1 - high, 1 - low
    with localcontext(PRECISE):
        p, q = as_decimal(high), as_decimal(low)
        # Sum over t >= 1 of C(asked, t) p q^(t-1) (1-q)^(asked-t) = (p/q) (1 - (1-q)^asked).
        lit = p / q * (1 - (1 - q) ** asked) if q else p * asked
        unlit = (1 - q) ** asked if asked < values else (1 - p) * (1 - q) ** (asked - 1)
        return share(lit + unlit, values)


def _atoms(channel: BinaryChannel, lowered: int, raised: int) -> list[Atom]:
    """Reports by how many ones the two values' own bits have."""
    with localcontext(PRECISE):
        one, zero = ((rate, 1 - rate) for rate in (channel.keep_one, channel.raise_zero))
        atoms = []
        for mine, others in product(range(lowered + 1), range(raised + 1)):
            # C(l, i) C(r, j) P^i (1-P)^(l-i) Q^j (1-Q)^(r-j), and the same with P and Q exchanged.
            ways = math.comb(lowered, mine) * math.comb(raised, others)
            chances = [
                power(first[0], mine)
                * power(first[1], lowered - mine)
                * power(second[0], others)
                * power(second[1], raised - others)
                for first, second in ((one, zero), (zero, one))
            ]
            atoms.append((ways * chances[0], ways * chances[1]))
        return atoms


class ItemBitTerms(OfSets, BitTerms):
    """The bits of a set: of one-hot bits all that differs is how the sets can lie to each other."""

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        """Return the bits of all items: no other set discloses more, as larger ones' are mixtures of smaller ones'."""
        encoding, channel = mechanism.encoding, mechanism.rounds.permanent
        size, most = encoding.domain_size, encoding.most
        one, zero = float(channel.keep_one), float(channel.raise_zero)
        raised, lowered = math.log(one / zero), math.log((1 - one) / (1 - zero))
        groups = []
        for ones in range(size + 1):
            # The chance that i bits of the part are among the ones, and what they add to the chance of the pattern.
            parts = {i: math.comb(ones, i) * math.comb(size - ones, most - i) for i in range(most + 1)}
            lifts = (
                math.log(ways / math.comb(size, most)) + i * raised + (most - i) * lowered
                for i, ways in parts.items()
                if ways
            )
            each = ones * math.log(zero) + (size - ones) * math.log(1 - zero) + log_sum(lifts)
            groups.append((math.log(math.comb(size, ones)), each))
        return Constant(tuple(groups))

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        bounds, exact = super().attack(mechanism, candidates), BitTerms.attack(mechanism, candidates)
        return replace(
            bounds,
            report=replace(bounds.report, true_positives=exact.report.true_positives),
            unchanged=replace(bounds.unchanged, true_positives=exact.unchanged.true_positives),
        )
