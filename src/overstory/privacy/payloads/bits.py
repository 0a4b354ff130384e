"""What a vector of bits discloses: two binary channels, on bits of which two values share some."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from overstory.privacy.histories.bits import worst_of_bits
from overstory.privacy.histories.pairs import PRECISE, Worst, bit_losses, bits_change, bits_seen
from overstory.privacy.payloads.base import (
    Atom,
    Attack,
    Evidence,
    PayloadTerms,
    Success,
    most_guess,
    share,
    true_positives,
)
from overstory.privacy.payloads.shared import NO_LIKENESS, Constant, Likeness, unary
from overstory.protocol.channels import (
    ONE,
    BinaryChannel,
    Rounds,
    as_decimal,
    log_ratio,
    power,
    round_up,
    weighted_sum,
)
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Shape

if TYPE_CHECKING:
    from overstory.privacy.payloads.blankets import Blanket
    from overstory.protocol.kinds.base import Report

Pair = tuple[int, int]


@dataclass(frozen=True)
class BitTerms(PayloadTerms):
    """Two binary channels, and how far two encodings can be apart."""

    kind: ClassVar[str] = "bits"
    permanent: Pair  # (P(1|1), P(1|0)) over 2**32
    instantaneous: Pair  # of a permanent bit, as above
    differences: tuple[Pair, ...]  # worst pairs (ones lowered, zeros raised)
    shapes: tuple[Shape, ...]  # of two values: `Encoding.shapes`; nothing's follow from these: `with_nothing`
    most_values: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", tuple(Shape(*shape) for shape in self.shapes))

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

    def change_leak(self, reports: int) -> float:
        return bits_change(self.rounds, self.shapes, reports)

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
    def epsilon_between(cls, mechanism: Any, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:
        """Return epsilon: positions with one pattern of true bits lose alike."""
        key, encode = mechanism.response_key, mechanism.encode
        histories = [[(key(value, cohort), encode(value, cohort)) for value in h] for h in (first, second)]
        patterns = Counter(
            tuple(tuple((name, bits >> i & 1) for name, bits in history) for history in histories)
            for i in range(mechanism.payload_bits)
        )
        # Log ratios of independent positions add up, each as often as its pattern occurs.
        losses = [(bit_losses(mechanism.rounds, *pattern), bits) for pattern, bits in patterns.items()]
        return round_up(max(weighted_sum((bits, loss[way]) for loss, bits in losses) for way in (0, 1)))

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

    @classmethod
    def blankets(cls, mechanism: Any, periods: int | None, *, in_cohort: bool) -> list[Blanket]:
        from overstory.privacy.payloads.blankets import of_bits

        return of_bits(mechanism, periods, in_cohort=in_cohort)


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
