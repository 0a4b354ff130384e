"""Needs that cannot be met: what is proposed instead is possible, and is the nearest that is; or one sentence."""

import math

import pytest

import overstory
from overstory.planning import plan_from_needs, plan_from_parameters
from overstory.planning.detection import required_sample_size
from overstory.planning.kinds import plan_for_domain
from overstory.planning.nearest import MOST_EPSILON, nearest
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.rappor import rappor
from overstory.protocol.kinds.registry import mechanism

STRINGS = [
    (1.07, 4.39, 10**4, 200, 0.01),
    (0.5, 2.0, 10**3, 1000, 0.01),
    (0.01, 0.02, 10**4, 10, None),
    (1.0, 1.0, 5000, 50, 0.02),
]
DOMAINS = [
    (100, 1.0, 10**5, None, 0.01),
    (10, 0.1, 100, None, None),
    (1000, 0.5, 10**4, 2.0, 0.01),
    (10_000, 1.0, 10**5, 3.0, 0.01),
]


@pytest.mark.parametrize(("epsilon", "permanent", "devices", "candidates", "share"), STRINGS)
def test_what_is_proposed_for_strings_is_possible_and_less_is_not(epsilon, permanent, devices, candidates, share):
    def detects(report, ceiling, number):
        return plan_from_needs(report, ceiling, number, candidates, share=share or 0.1).people_needed <= number

    proposed = plan_from_needs(epsilon, permanent, devices, candidates, share=share).nearest
    assert proposed.share == (share or 0.1)
    assert detects(epsilon, permanent, proposed.num_reports)
    assert not detects(epsilon, permanent, proposed.num_reports * 97 // 100)
    if proposed.epsilon_report is None:
        assert not detects(MOST_EPSILON, max(permanent, MOST_EPSILON), devices)
    else:
        assert detects(proposed.epsilon_report, proposed.epsilon_permanent, devices)
        less = proposed.epsilon_report * 0.97
        assert not detects(less, max(permanent, less), devices)


@pytest.mark.parametrize(("size", "epsilon", "devices", "permanent", "share"), DOMAINS)
def test_what_is_proposed_for_a_domain_is_possible_and_less_is_not(size, epsilon, devices, permanent, share):
    def detects(report, number, ceiling):
        plan = plan_for_domain(size, report, number, epsilon_permanent=ceiling, share=share or 0.1)
        assert (plan.nearest is None) == (plan.people_needed <= number)
        return plan.nearest is None

    proposed = plan_for_domain(size, epsilon, devices, epsilon_permanent=permanent, share=share).nearest
    assert detects(epsilon, proposed.num_reports, permanent)
    assert not detects(epsilon, proposed.num_reports * 96 // 100, permanent)
    assert detects(proposed.epsilon_report, devices, proposed.epsilon_permanent)
    less = proposed.epsilon_report * 0.97
    assert not detects(less, devices, permanent and max(permanent, less + 0.01))


def test_where_needs_are_met_nothing_is_proposed():
    assert plan_from_needs(1.0, 4.0, 10**7, 200, share=0.01).nearest is None
    assert plan_from_needs(1.0, 4.0, 10**7, 200).nearest is None
    assert plan_for_domain(100, 1.0, 10**6, share=0.01).nearest is None
    assert plan_from_parameters(rappor(), 1000, 200, share=0.01).nearest is None, "there is no need to change"


def test_the_smallest_share_is_that_of_the_needs_as_they_are():
    plan = plan_from_needs(1.0, 4.0, 10**4, 200, share=0.001)
    assert plan.nearest.smallest_share == plan.detectable_frequency
    assert "the smallest that they detect is a share of" in plan.plain_words()
    assert plan.to_json()["nearest"]["num_reports"] == plan.nearest.num_reports
    hopeless = plan_from_needs(0.1, 0.2, 100, 200)
    assert hopeless.nearest.smallest_share is None
    assert "no share" in hopeless.nearest.plain_words()


def test_the_search_takes_few_plans():
    asked = []

    def devices_needed(epsilon, epsilon_permanent, number):
        asked.append((epsilon, number))
        return math.ceil(1e6 * 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2)

    proposed = nearest(devices_needed, 0.1, None, 10**6, share=0.01, smallest_share=None)
    assert (proposed.num_reports, proposed.epsilon_report) == (400_000_000, 1.77)
    assert len(asked) <= 10


@pytest.mark.parametrize("refused", [None, ParameterError])
def test_where_no_number_of_devices_is_enough_it_says_so(refused):
    def devices_needed(epsilon, epsilon_permanent, number):
        if refused:
            raise refused("no oracle for these")

    proposed = nearest(devices_needed, 1.0, 2.0, 1000, share=0.01, smallest_share=None)
    assert (proposed.num_reports, proposed.epsilon_report, proposed.epsilon_permanent) == (None, None, None)
    assert "no number of devices would be enough" in proposed.plain_words()
    assert f"no epsilon up to {MOST_EPSILON} would be" in proposed.plain_words()


@pytest.mark.parametrize("share", [0, -0.1, 1.1, math.nan])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ParameterError, match="give a fraction above 0 and at most 1"):
        plan_for_domain(10, 1.0, 1000, share=share)


@pytest.mark.parametrize("share", [5e-324, 1e-160])
def test_a_share_that_nobody_could_detect_is_refused(share):
    with pytest.raises(ParameterError, match="no number of devices would be enough"):
        required_sample_size(mechanism("oue", domain_size=9, epsilon=1.0), share, 9)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-10])
@pytest.mark.parametrize("name", ["olh", "blh", "l-grr", "loloha"])
def test_an_epsilon_below_the_grid_is_refused(name, epsilon):
    two = name in {"l-grr", "loloha"}
    needs = {"epsilon_permanent": epsilon, "epsilon_report": epsilon / 2} if two else {"epsilon": epsilon}
    with pytest.raises(ParameterError, match=r"too small|nothing can be learned"):
        overstory.oracle(name, domain_size=100, **needs)
