"""Law 3: every output coordinate follows its channel, on the device and in bulk; and the tests can tell."""

import hashlib
import math
from functools import cache

import numpy as np
import pytest

from overstory.audit.laws import FALSE_ALARM, Alarm, check_binomial, payloads_of
from overstory.client import Randomizer
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism as build
from overstory.protocol.sampling import SystemEntropy
from support.contract_cases import TYPICAL_CASES, Case
from support.contract_samples import (
    EveryPeriodTheSame,
    InPeriods,
    check_cohorts,
    check_outputs,
    check_pairs,
    check_rates,
    check_repeats,
    sample_bulk,
    sample_devices,
    sample_strangers,
    view_of,
)

DEVICES = 2_000
BULK = 20_000


# Devices broken on purpose, each as some real one was: a statistical test that passes them tests nothing.
class LastBitTrue(Randomizer):
    """The last bit is never randomized (OpenDP's RAPPOR, for 20 months)."""

    def report(self, value):
        last = 1 << self.mechanism.encoding.num_bits - 1
        true = self.mechanism.encode(value, self.cohort)
        return Report(self.cohort, super().report(value).bits & ~last | true & last)


class OnlyZerosFlipped(Randomizer):
    """No true bit is ever cleared (pure-LDP's RAPPOR)."""

    def report(self, value):
        return Report(self.cohort, super().report(value).bits | self.mechanism.encode(value, self.cohort))


class PermanentRedrawn(Randomizer):
    """Every report draws the permanent response anew (multi-freq-ldpy's longitudinal clients)."""

    def report(self, value):
        return self.mechanism.randomize(value, SystemEntropy(), cohort=self.cohort)


class CoarseNoise(Randomizer):
    """f is rounded up to a multiple of 1/128 (two clients of one project with different effective f)."""

    def __init__(self, mechanism, **rest):
        coarse = {**mechanism.parameters, "f": math.ceil(mechanism.parameters["f"] * 128) / 128}
        super().__init__(build(mechanism.name, **coarse), **rest)


class SharedNumber(Randomizer):
    """Bits 0 and 1 are compared with the same uniform number."""

    def __init__(self, mechanism, **rest):
        super().__init__(mechanism, entropy=_Doubled(mechanism.encoding.num_bits), **rest)


class _Doubled(SystemEntropy):
    def __init__(self, size):
        self.size = size

    def bits(self, count):
        first = sum(1 << at for at in range(0, count, self.size))
        drawn = super().bits(count) & ~(first << 1)
        return drawn | (drawn & first) << 1


class BiasedCohort(Randomizer):
    """The cohort is two random bits modulo the number of cohorts."""

    def __init__(self, mechanism, *, secret, **rest):
        biased = hashlib.sha256(secret).digest()[0] % 4 % mechanism.encoding.num_cohorts
        super().__init__(mechanism, secret=secret, cohort=biased, **rest)


class LastSymbolNever(Randomizer):
    """The symbol or output with the highest number is never sent: a range one too short."""

    def report(self, value):
        sent = super().report(value)
        return Report(sent.cohort, 0) if sent.bits == payloads_of(self.mechanism, 0)[-1] else sent


class AnotherSeed(Randomizer):
    """The report names a row next to the one that the device encoded with."""

    def report(self, value):
        sent = super().report(value)
        return Report(sent.cohort ^ 1, sent.bits)


class LowestMember(Randomizer):
    """The subset's lowest member is replaced by the lowest value: subsets are no longer alike."""

    def report(self, value):
        sent = super().report(value)
        return Report(sent.cohort, sent.bits & (sent.bits - 1) | 1 if not sent.bits & 1 else sent.bits)


def check_all(sample, mechanism):
    check_rates(sample, mechanism)
    (check_pairs if view_of(mechanism).independent else check_outputs)(sample, mechanism)
    if not (np.diff(sample.cohorts) == 1).all():  # rows of a matrix, one after the other
        check_cohorts(sample, mechanism)
    if len(sample.reports) > 1:
        check_repeats(sample, mechanism)


@cache
def sound_devices(name, parameters):
    return sample_devices(Case(name, dict(parameters)).build(), DEVICES)


COLLECTED = {
    "devices": lambda case: sound_devices(case.name, tuple(case.parameters.items())),
    # Reports that follow from the secret have the law of those that the system's randomness makes.
    "devices in their periods": lambda case: sample_devices(case.build(), DEVICES, InPeriods),
    "strangers": lambda case: sample_strangers(case.build(), DEVICES),
    "bulk": lambda case: sample_bulk(case.build(), BULK),
}


@pytest.mark.sampled(40)
@pytest.mark.parametrize("collected", COLLECTED)
@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_reports_follow_their_channels(case, collected):
    check_all(COLLECTED[collected](case), case.build())


STRINGS = Case("rappor", {"num_bits": 16, "num_hashes": 2, "num_cohorts": 3})
SYMBOLS = Case("basic-rappor", {"domain_size": 9})
CLEAR = Case("rappor", {"num_bits": 16, "num_hashes": 2, "num_cohorts": 3, "p": 0.1, "q": 0.9})
LITTLE_NOISE = Case("rappor-one-time", {"num_bits": 128, "num_cohorts": 4, "f": 0.004})
BROKEN = [
    (LastBitTrue, STRINGS, check_rates),
    (LastBitTrue, SYMBOLS, check_rates),
    (OnlyZerosFlipped, STRINGS, check_rates),
    (OnlyZerosFlipped, SYMBOLS, check_rates),
    (PermanentRedrawn, CLEAR, check_repeats),
    (PermanentRedrawn, LITTLE_NOISE, check_repeats),
    (EveryPeriodTheSame, CLEAR, check_repeats),
    (CoarseNoise, LITTLE_NOISE, check_rates),
    (SharedNumber, SYMBOLS, check_pairs),
    (SharedNumber, STRINGS, check_pairs),
    (BiasedCohort, STRINGS, check_cohorts),
    (LastSymbolNever, Case("grr", {"domain_size": 9, "epsilon": 1.0}), check_outputs),
    (LastSymbolNever, Case("olh", {"epsilon": 1.0}), check_outputs),
    (AnotherSeed, Case("olh", {"epsilon": 2.0}), check_rates),
    (AnotherSeed, Case("random-matrix", {"epsilon": 2.0}), check_rates),
    (AnotherSeed, Case("hadamard", {"domain_size": 9, "epsilon": 2.0}), check_rates),
    (
        PermanentRedrawn,
        Case("l-grr", {"domain_size": 4, "epsilon_permanent": 3.0, "epsilon_report": 2.0}),
        check_repeats,
    ),
    (PermanentRedrawn, Case("subset", {"domain_size": 7, "epsilon": 1.0}), check_repeats),
    (LowestMember, Case("subset", {"domain_size": 7, "epsilon": 1.0}), check_outputs),
    (LastSymbolNever, Case("projective", {"domain_size": 9, "epsilon": 1.0}), check_outputs),
    (LastBitTrue, Case("dbitflip", {"domain_size": 9, "epsilon": 2.0, "sampled_bits": 4}), check_rates),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("broken", "case", "check"), BROKEN, ids=lambda x: getattr(x, "__name__", None) or str(x))
def test_a_broken_device_is_caught_and_a_sound_one_is_not(broken, case, check):
    built = case.build()
    check(sound_devices(case.name, tuple(case.parameters.items())), built)
    with pytest.raises(Alarm):
        check(sample_devices(built, DEVICES, broken), built)


def test_an_alarm_states_the_false_alarm_rate():
    with pytest.raises(Alarm, match=rf"at most {FALSE_ALARM:g} of runs"):
        check_binomial([900], [1000], 0.5, "a coin")


def test_the_bulk_rates_would_catch_a_broken_kernel():
    built = STRINGS.build()
    sample = sample_bulk(built, BULK)
    sample.reports[0][:, -1] = sample.truth[:, -1]
    with pytest.raises(Alarm, match=r"coordinate \(15,\)"):
        check_rates(sample, built)
    sample = sample_bulk(built, BULK)
    sample.reports[0][:, 1] = sample.reports[0][:, 0]
    with pytest.raises(Alarm):
        check_pairs(sample, built)
