"""Plans: one question a group, and exactly the epsilon that is stated, by enumeration."""

import numpy as np
import pytest

from overstory.discovery import CodedIntegers, discover
from overstory.protocol.errors import ParameterError
from overstory.protocol.search import thresholds


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
