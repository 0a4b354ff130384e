"""Law 3: every output coordinate follows its channel, on the device and in bulk; and the tests can tell."""

from functools import cache

import numpy as np
import pytest

from support.contract_broken import (
    AnotherSeed,
    BiasedCohort,
    CoarseNoise,
    LastBitTrue,
    LastSymbolNever,
    LowestMember,
    OnlyZerosFlipped,
    PermanentRedrawn,
    SharedNumber,
)
from support.contract_cases import TYPICAL_CASES, Case
from support.contract_devices import EveryPeriodTheSame, InPeriods, sample_bulk, sample_devices, sample_strangers
from support.contract_statistics import (
    FALSE_ALARM,
    Alarm,
    check_binomial,
    check_cohorts,
    check_outputs,
    check_pairs,
    check_rates,
    check_repeats,
)
from support.contract_views import output_chances, payloads, view_of

DEVICES = 2_000
BULK = 20_000


def check_all(sample, mechanism) -> None:
    rates(sample, mechanism)
    (pairs if view_of(mechanism).independent else outputs)(sample, mechanism)
    if not (np.diff(sample.cohorts) == 1).all():  # rows of a matrix, one after the other
        cohorts(sample, mechanism)
    if len(sample.reports) > 1:
        repeats(sample, mechanism)


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


def rates(sample, mechanism):
    check_rates(sample, view_of(mechanism).combined)


def pairs(sample, mechanism):
    check_pairs(sample, view_of(mechanism).combined)


def outputs(sample, mechanism):
    chances = np.array(output_chances(mechanism), float)
    check_outputs(sample, sample.truth.argmax(axis=1), payloads(mechanism), chances)


def repeats(sample, mechanism):
    check_repeats(sample, *view_of(mechanism).channels)


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
    (EveryPeriodTheSame, CLEAR, repeats),
    (CoarseNoise, LITTLE_NOISE, rates),
    (SharedNumber, SYMBOLS, pairs),
    (SharedNumber, STRINGS, pairs),
    (BiasedCohort, STRINGS, cohorts),
    (LastSymbolNever, Case("grr", {"domain_size": 9, "epsilon": 1.0}), outputs),
    (LastSymbolNever, Case("olh", {"epsilon": 1.0}), outputs),
    (AnotherSeed, Case("olh", {"epsilon": 2.0}), rates),
    (AnotherSeed, Case("random-matrix", {"epsilon": 2.0}), rates),
    (AnotherSeed, Case("hadamard", {"domain_size": 9, "epsilon": 2.0}), rates),
    (PermanentRedrawn, Case("l-grr", {"domain_size": 4, "epsilon_permanent": 3.0, "epsilon_report": 2.0}), repeats),
    (PermanentRedrawn, Case("subset", {"domain_size": 7, "epsilon": 1.0}), repeats),
    (LowestMember, Case("subset", {"domain_size": 7, "epsilon": 1.0}), outputs),
    (LastSymbolNever, Case("projective", {"domain_size": 9, "epsilon": 1.0}), outputs),
    (LastBitTrue, Case("dbitflip", {"domain_size": 9, "epsilon": 2.0, "sampled_bits": 4}), rates),
]


@pytest.mark.sampled(6)
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
