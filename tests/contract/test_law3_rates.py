"""Law 3: every output coordinate follows its channel, on the device and in bulk; and the tests can tell."""

from functools import cache

import pytest
from contract_broken import BiasedCohort, CoarseNoise, LastBitTrue, OnlyZerosFlipped, PermanentRedrawn, SharedNumber
from contract_cases import TYPICAL_CASES, Case
from contract_devices import sample_bulk, sample_devices, sample_strangers
from contract_statistics import (
    FALSE_ALARM,
    Alarm,
    check_binomial,
    check_cohorts,
    check_pairs,
    check_rates,
    check_repeats,
)

DEVICES = 2_000
BULK = 20_000


def check_all(sample, mechanism) -> None:
    check_rates(sample, mechanism.channel)
    check_pairs(sample, mechanism.channel)
    check_cohorts(sample)
    if len(sample.reports) > 1:
        check_repeats(sample, mechanism.rounds.permanent, mechanism.rounds.instantaneous)


@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_devices(case):
    built = case.build()
    check_all(sample_devices(built, DEVICES), built)


@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_strangers(case):
    built = case.build()
    check_all(sample_strangers(built, DEVICES), built)


@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_bulk(case):
    built = case.build()
    check_all(sample_bulk(built, BULK), built)


@cache
def sound_devices(name, parameters):
    return sample_devices(Case(name, dict(parameters)).build(), DEVICES)


def rates(sample, mechanism):
    check_rates(sample, mechanism.channel)


def pairs(sample, mechanism):
    check_pairs(sample, mechanism.channel)


def repeats(sample, mechanism):
    check_repeats(sample, mechanism.rounds.permanent, mechanism.rounds.instantaneous)


def cohorts(sample, mechanism):
    check_cohorts(sample)


STRINGS = Case("rappor", {"num_bits": 16, "num_hashes": 2, "num_cohorts": 3})
SYMBOLS = Case("basic-rappor", {"domain_size": 9})
CLEAR = Case("rappor", {"num_bits": 16, "num_hashes": 2, "num_cohorts": 3, "p": 0.1, "q": 0.9})
LITTLE_NOISE = Case("rappor-one-time", {"num_bits": 128, "num_cohorts": 4, "f": 0.004})
BROKEN = [
    (LastBitTrue, STRINGS, rates),
    (LastBitTrue, SYMBOLS, rates),
    (OnlyZerosFlipped, STRINGS, rates),
    (OnlyZerosFlipped, SYMBOLS, rates),
    (PermanentRedrawn, CLEAR, repeats),
    (PermanentRedrawn, LITTLE_NOISE, repeats),
    (CoarseNoise, LITTLE_NOISE, rates),
    (SharedNumber, SYMBOLS, pairs),
    (SharedNumber, STRINGS, pairs),
    (BiasedCohort, STRINGS, cohorts),
]


@pytest.mark.parametrize(("broken", "case", "check"), BROKEN, ids=lambda x: getattr(x, "__name__", None) or str(x))
def test_a_broken_device_is_caught_and_a_sound_one_is_not(broken, case, check):
    built = case.build()
    check(sound_devices(case.name, tuple(case.parameters.items())), built)
    with pytest.raises(Alarm):
        check(sample_devices(built, DEVICES, broken), built)


def test_an_alarm_states_the_false_alarm_rate():
    with pytest.raises(Alarm, match=rf"at most {FALSE_ALARM:g} of its runs"):
        check_binomial([900], [1000], 0.5, "a coin")


def test_the_bulk_rates_would_catch_a_broken_kernel():
    built = STRINGS.build()
    sample = sample_bulk(built, BULK)
    sample.reports[0][:, -1] = sample.truth[:, -1]
    with pytest.raises(Alarm, match=r"coordinate \(15,\)"):
        check_rates(sample, built.channel)
    sample = sample_bulk(built, BULK)
    sample.reports[0][:, 1] = sample.reports[0][:, 0]
    with pytest.raises(Alarm):
        check_pairs(sample, built.channel)
