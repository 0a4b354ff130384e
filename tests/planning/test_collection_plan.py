"""Plans from parameters: the paper's own examples, inverses, and the plan as data."""

import math
from statistics import NormalDist

import pytest

from overstory.planning import critical_value, learning_limit, plan_from_needs, plan_from_parameters
from overstory.planning.detection import critical_value_fdr, detectable_frequency, reports_needed
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism

LN_3 = mechanism("basic-rappor-one-time", domain_size=10_000, p=0.5, q=0.75)
SOME = {
    "rappor": {},
    "rappor-one-time": {"f": 0.5},
    "basic-rappor": {"domain_size": 26},
    "basic-rappor-one-time": {"domain_size": 26, "p": 0.5, "q": 0.75},
}


@pytest.mark.parametrize(("share", "about"), [(0.01, 10**6), (0.001, 10**8), (0.0001, 10**10)])
def test_section_4_2_one_percent_needs_a_million(share, about):
    assert LN_3.epsilon_report == pytest.approx(math.log(3))
    for candidates, factor in ((100, 2.4), (10**5, 1.1), (10**6, 1.2)):
        needed = reports_needed(LN_3, candidates, share, critical_value(0.05, candidates))
        assert about / factor < needed < about * factor


@pytest.mark.parametrize(("reports", "strings"), [(10**8, 1000), (10**10, 10_000)])
def test_section_4_2_how_many_strings(reports, strings):
    limit = learning_limit(LN_3, reports, 10**5)
    assert limit == pytest.approx(0.5 * math.sqrt(reports) / critical_value(0.05, 10**5))
    assert limit == pytest.approx(strings, rel=0.05)
    assert math.sqrt(reports) / 10 == strings


def test_the_limit_is_where_equal_shares_are_detected():
    limit = learning_limit(LN_3, 10**6, 1000)
    sd = 1000 / (2 * 0.75 - 1)
    assert 10**6 / limit == pytest.approx(NormalDist().inv_cdf(1 - 0.05 / 1000) * sd)


@pytest.mark.parametrize("name", sorted(SOME))
def test_reports_needed_is_the_inverse_of_the_smallest_share(name):
    built = mechanism(name, **SOME[name])
    plan = plan_from_parameters(built, 10**6, 20, share=0.01)
    assert reports_needed(built, 20, plan.detectable_frequency, plan.critical_value) == pytest.approx(10**6, rel=1e-6)
    again = detectable_frequency(built, plan.people_needed, 20, plan.critical_value)
    assert again == pytest.approx(0.01, rel=1e-3)
    assert (plan.people_needed <= 10**6) == (plan.detectable_frequency <= 0.01)


def test_figure_6_screens_its_candidates():
    built = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=32, f=0.75, p=0.5, q=0.75)
    plan = plan_from_parameters(built, 14_000_000, 8616)
    assert plan.num_fitted < 200
    assert plan.standard_error / 14_000_000 == pytest.approx(0.00149, rel=0.03)
    assert 0.004 < plan.detectable_frequency_fdr < plan.detectable_frequency < 0.008


def test_detection_half_the_time_and_nine_in_ten():
    plan = plan_from_parameters(mechanism("rappor"), 10**6, 200)
    power = NormalDist(plan.detectable_frequency * 10**6, plan.standard_error)
    assert 1 - power.cdf(plan.critical_value * plan.standard_error) == pytest.approx(0.5)
    power = NormalDist(plan.reliable_frequency * 10**6, plan.standard_error)
    assert 1 - power.cdf(plan.critical_value * plan.standard_error) == pytest.approx(0.9)


def test_a_false_discovery_rate_lets_more_pass():
    assert critical_value_fdr(0.05, 1000, 0.001) == pytest.approx(NormalDist().inv_cdf(1 - 0.05 / 10))
    assert critical_value_fdr(0.05, 1000, 0.1) == pytest.approx(NormalDist().inv_cdf(1 - 0.05 / 100))
    assert critical_value_fdr(0.05, 5, 0.1) == critical_value(0.05, 5)


def test_the_letters_of_one_round():
    plan = plan_from_parameters(mechanism("rappor-one-time", f=0.5), 1000, 5)
    assert dict(plan.parameters) == {"k": 128, "h": 2, "m": 16, "p": 0.0, "q": 1.0, "f": 0.5}
    assert plan_from_parameters(LN_3, 1000, 5).parameters["f"] == 0.0


def test_what_nothing_can_be_learned_from_is_said():
    plan = plan_from_parameters(mechanism("rappor"), 100, 200, share=0.5)
    assert plan.detectable_frequency > 1
    assert plan.learnable_strings == 0
    assert plan.people_needed > 100
    assert "too uncertain" in plan.plain_words()
    assert "too few" in plan.plain_words()


def test_the_words_of_a_screened_plan_and_of_a_closed_list():
    assert "first screens them" in plan_from_parameters(mechanism("rappor"), 10**6, 10**5).plain_words()
    plan = plan_from_needs(1.0, 4.0, 10**6, 26)
    assert plan.basic_standard_error < plan.standard_error
    assert "Basic RAPPOR" in plan.plain_words()


@pytest.mark.parametrize(
    ("reports", "candidates", "more", "says"),
    [
        (0, 5, {}, "reports = 0"),
        (10, 0, {}, "candidates = 0"),
        (10, 20_000, {}, "do not fit a domain"),
        (10**400, 5, {}, "reports = 1000"),
        (10, 10**400, {}, "candidates = 1000"),
        (10, 5, {"alpha": 1.0}, "alpha = 1.0"),
        (10, 5, {"share": 1.5}, "share = 1.5"),
    ],
)
def test_what_cannot_be_planned(reports, candidates, more, says):
    with pytest.raises(ParameterError, match=says):
        plan_from_parameters(LN_3, reports, candidates, **more)
    with pytest.raises(ParameterError, match="at least one"):
        critical_value(0.05, 0)
