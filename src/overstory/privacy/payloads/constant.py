"""What is the same in every report of one device, as a distribution over devices.

If X is what stays the same, c the chance that two devices have one X (the sum of p(x)^2) and n the number of devices:

    bits                 -log2 c, the collision entropy; for a uniform X of N outcomes log2 N
    crowd                1 + (n - 1) c devices have a device's own X, itself included, on average
    alone                the sum of p(x) (1 - p(x))^(n - 1): the share of devices whose X nobody else has

Shannon's entropy and the min-entropy are stated, too: log2 of the outcomes bounds all three.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from overstory.protocol.errors import ParameterError

Group = tuple[float, float]
"""Outcomes of equal probability: the logarithm of their number, and of each one's probability."""

MILLION: Final = 1_000_000


@dataclass(frozen=True)
class Constant:
    """What is the same in every report of one device, as a distribution over devices.

    Parameters
    ----------
    groups
        Outcomes of equal probability; none are needed where there is one outcome.

    Examples
    --------
    >>> seed = Constant.uniform(1024)
    >>> seed.bits, round(seed.crowd(1_000_000)), round(seed.alone(1_000_000), 3)
    (10.0, 978, 0.0)
    """

    groups: tuple[Group, ...] = ((0.0, 0.0),)

    @classmethod
    def uniform(cls, outcomes: int) -> Constant:
        """Return one of so many outcomes, all equally likely."""
        return cls(((math.log(outcomes), -math.log(outcomes)),))

    @property
    def bits(self) -> float:
        """Collision entropy, -log2 sum p(x)^2."""
        return _tidy(-_log_sum(count + 2 * each for count, each in self.groups) / math.log(2))

    @property
    def shannon_bits(self) -> float:
        """Entropy, -sum p(x) log2 p(x)."""
        return _tidy(-math.fsum(math.exp(count + each) * each for count, each in self.groups) / math.log(2))

    @property
    def min_bits(self) -> float:
        """Min-entropy, -log2 max p(x)."""
        return _tidy(-max(each for _, each in self.groups) / math.log(2))

    def crowd(self, devices: int) -> float:
        """Return how many of `devices` have a device's own outcome on average, itself included."""
        return 1.0 + (check_devices(devices) - 1) * math.exp2(-self.bits)

    def alone(self, devices: int) -> float:
        """Return the share of `devices` whose outcome no other of them has."""
        others = check_devices(devices) - 1
        if others == 0:
            return 1.0
        return math.fsum(
            math.exp(count + each + others * math.log1p(-math.exp(each))) for count, each in self.groups if each < 0
        )

    def times(self, outcomes: int) -> Constant:
        """Return this with an independent, uniform draw from so many outcomes added to it."""
        more = math.log(outcomes)
        return Constant(tuple((count + more, each - more) for count, each in self.groups))

    def words(self) -> str:
        """Return bits and crowd in words."""
        return f"{bits_text(self.bits)}; of a million devices {math.floor(self.crowd(MILLION)):,} {_share(self)} it"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "bits": self.bits,
            "shannon_bits": self.shannon_bits,
            "min_bits": self.min_bits,
            "crowd_of_a_million": self.crowd(MILLION),
            "alone_of_a_million": self.alone(MILLION),
        }


def check_devices(devices: int) -> int:
    """Return the number, or raise ParameterError unless it is a whole number above 0."""
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise ParameterError(f"devices = {devices!r}: give a whole number above 0")
    return devices


def bits_text(bits: float) -> str:
    """Return bits as they are printed, with one digit, rounded up.

    Examples
    --------
    >>> bits_text(31.0), bits_text(7.72), bits_text(1.0)
    ('31 bits', '7.8 bits', '1 bit')
    """
    number = f"{math.ceil(bits * 10 - 1e-6) / 10:g}"
    return f"{number} bit{'s' * (number != '1')}"


def _share(constant: Constant) -> str:
    return "shares" if math.floor(constant.crowd(MILLION)) == 1 else "share"


def weighted(parts: Iterable[tuple[float, int]]) -> Constant:
    """Return a draw of one of several sets, each with its probability and its number of equally likely outcomes."""
    return Constant(
        tuple((math.log(size), math.log(chance) - math.log(size)) for chance, size in parts if size and chance > 0)
    )


def mixed(parts: Iterable[tuple[float, Constant]]) -> Constant:
    """Return a draw from one of several distributions over different outcomes."""
    return Constant(
        tuple((count, each + math.log(share)) for share, one in parts if share for count, each in one.groups)
    )


def unary(ones: int, zeros: int, kept: float, raised: float) -> Constant:
    """Return `ones` bits that are 1 with probability `kept`, and `zeros` that are with `raised`."""
    own, others = list(_binomial(ones, kept)), list(_binomial(zeros, raised))
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


def _log_sum(logarithms: Iterable[float]) -> float:
    terms = list(logarithms)
    # log-sum-exp with the largest term taken out.
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))


def _tidy(bits: float) -> float:
    """Return the bits without what floats add: 10 rather than 9.999999999999998, and never below 0."""
    return max(0.0, round(bits, 9))
