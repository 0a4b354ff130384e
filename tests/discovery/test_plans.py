"""Plans: one question a group, and exactly the epsilon that is stated, by enumeration."""

import itertools
import math

import numpy as np
import pytest

from overstory.discovery import CodedIntegers, discover, find, prefix_extension, simulate
from overstory.protocol.errors import ParameterError
from overstory.protocol.search.plans import thresholds

TINY = CodedIntegers(3)


def symbol_chances(question, code, cohort):
    """P(every report) of a question's mechanism, from its channel, exactly."""
    encoding, channel = question.mechanism.encoding, question.mechanism.channel
    own = encoding.symbol(question.value(code), cohort)
    return [channel.keep if symbol == own else channel.other for symbol in range(encoding.num_symbols)]


def worst_ratio(plan, group, cohorts):
    """The largest log ratio over all outputs of one group's device, between any two codes."""
    worst = 0.0
    for cohort in cohorts:
        outputs = []
        for code in range(8):
            per_question = [symbol_chances(q, plan.held(q, code), cohort) for q in plan.groups[group].questions]
            outputs.append([math.prod(chances) for chances in itertools.product(*per_question)])
        for a, b in itertools.permutations(outputs, 2):
            worst = max(worst, *(math.log(x / y) for x, y in zip(a, b, strict=True)))
    return worst


@pytest.mark.parametrize("oracle", ["linear-hash", "hadamard", "grr"])
def test_a_partitioned_device_reveals_what_is_stated(oracle):
    plan = prefix_extension(epsilon=1.2, domain=TINY, step=1, oracle=oracle)
    for group in range(len(plan.groups)):
        cohorts = range(min(plan.groups[group].questions[0].mechanism.num_cohorts, 16))
        exact = worst_ratio(plan, group, cohorts)
        stated = plan.groups[group].epsilon
        assert exact <= stated + 1e-12
        assert stated - 1e-9 <= exact
    assert plan.epsilon <= 1.2


def test_a_broken_plan_fails_the_same_check():
    """A device that answers two questions at the whole epsilon each."""
    plan = prefix_extension(epsilon=1.2, domain=TINY, step=1, oracle="grr")
    from overstory.protocol.search.plans import Group, Plan

    both = tuple(q for group in plan.groups[:2] for q in group.questions)
    broken = Plan(domain=TINY, groups=(Group(1 << 32, both),))
    assert worst_ratio(broken, 0, range(1)) > 1.2
    assert worst_ratio(broken, 0, range(1)) <= broken.epsilon  # but the statement adds them up


def test_known_values_answer_elsewhere():
    plan = discover(epsilon=2.0, domain=CodedIntegers(16), known=[7, 9], step=4)
    dictionary, search = plan.groups[0].questions[0], plan.groups[1].questions[0]
    assert plan.held(dictionary, 7) == 7
    assert plan.held(dictionary, 8) is None
    assert plan.held(search, 7) is None
    assert plan.held(search, 8) == 8
    names = {search.value(code) for code in range(1 << 16)}
    assert search.value(None) not in names


@pytest.mark.parametrize("oracle", ["linear-hash", "grr", "hadamard"])
def test_elsewhere_is_no_prefix(oracle):
    plan = prefix_extension(epsilon=2.0, domain=CodedIntegers(10), levels=(4, 10), oracle=oracle)
    for question in plan.levels:
        names = {question.value(code) for code in range(1 << 10)}
        assert len(names) == 1 << question.num_bits
        assert question.value(None) not in names


def test_answers_that_fit_no_plan_are_refused():
    plan = prefix_extension(epsilon=2.0, domain=CodedIntegers(8), step=4)
    other = prefix_extension(epsilon=2.0, domain=CodedIntegers(8), step=4, oracle="hadamard")
    with pytest.raises(ParameterError, match="other questions than its plan asks"):
        find(plan, simulate(other, []))
    with pytest.raises(ParameterError, match="answers of 0 groups"):
        find(plan, ())


def test_plans_differ_where_reports_would():
    plans = [
        prefix_extension(epsilon=2.0),
        prefix_extension(epsilon=2.0, key="m"),
        prefix_extension(epsilon=2.1),
        prefix_extension(epsilon=2.0, step=4),
        prefix_extension(epsilon=2.0, oracle="grr", domain=TINY, step=3),
        discover(epsilon=2.0),
        discover(epsilon=2.0, known=[1]),
        discover(epsilon=2.0, known=[2]),
        discover(epsilon=2.0, key="m"),
    ]
    assert len({plan.digest for plan in plans}) == len(plans)
    assert prefix_extension(epsilon=2.0).digest == plans[0].digest


def test_any_oracle_can_be_plugged_in():
    from overstory.protocol.mechanisms.registry import mechanism

    def binary(epsilon, domain_size, key):
        return mechanism("linear-hash", epsilon=epsilon, domain_size=1 << 64, hash_bits=1)

    plan = prefix_extension(epsilon=5.0, domain=CodedIntegers(8), step=4, oracle=binary)
    assert plan.levels[0].mechanism.encoding.num_symbols == 2
    assert plan.epsilon <= 5.0


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: prefix_extension(epsilon=0), "epsilon = 0"),
        (lambda: prefix_extension(epsilon=1.0, step=0), "step = 0"),
        (lambda: prefix_extension(epsilon=1.0, beam=0), "beam = 0"),
        (
            lambda: prefix_extension(epsilon=1.0, step=20, oracle="hadamard"),
            "give shorter steps or a smaller beam, or the oracle linear",
        ),
        (lambda: prefix_extension(epsilon=1.0, levels=(8, 8, 64)), "rising lengths"),
        (lambda: prefix_extension(epsilon=1.0, levels=(8, 32)), "end with the domain's width, 64"),
        (lambda: prefix_extension(epsilon=1.0, levels=()), "give prefix lengths"),
        (lambda: prefix_extension(epsilon=1.0, shares=[1, 2]), "2 shares for 8 levels"),
        (lambda: prefix_extension(epsilon=1.0, shares=[1, 1, 1, 1, 1, 1, 1, 0]), "above 0 for each group"),
        (lambda: prefix_extension(epsilon=1.0, oracle="none"), "there is no mechanism 'none'"),
        (lambda: prefix_extension(epsilon=1.0, oracle="dbitflip"), "dbitflip cannot search"),
        (lambda: prefix_extension(epsilon=1.0, oracle="olh"), "olh cannot search"),
        (lambda: discover(epsilon=1.0, known=[1], known_share=1.0), "known_share = 1.0"),
        (lambda: discover(epsilon=1.0, known=[-1]), "outside the domain"),
        (lambda: discover(epsilon=1.0, step=99), "step = 99"),
        (lambda: prefix_extension(epsilon=1.0, key="k" * 63), "at most 64 bytes; this one has 65"),
        (lambda: discover(epsilon=1.0, known=[1], key="k" * 60), "at most 64 bytes; this one has 66"),
    ],
)
def test_what_cannot_be_planned_is_refused(build, says):
    with pytest.raises(ParameterError, match=says):
        build()


def test_thresholds_follow_their_weights():
    drawn = np.diff([0, *thresholds([3, 1, 4])]) / 2**32
    assert np.allclose(drawn, [3 / 8, 1 / 8, 4 / 8], atol=1e-9)


def test_a_plugged_in_oracle_over_a_small_domain_is_hashed_into():
    plan = prefix_extension(epsilon=2.0, domain=CodedIntegers(40), levels=(20, 40), beam=4, oracle="hadamard")
    question = plan.levels[1]
    assert not question.is_linear
    assert 0 <= question.value(123456789) < question.domain_size
    assert question.value(123456789) != question.value(987654321)
