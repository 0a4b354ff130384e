"""Plans: one question a group, and exactly the epsilon that is stated, by enumeration."""

import itertools
import math

import numpy as np
import pytest

from overstory.discovery import CodedIntegers, discover
from overstory.protocol.errors import ParameterError
from overstory.protocol.search import thresholds

TINY = CodedIntegers(3)


def symbol_chances(question, code, cohort):
    """P(every report) of a question's mechanism, from its channel, exactly."""
    encoding, channel = question.mechanism.encoding, question.mechanism.channel
    own = encoding.symbol(question.value(code), cohort)
    return [channel.keep if symbol == own else channel.other for symbol in range(encoding.num_symbols)]


def worst_ratio(plan, questions, cohorts):
    """The largest log ratio over all outputs of a device that is asked these questions, between any two codes."""
    worst = 0.0
    for cohort in cohorts:
        outputs = []
        for code in range(8):
            per_question = [symbol_chances(q, plan.held(q, code), cohort) for q in questions]
            outputs.append([math.prod(chances) for chances in itertools.product(*per_question)])
        for a, b in itertools.permutations(outputs, 2):
            worst = max(worst, *(math.log(x / y) for x, y in zip(a, b, strict=True)))
    return worst


@pytest.mark.parametrize("known", [(), (1, 4)])
def test_a_device_reveals_what_is_stated(known):
    plan = discover(epsilon=1.2, domain=TINY, levels=(1, 2, 3), known=known)
    for question in plan.questions:
        exact, stated = worst_ratio(plan, [question], range(16)), question.mechanism.epsilon_permanent
        assert stated - 1e-9 <= exact <= stated + 1e-12
    assert plan.epsilon <= 1.2
    # Broken on purpose: a device that answers two questions at the whole epsilon each.
    assert worst_ratio(plan, plan.questions[:2], range(4)) > 1.2


def test_known_values_answer_elsewhere():
    plan = discover(epsilon=2.0, domain=CodedIntegers(16), known=[7, 9], step=4)
    dictionary, search = plan.questions[:2]
    assert [plan.held(dictionary, code) for code in (7, 8)] == [7, None]
    assert [plan.held(search, code) for code in (7, 8, None)] == [None, 8, None]
    names = {search.value(code) for code in range(1 << 16)}
    assert search.value(None) not in names


def test_elsewhere_is_no_prefix():
    plan = discover(epsilon=2.0, domain=CodedIntegers(10), levels=(4, 10))
    for question in plan.levels:
        names = {question.value(code) for code in range(1 << 10)}
        assert len(names) == 1 << question.num_bits
        assert question.value(None) not in names


def test_plans_differ_where_reports_would():
    changes = {}, {"key": "m"}, {"epsilon": 2.1}, {"step": 4}, {"known": [1]}, {"known": [2]}, {"domain": TINY}
    plans = [discover(**{"epsilon": 2.0} | change) for change in changes]
    plans.append(discover(epsilon=2.0, levels=(24, 44, 64)))
    plans.append(discover(epsilon=2.0, levels=(24, 44, 64), shares=(1, 1, 1)))
    assert len({plan.digest for plan in plans}) == len(plans)
    assert discover(epsilon=2.0).digest == plans[0].digest


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilon": 0}, "epsilon = 0"),
        ({"step": 0}, "step = 0"),
        ({"step": 99}, "step = 99"),
        ({"beam": 0}, "beam = 0"),
        ({"levels": (27, 64)}, "give shorter steps or a smaller beam"),
        ({"step": 26, "beam": 1000}, "1000 prefixes extended by .* give shorter steps or a smaller beam"),
        ({"levels": (8, 8, 64)}, "rising lengths"),
        ({"levels": (8, 32)}, "end with the domain's width, 64"),
        ({"levels": ()}, "give prefix lengths"),
        ({"shares": [1, 2]}, "2 shares for 4 levels"),
        ({"shares": [1, 1, 1, 0]}, "above 0 for each group"),
        ({"known": [1], "known_share": 1.0}, "known_share = 1.0"),
        ({"known": [-1]}, "outside the domain"),
        ({"key": "k" * 62}, "at most 64 bytes; this one has 65"),
        ({"known": [1], "key": "k" * 60}, "at most 64 bytes; this one has"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes, says):
    with pytest.raises(ParameterError, match=says):
        discover(**{"epsilon": 1.0} | changes)


def test_thresholds_follow_their_weights():
    drawn = np.diff([0, *thresholds([3, 1, 4])]) / 2**32
    assert np.allclose(drawn, [3 / 8, 1 / 8, 4 / 8], atol=1e-9)
    assert thresholds([3, 1])[0] == 3 << 30
