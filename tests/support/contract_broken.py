"""Devices broken on purpose, each as some real one was: a statistical test that passes them tests nothing."""

import hashlib
import math
from typing import Any

from overstory.client import Randomizer
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import mechanism as build
from overstory.protocol.sampling import SystemEntropy
from support.contract_views import payloads


class LastBitTrue(Randomizer):
    """The last bit is never randomized (OpenDP's RAPPOR, for 20 months)."""

    def report(self, value: Any) -> Report:
        last = 1 << self.mechanism.encoding.num_bits - 1
        true = self.mechanism.encode(value, self.cohort)
        return Report(self.cohort, super().report(value).bits & ~last | true & last)


class OnlyZerosFlipped(Randomizer):
    """No true bit is ever cleared (pure-LDP's RAPPOR)."""

    def report(self, value: Any) -> Report:
        return Report(self.cohort, super().report(value).bits | self.mechanism.encode(value, self.cohort))


class PermanentRedrawn(Randomizer):
    """Every report draws the permanent response anew (multi-freq-ldpy's longitudinal clients)."""

    def report(self, value: Any) -> Report:
        return self.mechanism.randomize(value, SystemEntropy(), cohort=self.cohort)


class CoarseNoise(Randomizer):
    """f is rounded up to a multiple of 1/128 (two clients of one project with different effective f)."""

    def __init__(self, mechanism: BitMechanism, **rest: Any) -> None:
        coarse = {**mechanism.parameters, "f": math.ceil(mechanism.parameters["f"] * 128) / 128}
        super().__init__(build(mechanism.name, **coarse), **rest)


class SharedNumber(Randomizer):
    """Bits 0 and 1 are compared with the same uniform number."""

    def __init__(self, mechanism: BitMechanism, **rest: Any) -> None:
        super().__init__(mechanism, entropy=_Doubled(mechanism.encoding.num_bits), **rest)


class _Doubled(SystemEntropy):
    def __init__(self, size: int) -> None:
        self.size = size

    def bits(self, count: int) -> int:
        first = sum(1 << at for at in range(0, count, self.size))
        drawn = super().bits(count) & ~(first << 1)
        return drawn | (drawn & first) << 1


class BiasedCohort(Randomizer):
    """The cohort is two random bits modulo the number of cohorts."""

    def __init__(self, mechanism: BitMechanism, *, secret: bytes, **rest: Any) -> None:
        biased = hashlib.sha256(secret).digest()[0] % 4 % mechanism.encoding.num_cohorts
        super().__init__(mechanism, secret=secret, cohort=biased, **rest)


class LastSymbolNever(Randomizer):
    """The symbol or output with the highest number is never sent: a range one too short."""

    def report(self, value: Any) -> Report:
        sent = super().report(value)
        return Report(sent.cohort, 0) if sent.bits == payloads(self.mechanism)[-1] else sent


class AnotherSeed(Randomizer):
    """The report names a row next to the one that the device encoded with."""

    def report(self, value: Any) -> Report:
        sent = super().report(value)
        return Report(sent.cohort ^ 1, sent.bits)


class LowestMember(Randomizer):
    """The subset's lowest member is replaced by the lowest value: subsets are no longer alike."""

    def report(self, value: Any) -> Report:
        sent = super().report(value)
        return Report(sent.cohort, sent.bits & (sent.bits - 1) | 1 if not sent.bits & 1 else sent.bits)
