"""The attacker's posterior against sums over every permanent response, and against the epsilons that bound it."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.privacy.attacks import posterior
from overstory.protocol.channels import SymbolChannel, SymbolRounds
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism
from papers.rappor.attacker import false_discovery_rate, missed_share, nothing_to_learn, posterior_of_bits
from support.referee_cases import BLOOM, cases
from support.referee_device import device

RAPPOR = mechanism("rappor", **BLOOM, f=0.5, p=0.5, q=0.75)
BASIC = mechanism("basic-rappor", domain_size=4, f=0.3, p=0.35, q=0.65)
THREE_HASHES = {"num_bits": 5, "num_hashes": 3, "num_cohorts": 3}
CASES = {
    **{name: mechanism(name, **given) for name, given in cases(range(4, 5))},
    "three hashes, q below p": mechanism("rappor", **THREE_HASHES, f=0.25, p=0.75, q=0.25),
    "no permanent round": mechanism("rappor", **BLOOM | {"num_cohorts": 1}, f=0.0, p=0.25, q=0.75),
    "Google's hashes": mechanism("rappor", **BLOOM, f=0.5, hash_family="google-rappor-python"),
    "basic": BASIC,
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reports", [1, 2])
def test_the_posterior_is_what_summing_over_all_permanent_responses_gives(name, reports):
    known, cohort = CASES[name], CASES[name].num_cohorts - 1 if CASES[name].num_cohorts < 10 else 3
    values = "abcd" if known.domain_size is None else range(known.domain_size)
    prior = dict(zip(values, (0.1, 0.2, 0.3, 0.4, 0.1), strict=False))
    real, checked = device(known, cohort), 0
    for outs in product(real.outputs(), repeat=reports):
        joint = {value: prior[value] * float(real.chance(value, outs)) for value in values}
        if sum(joint.values()) == 0:
            with pytest.raises(ParameterError, match="no device"):
                posterior(known, [Report(cohort, out) for out in outs], prior)
            continue
        expected = {value: weight / sum(joint.values()) for value, weight in joint.items()}
        assert posterior(known, [Report(cohort, out) for out in outs], prior) == pytest.approx(expected, rel=1e-9)
        checked += 1
    assert checked >= 2


def test_a_hundred_coins_of_the_papers_third_section():
    memoized = mechanism("grr", domain_size=2, epsilon=math.log(3))
    afresh = replace(memoized, rounds=SymbolRounds(SymbolChannel(2, Fraction(1)), SymbolChannel(2, Fraction(1, 2))))
    answers = [Report(0, 1)] * 75 + [Report(0, 0)] * 25
    believed = posterior(afresh, answers, {0: 1, 1: 1})
    assert believed[0] == pytest.approx(1 / (1 + 3**50), rel=1e-12)
    assert posterior(memoized, [Report(0, 1)] * 100, {0: 1, 1: 1})[0] == pytest.approx(0.25, abs=1e-8)
    with pytest.raises(ParameterError, match="without a cause"):
        posterior(memoized, answers, {0: 1, 1: 1})


@given(ones=st.integers(0, 2000), reports=st.integers(1, 2000))
@settings(max_examples=30)
def test_thousands_of_reports_neither_overflow_nor_vanish(ones, reports):
    known = RAPPOR
    seen = [Report(0, 0b1111)] * min(ones, reports) + [Report(0, 0)] * max(0, reports - ones)
    believed = posterior(known, seen, dict.fromkeys("abcd", 1.0))
    assert math.fsum(believed.values()) == pytest.approx(1)
    assert min(believed.values()) > 0


def test_reports_in_two_cohorts_are_read_through_two_permanent_responses():
    known, prior = RAPPOR, dict.fromkeys("abcd", 1.0)
    first, second = Report(0, 0b0110), Report(1, 0b1001)
    apart = [posterior(known, [one], prior) for one in (first, second)]
    joint = {value: apart[0][value] * apart[1][value] for value in prior}
    total = sum(joint.values())
    expected = {value: weight / total for value, weight in joint.items()}
    assert posterior(known, [first, second], prior) == pytest.approx(expected, rel=1e-9)


def test_no_report_leaves_the_prior_and_a_prior_of_nothing_stays_nothing():
    assert posterior(BASIC, [], {0: 3, 1: 1}) == {0: 0.75, 1: 0.25}
    assert posterior(BASIC, [Report(0, 0b0010)], {0: 1, 1: 0})[1] == 0


@pytest.mark.parametrize(
    ("reports", "prior", "words"),
    [
        ([Report(0, 1)], {}, "positive prior"),
        ([Report(0, 1)], {0: 0}, "positive prior"),
        ([Report(0, 1)], {0: -1, 1: 2}, "from 0"),
        ([Report(0, 1)], {0: math.nan}, "from 0"),
        ([Report(0, 16)], {0: 1}, "4 bits"),
        ([Report(0, -1)], {0: 1}, "4 bits"),
        ([Report(1, 1)], {0: 1}, "cohort"),
        ([Report(0, 1)], {9: 1}, "9"),
    ],
)
def test_what_is_no_report_or_no_prior_is_refused(reports, prior, words):
    with pytest.raises(ParameterError, match=words):
        posterior(BASIC, reports, prior)


@pytest.mark.parametrize("f", [0.0, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("frequency", [0.001, 0.1, 0.5])
def test_figures_7_and_8_by_going_through_all_reports_of_two_values(f, frequency):
    known = mechanism("rappor", num_bits=4, num_hashes=2, num_cohorts=1, f=f, p=0.5, q=0.75)
    apart = next(w for w in map(str, range(100)) if not known.encode(w, 0) & known.encode("v", 0))
    real, own = device(known, 0), known.encode("v", 0)
    held, seen = [0.0] * 3, [0.0] * 3
    for out in range(16):
        ones = (out & own).bit_count()
        held[ones] += frequency * float(real.chance("v", (out,)))
        seen[ones] += frequency * float(real.chance("v", (out,))) + (1 - frequency) * float(real.chance(apart, (out,)))
    for ones in range(3):
        assert posterior_of_bits(known, frequency, ones) == pytest.approx(held[ones] / seen[ones], rel=1e-9)
    assert false_discovery_rate(known, frequency) == pytest.approx(1 - held[2] / seen[2], rel=1e-9)
    assert missed_share(known) == pytest.approx(1 - held[2] / frequency, rel=1e-9)
    silent = float(sum(chance for response, chance in real.response_law("v").items() if not response & own))
    assert nothing_to_learn(known) == pytest.approx(silent, rel=1e-9)
    assert nothing_to_learn(known) == pytest.approx((f / 2) ** 2)


def test_a_symbol_that_is_none_is_refused():
    with pytest.raises(ParameterError, match="symbol of 0"):
        posterior(mechanism("grr", domain_size=5, epsilon=1.0), [Report(0, 7)], {0: 1})
