"""The best RAPPOR for two budgets: closed form against search, exact epsilons, and what is refused; plans as data."""

import math
import sys
from statistics import NormalDist
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overstory
from overstory.planning import detection, plan_from_needs, plan_from_parameters
from overstory.planning.kinds import plan_for_domain
from overstory.planning.needs import design, sufficient_permanent
from overstory.presentation.charts.drawing import Scale
from overstory.presentation.formats import epsilon_text
from overstory.presentation.formats import share as percentage
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.bits import rappor
from overstory.protocol.kinds.registry import mechanism

PAPER_BUDGETS = (1.0742858641667283, 4.394449154672439)
BUDGETS = st.tuples(st.floats(0.01, 6), st.floats(1, 8)).map(lambda pair: (pair[0], pair[0] * pair[1]))


def variance(kept, raised, hashes):
    """Per report, of a rare string's frequency; written from the binomial, not from the planner."""
    return raised * (1 - raised) / (kept - raised) ** 2 / hashes


def searched(budgets, hashes, steps=60):
    """Least variance on a grid of RAPPOR's f, p, q whose epsilons, by the paper's formulas, keep the budgets."""
    least = math.inf
    for i in range(1, steps):
        f = i / steps
        if 2 * hashes * math.log((1 - f / 2) / (f / 2)) > budgets[1]:
            continue
        for j in range(steps):
            p = j / steps
            for q in ((j + d) / steps for d in range(1, steps - j + 1)):
                kept, raised = f * (p + q) / 2 + (1 - f) * q, f * (p + q) / 2 + (1 - f) * p
                if hashes * math.log(kept * (1 - raised) / (raised * (1 - kept))) <= budgets[0]:
                    least = min(least, variance(kept, raised, hashes))
    return least


@pytest.mark.parametrize("hashes", [1, 2, 3])
@pytest.mark.parametrize("budgets", [(1.0743, 4.3945), (1.0, 1.05), (2.0, 2.6), (3.0, 9.0), (0.5, 0.5)])
def test_no_parameters_on_a_grid_are_better(budgets, hashes):
    best = design(*budgets, num_bits=64, num_hashes=hashes, num_cohorts=1)
    found = variance(float(best.channel.keep_one), float(best.channel.raise_zero), hashes)
    other = searched(budgets, hashes)
    assert found <= other * (1 + 1e-6)
    assert other < 1.6 * found, "the grid comes near enough to mean something"


def sized(budgets, num_bits=128):
    """The best plan for section 5.2's collection with the paper's cohorts."""
    return plan_from_parameters(design(*budgets, num_bits=num_bits, num_hashes=1, num_cohorts=16), 10**6, 200)


@given(BUDGETS, st.integers(1, 4))
@settings(max_examples=150)
def test_exact_epsilons_are_never_above_the_budgets_and_near_them(budgets, hashes):
    best = design(*budgets, num_bits=64, num_hashes=hashes, num_cohorts=1)
    assert best.epsilon_report <= budgets[0]
    assert best.epsilon_permanent <= budgets[1]
    assert best.epsilon_report > budgets[0] - 1e-4
    assert best.epsilon_permanent > min(budgets[1], 36) - 0.2


@given(BUDGETS)
@settings(max_examples=60)
def test_one_hash_is_never_worse_than_more(budgets):
    found = [design(*budgets, num_bits=64, num_hashes=h, num_cohorts=1) for h in (1, 2, 3, 4)]
    errors = [variance(float(m.channel.keep_one), float(m.channel.raise_zero), h + 1) for h, m in enumerate(found)]
    assert errors == sorted(errors) or max(errors) - min(errors) < 1e-4 * errors[0]


@pytest.mark.parametrize(("num_bits", "expected"), [(128, 1875), (256, 1822)])
def test_the_design_of_methods(num_bits, expected):
    plan = sized(PAPER_BUDGETS, num_bits)
    rounded = {letter: round(value, 4) for letter, value in plan.parameters.items()}
    assert rounded == {"k": num_bits, "h": 1, "m": 16, "p": 0.2239, "q": 0.5307, "f": 0.2}
    assert plan.standard_error == pytest.approx(expected, rel=0.005)
    assert float(plan.mechanism.channel.keep_one) == pytest.approx(0.5, abs=1e-8)
    assert float(plan.mechanism.channel.raise_zero) == pytest.approx(1 / (math.exp(PAPER_BUDGETS[0]) + 1), abs=1e-8)


def test_what_it_gains_over_the_paper_and_what_it_costs():
    plan = sized(PAPER_BUDGETS)
    paper = plan_from_parameters(rappor(num_bits=128, num_cohorts=16, num_hashes=2, f=0.5, p=0.5, q=0.75), 10**6, 200)
    assert paper.standard_error / plan.standard_error == pytest.approx(2974 / 1875, rel=0.005)
    ours, theirs = plan.privacy, paper.privacy
    assert (round(ours.epsilon_n[2], 3), round(theirs.epsilon_n[2], 3)) == (2.041, 2.017)
    assert ours.epsilon_any[2] > theirs.epsilon_any[2]


def test_equal_budgets_are_one_time_rappor():
    plan = plan_from_needs(1.0, 1.0, 10**6, 100)
    assert (plan.parameters["p"], plan.parameters["q"]) == (0.0, 1.0)
    assert plan.privacy.epsilon_report == plan.privacy.epsilon_permanent <= 1.0
    assert plan.privacy.epsilon_permanent == pytest.approx(1.0, abs=1e-6)


def test_beyond_the_sufficient_budget_nothing_is_gained_and_below_it_something_is_lost():
    enough = sufficient_permanent(2.0)
    below, at, beyond = (sized((2.0, permanent)) for permanent in (enough * 0.95, enough, 9.0))
    assert at.standard_error == pytest.approx(beyond.standard_error, rel=1e-6)
    assert below.standard_error > at.standard_error * 1.0001
    said, unsaid = (plan_from_needs(2.0, permanent, 10**6, 100).plain_words() for permanent in (9.0, enough))
    assert f"A permanent epsilon of {epsilon_text(enough)} would" in said
    assert "A permanent epsilon of" not in unsaid
    assert at.privacy.epsilon_any[2] > beyond.privacy.epsilon_any[2]


def test_sizes_follow_the_candidates():
    sizes = [plan_from_needs(1, 4, 10**7, m).parameters for m in (5, 26, 200, 400)]
    rows = [int(p["k"] * p["m"]) for p in sizes]
    assert rows == sorted(rows)
    assert plan_from_needs(1, 4, 5000, 200).parameters["m"] <= 5
    assert plan_from_needs(1, 4, 10**6, 1).parameters["m"] >= 1


@pytest.mark.parametrize(
    ("needs", "more", "says"),
    [
        ((2.0, 1.0, 100, 10), {}, "below epsilon_report"),
        ((0.0, 1.0, 100, 10), {}, "epsilon_report = 0.0"),
        ((math.nan, 1.0, 100, 10), {}, "epsilon_report = nan"),
        ((1.0, math.inf, 100, 10), {}, "epsilon_permanent = inf"),
        ((1.0, 2.0, 0, 10), {}, "reports = 0"),
        ((1.0, 2.0, 100, 0), {}, "candidates = 0"),
        ((1.0, 2.0, 100, 10), {"alpha": 0.0}, "alpha = 0.0"),
        ((1.0, 2.0, 100, 10), {"share": 0.0}, "share = 0.0: give a fraction above 0 and at most 1"),
        ((1.0, 2.0, 100, 10), {"share": math.nan}, "share = nan"),
    ],
)
def test_what_cannot_be_planned(needs, more, says):
    with pytest.raises(ParameterError, match=says):
        plan_from_needs(*needs, **more)


def test_parameters_rounded_the_wrong_way_are_taken_back(monkeypatch):
    """Whatever the rounding, the exact epsilons have the last word."""
    careless = sys.modules["overstory.planning.needs"]
    monkeypatch.setattr(careless, "_up", lambda value: math.floor(value * careless.GRID) - 5)
    best = design(*PAPER_BUDGETS, num_bits=64, num_hashes=1, num_cohorts=1)
    assert best.epsilon_report <= PAPER_BUDGETS[0]
    assert best.epsilon_permanent <= PAPER_BUDGETS[1]


LN_3 = mechanism("basic-rappor-one-time", domain_size=10_000, p=0.5, q=0.75)
SOME = {
    "rappor": {},
    "rappor-one-time": {"f": 0.5},
    "basic-rappor": {"domain_size": 26},
    "basic-rappor-one-time": {"domain_size": 26, "p": 0.5, "q": 0.75},
}


@pytest.mark.parametrize(("reports", "strings"), [(10**8, 1000), (10**10, 10_000)])
def test_section_4_2_how_many_strings(reports, strings):
    # p = 1/2: (2q - 1) sqrt(N) / Q (RAPPOR, appendix).
    limit = 1 / detection.detectable_frequency(LN_3, reports, 10**5, detection.critical_value(0.05, 10**5))
    assert limit == pytest.approx(0.5 * math.sqrt(reports) / detection.critical_value(0.05, 10**5))
    assert limit == pytest.approx(strings, rel=0.05)
    assert math.sqrt(reports) / 10 == strings


@pytest.mark.parametrize("name", sorted(SOME))
def test_reports_needed_is_the_inverse_of_the_smallest_share(name):
    built = mechanism(name, **SOME[name])
    plan = plan_from_parameters(built, 10**6, 20, share=0.01)
    assert detection.reports_needed(built, 20, plan.detectable_frequency, plan.critical_value) == pytest.approx(
        10**6, rel=1e-6
    )
    again = detection.detectable_frequency(built, plan.people_needed, 20, plan.critical_value)
    assert again == pytest.approx(0.01, rel=1e-3)
    assert (plan.people_needed <= 10**6) == (plan.detectable_frequency <= 0.01)


def test_detection_half_the_time_and_nine_in_ten():
    plan = plan_from_parameters(mechanism("rappor"), 10**6, 200)
    power = NormalDist(plan.detectable_frequency * 10**6, plan.standard_error)
    assert 1 - power.cdf(plan.critical_value * plan.standard_error) == pytest.approx(0.5)
    power = NormalDist(plan.reliable_frequency * 10**6, plan.standard_error)
    assert 1 - power.cdf(plan.critical_value * plan.standard_error) == pytest.approx(0.9)


def test_a_false_discovery_rate_lets_more_pass():
    assert detection.critical_value_fdr(0.05, 1000, 0.001) == pytest.approx(NormalDist().inv_cdf(1 - 0.05 / 10))
    assert detection.critical_value_fdr(0.05, 1000, 0.1) == pytest.approx(NormalDist().inv_cdf(1 - 0.05 / 100))
    assert detection.critical_value_fdr(0.05, 5, 0.1) == detection.critical_value(0.05, 5)


@pytest.mark.parametrize("part", ["svg", "narrow"])
def test_the_picture_of_a_plan_says_what_would_be_and_has_its_threshold(part):
    plan = plan_from_parameters(mechanism("rappor"), 10**6, 200, share=0.02)
    picture = plan.plot()
    around = [(share, 1.959964 * plan.error_at(share)) for share in (0.02, 0.0)]
    (held, nobody) = [f"lie between {percentage(at - by)} and {percentage(at + by)}" for at, by in around]
    assert picture.alt == (
        f"95 of 100 estimates of a share of 2% {held}; those of a value that nobody holds {nobody}. "
        f"Detected is what passes {percentage(plan.threshold)}."
    )
    drawing = ET.fromstring(getattr(picture, part))
    words = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert words[-3:] == ["likely detected", "likely not", "threshold"]
    line = next(path for path in drawing.iter() if path.get("data-threshold"))
    scale = Scale(*map(float, drawing.get("data-x").split()))
    assert float(line.get("d")[1:].split()[0]) == pytest.approx(scale.at(plan.threshold), abs=0.06)


def test_what_nothing_can_be_learned_from_is_said():
    plan = plan_from_parameters(mechanism("rappor"), 100, 200, share=0.5)
    assert plan.detectable_frequency > 1
    assert plan.learnable_strings == 0
    assert plan.people_needed > 100
    assert "too uncertain" in plan.plain_words()
    assert "too few" in plan.plain_words()


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
def test_what_parameters_cannot_be_planned(reports, candidates, more, says):
    with pytest.raises(ParameterError, match=says):
        plan_from_parameters(LN_3, reports, candidates, **more)
    with pytest.raises(ParameterError, match="at least one"):
        detection.critical_value(0.05, 0)


@pytest.mark.parametrize(("size", "epsilon", "permanent", "share"), [(100, 1.0, None, 0.01), (1000, 0.5, 2.0, 0.01)])
def test_the_devices_that_a_share_of_a_domain_needs_detect_it_and_fewer_do_not(size, epsilon, permanent, share):
    def plan(devices):
        return plan_for_domain(size, epsilon, devices, epsilon_permanent=permanent, share=share)

    needed = plan(10**6).people_needed
    assert plan(needed).detected_nine_in_ten <= share * (1 + 1e-9) < plan(needed * 97 // 100).detected_nine_in_ten
    assert f"To detect a share of {100 * share:g}% nine times in ten" in " ".join(plan(1000).detection())


@pytest.mark.parametrize("share", [5e-324, 1e-160])
def test_a_share_that_nobody_could_detect_is_refused(share):
    with pytest.raises(ParameterError, match="no number of devices would be enough"):
        detection.required_sample_size(mechanism("oue", domain_size=9, epsilon=1.0), share, 9)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-10])
@pytest.mark.parametrize("name", ["olh", "blh", "l-grr", "loloha"])
def test_an_epsilon_below_the_grid_is_refused(name, epsilon):
    two = name in {"l-grr", "loloha"}
    needs = {"epsilon_permanent": epsilon, "epsilon_report": epsilon / 2} if two else {"epsilon": epsilon}
    with pytest.raises(ParameterError, match=r"too small|nothing can be learned"):
        overstory.oracle(name, domain_size=100, **needs)
