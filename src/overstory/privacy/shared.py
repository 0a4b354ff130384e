"""What the reports of one device share: what is equal in all of them, and what is alike.

*Equal*: a distribution over devices. If X is what stays the same, c the chance that two devices have one X (the sum of
p(x)^2) and n the number of devices:

    bits                 -log2 c, the collision entropy; for a uniform X of N outcomes log2 N
    crowd                1 + (n - 1) c devices have a device's own X, itself included, on average

Shannon's entropy is stated, too: log2 of the outcomes bounds both.

*Alike*: two rounds of noise send a fresh report every time, but all reports of one value are drawn from one permanent
response. If A and B are n reports each of one device, and its value is known and does not change, they share the mutual
information I(A; B): nothing without the permanent response, and as much as its whole entropy for many reports.

- Bits: given the value, the positions are independent, and each is a permanent bit Z with n fresh bits in A and n in
  B. Their numbers of ones say all that they say of Z, so I is a sum over two counts, exact; positions of ones are alike
  and so are positions of zeros.
- Symbols: exact for one report against one. For more, I(A; B) <= I(A; Z) <= min(H(Z), n I(Y; Z)), as reports Y are
  independent given the permanent symbol Z.

It bounds recognition: whoever looks for the device of B among M devices, one of which sent A, is right with a chance of
at most (I + 1) / log2 M (Fano). It is an average, and no crowd: some devices share more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from overstory.protocol.channels import BinaryChannel, Rounds, SymbolRounds
from overstory.protocol.kinds.base import check_count

Group = tuple[float, float]
"""Outcomes of equal probability: the logarithm of their number, and of each one's probability."""

MILLION: Final = 1_000_000
MOST_DEVICES: Final = 10**15


@dataclass(frozen=True)
class Constant:
    """What is the same in every report of one device, as a distribution over devices."""

    groups: tuple[Group, ...] = ((0.0, 0.0),)  # of outcomes of equal probability

    @classmethod
    def uniform(cls, outcomes: int) -> Constant:
        return cls(((math.log(outcomes), -math.log(outcomes)),))

    @property
    def bits(self) -> float:
        """Collision entropy, -log2 sum p(x)^2."""
        return _tidy(-log_sum(count + 2 * each for count, each in self.groups) / math.log(2))

    @property
    def shannon_bits(self) -> float:
        """Entropy, -sum p(x) log2 p(x)."""
        return _tidy(-math.fsum(math.exp(count + each) * each for count, each in self.groups) / math.log(2))

    def crowd(self, devices: int) -> float:
        """Return how many of `devices` have a device's own outcome on average, itself included."""
        check_count("devices", devices, 1, MOST_DEVICES)
        return 1.0 + (devices - 1) * math.exp2(-self.bits)

    def times(self, outcomes: float) -> Constant:
        """Return this with an independent, uniform draw from so many outcomes: 1 / s, where a share s has it too."""
        more = math.log(outcomes)
        return Constant(tuple((count + more, each - more) for count, each in self.groups))

    def words(self, devices: str = "devices") -> str:
        crowd = math.floor(self.crowd(MILLION))
        return f"{bits_text(self.bits)}; of a million {devices} {crowd:,} {'shares' if crowd == 1 else 'share'} it"

    def to_json(self) -> dict[str, Any]:
        return {
            "bits": self.bits,
            "shannon_bits": self.shannon_bits,
            "crowd_of_a_million": self.crowd(MILLION),
        }


def bits_text(bits: float) -> str:
    """Return bits as they are printed, with one digit, rounded up."""
    number = f"{math.ceil(bits * 10 - 1e-6) / 10:g}"
    return f"{number} bit{'s' * (number != '1')}"


def weighted(parts: Iterable[tuple[float, int]]) -> Constant:
    """Return a draw of one of several sets, each with its probability and its number of equally likely outcomes."""
    return Constant(
        tuple((math.log(size), math.log(chance) - math.log(size)) for chance, size in parts if size and chance > 0)
    )


def mixed(parts: Iterable[tuple[float, Constant]]) -> Constant:
    """Return a draw from one of several distributions over different outcomes."""
    return Constant(
        tuple((count, each + math.log(share)) for share, constant in parts if share for count, each in constant.groups)
    )


def unary(ones: int, zeros: int, keep_one: float, raise_zero: float) -> Constant:
    """Return `ones` bits that are 1 with probability `keep_one`, and `zeros` that are with `raise_zero`."""
    own, others = list(_binomial(ones, keep_one)), list(_binomial(zeros, raise_zero))
    return Constant(tuple((a + c, b + d) for a, b in own for c, d in others))


def _binomial(bits: int, chance: float) -> Iterator[Group]:
    """Yield, for each number of ones among `bits`, how many patterns have it and how likely each is, as logarithms."""
    for ones in range(bits + 1):
        if (chance == 0 and ones) or (chance == 1 and ones < bits):
            continue
        # ln C(bits, ones), and ones ln p + (bits - ones) ln(1 - p) for each of these patterns.
        patterns = math.lgamma(bits + 1) - math.lgamma(ones + 1) - math.lgamma(bits - ones + 1)
        each = (ones * math.log(chance) if ones else 0.0) + (
            (bits - ones) * math.log1p(-chance) if ones < bits else 0.0
        )
        yield patterns, each


def log_sum(logarithms: Iterable[float]) -> float:
    """Return the logarithm of a sum, of the logarithms of what is added up."""
    terms = list(logarithms)
    # log-sum-exp with the largest term taken out.
    most = max(terms)
    return most if math.isinf(most) else most + math.log(math.fsum(math.exp(term - most) for term in terms))


def _tidy(bits: float) -> float:
    """Return the bits without what floats add: 10 rather than 9.999999999999998, and never below 0."""
    return max(0.0, round(bits, 9))


MOST_REPORTS: Final = 1000  # reports a side up to which the sum over two counts is taken


@dataclass(frozen=True)
class Likeness:
    """What reports share beyond what is equal in them."""

    bits: Rounds | None = None  # the rounds of each bit, where a report is a vector of bits
    patterns: tuple[tuple[float, float], ...] = ()  # a value's (ones, zeros), on average over cohorts; the worst counts
    symbol: SymbolRounds | None = None  # the rounds of the symbol, where a report is a symbol

    def beyond(self, reports: int) -> float:
        """Return I(A; B) of so many reports against as many others of one device, in bits, given what is equal."""
        check_count("reports", reports, 1, MOST_REPORTS)
        if self.symbol is not None:
            return round(symbol_bits(self.symbol, reports), 9)
        if self.bits is None:
            return 0.0
        one, zero = (position_bits(self.bits, true, reports) for true in (True, False))
        return round(max(ones * one + zeros * zero for ones, zeros in self.patterns), 9)

    def is_exact(self, reports: int) -> bool:
        """Whether `beyond` is the mutual information itself, and no upper bound."""
        return self.symbol is None or reports == 1


NO_LIKENESS: Final = Likeness()


@lru_cache(maxsize=256)
def position_bits(rounds: Rounds, true: bool, reports: int) -> float:  # noqa: FBT001 - a bit
    """Return what two numbers of ones, each of so many reports of one position, share."""
    lit = float(rounds.permanent.keep_one if true else rounds.permanent.raise_zero)
    counts = list(zip(*_counts(rounds.instantaneous, reports), strict=True))
    # I(A; B) = sum of P(a, b) log2 (P(a, b) / (P(a) P(b))), a and b independent given the permanent bit.
    each = [lit * one + (1 - lit) * zero for one, zero in counts]
    return math.fsum(
        _term(lit * a_one * b_one + (1 - lit) * a_zero * b_zero, each[a] * each[b])
        for a, (a_one, a_zero) in enumerate(counts)
        for b, (b_one, b_zero) in enumerate(counts)
    )


def _counts(channel: BinaryChannel, reports: int) -> tuple[list[float], list[float]]:
    """Return the distributions of the number of ones, from a permanent 1 and from a permanent 0."""
    one, zero = (
        [math.comb(reports, n) * rate**n * (1 - rate) ** (reports - n) for n in range(reports + 1)]
        for rate in (channel.keep_one, channel.raise_zero)
    )
    return [float(p) for p in one], [float(p) for p in zero]


@lru_cache(maxsize=256)
def symbol_bits(rounds: SymbolRounds, reports: int) -> float:
    """Return what two reports of one permanent symbol share, or the bound for more."""
    first, second, k = rounds.permanent, rounds.instantaneous, rounds.permanent.domain_size
    own, other, keep, move = (float(p) for p in (first.keep, first.other, second.keep, second.other))
    seen_own, seen_other = float(rounds.combined.keep), float(rounds.combined.other)
    if reports == 1:
        # P(y, y') = sum_z P(z) Q(y|z) Q(y'|z); what is neither y nor y' moves to both
        both_own = own * keep**2 + (k - 1) * other * move**2
        both_alike = other * keep**2 + (own + (k - 2) * other) * move**2
        one_own = (own + other) * keep * move + (k - 2) * other * move**2
        differ = 2 * other * keep * move + (own + (k - 3) * other) * move**2
        # The k^2 pairs (y, y') fall into four classes: both own, both one other, own and other, two others.
        return math.fsum(
            (
                _term(both_own, seen_own**2),
                (k - 1) * _term(both_alike, seen_other**2),
                2 * (k - 1) * _term(one_own, seen_own * seen_other),
                (k - 1) * (k - 2) * _term(differ, seen_other**2) if k > 2 else 0.0,
            )
        )
    # I(A; B) <= I(A; Z) <= min(H(Z), n (H(Y) - H(Y|Z))).
    permanent, seen, given = (_entropy(*each, k) for each in ((own, other), (seen_own, seen_other), (keep, move)))
    return min(permanent, reports * (seen - given))


def _entropy(own: float, other: float, size: int) -> float:
    return -(_term(own, 1.0) + (size - 1) * _term(other, 1.0))


def _term(joint: float, product: float) -> float:
    return joint * math.log2(joint / product) if joint > 0 else 0.0
