"""d-bit flipping: each device answers for a few of the domain's values, always the same ones.

Ding, Kulkarni, Yekhanin (NeurIPS 2017): the collection of telemetry where a report must stay a few bits long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from overstory.protocol.channels import BinaryChannel, Differences, Rounds
from overstory.protocol.encodings import OneHot, check_count, check_symbol
from overstory.protocol.hashing import OverstoryV1
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.mechanisms.calibration import check_epsilon, least_noise, symmetric
from overstory.protocol.mechanisms.mechanism import Report
from overstory.protocol.probability import ONE


@dataclass(frozen=True)
class SampledBits:
    """The bits of `sampled_bits` values, out of the one-hot vector: those at fixed offsets from the device's cohort.

    The cohort is public. As many cohorts as values, so every value is asked of exactly the share
    ``sampled_bits / domain_size`` of the cohorts; the offsets are spread over the domain by the project's hash family.

    Parameters
    ----------
    domain_size
        d, at least 2.
    sampled_bits
        d', from 1 to d.

    Examples
    --------
    >>> encoding = SampledBits(5, 2)
    >>> [sum(len(encoding.positions(value, cohort)) for cohort in range(5)) for value in range(5)]
    [2, 2, 2, 2, 2]
    """

    domain_size: int
    sampled_bits: int

    def __post_init__(self) -> None:
        OneHot(self.domain_size)
        check_count("sampled_bits", self.sampled_bits, 1, self.domain_size)

    @property
    def num_bits(self) -> int:
        """A bit for each sampled value."""
        return self.sampled_bits

    @property
    def num_cohorts(self) -> int:
        """One for every value."""
        return self.domain_size

    @property
    def differences(self) -> Differences:
        """Two sampled values differ in two bits; if one value alone is sampled, in its own."""
        return ((1, 1),) if self.sampled_bits > 1 else ((1, 0), (0, 1))

    @property
    def nothing(self) -> int:
        """No bit: as a value that is not sampled."""
        return 0

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Return the distance from the cohort to the value that each bit stands for."""
        if self.sampled_bits == self.domain_size:
            return tuple(range(self.domain_size))
        family = OverstoryV1(b"d-bit flip")
        return tuple(sorted(family.positions(b"offsets", 0, self.domain_size, self.sampled_bits)))

    @cached_property
    def places(self) -> dict[int, int]:
        """Return the bit that stands for each sampled distance."""
        return {offset: bit for bit, offset in enumerate(self.offsets)}

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:
        """Return the value's bit, or nothing where it is not sampled."""
        distance = (check_symbol(value, self.domain_size) - cohort) % self.domain_size
        return (self.places[distance],) if distance in self.places else ()

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"encoding": "sampled-bits", "domain_size": self.domain_size, "sampled_bits": self.sampled_bits}


@dataclass(frozen=True)
class SampledMechanism(BitMechanism):
    """Bits of a sample of the values: `p_star` and `q_star` are those of a report that was asked for the value."""

    def supports(self, report: Report, value: Any) -> bool:
        """Whether the report was asked for the value, and its bit is set."""
        bits = self.encode(value, report.cohort)
        return bool(report.bits & bits)


def dbitflip(*, domain_size: int, epsilon: float, sampled_bits: int | None = None) -> BitMechanism:
    """d-bit flipping: symmetric noise, memoized, on the bits of a public sample of the values (16 unless given).

    References
    ----------
    Ding, Kulkarni, Yekhanin, "Collecting telemetry data privately", NeurIPS 2017.
    """
    parameters = dict(locals())
    encoding = SampledBits(domain_size, _few(domain_size) if sampled_bits is None else sampled_bits)
    check_epsilon("epsilon", epsilon)

    def promised(threshold: int) -> float:
        return Rounds(symmetric(threshold), BinaryChannel.identity()).epsilon(encoding.differences)

    channel = symmetric(least_noise(promised, epsilon, 1, ONE // 2 - 1))
    return SampledMechanism("dbitflip", parameters, encoding, Rounds(channel, BinaryChannel.identity()))


def _few(domain_size: int) -> int:
    return min(OneHot(domain_size).num_bits, 16)
