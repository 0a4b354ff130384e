"""Corrections for looking at every candidate, against their textbook definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from overstory.analysis import selection
from overstory.protocol.errors import ParameterError

P_VALUES = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1))


def textbook_step_up(p_values, rate):
    """Benjamini and Hochberg 1995: the largest k with p_(k) <= k rate / M; reject the k smallest."""
    ordered = sorted(p_values)
    k = max((i + 1 for i in range(len(ordered)) if ordered[i] * len(ordered) <= rate * (i + 1)), default=0)
    return {i for i, p in enumerate(p_values) if k and p <= ordered[k - 1]}


@given(P_VALUES, st.floats(0.001, 0.5))
def test_step_up_is_the_textbooks(p_values, rate):
    assert set(selection.step_up(p_values, rate).tolist()) == textbook_step_up(p_values, rate)


@given(P_VALUES)
def test_q_values_say_at_which_rate_each_is_found(p_values):
    q = selection.adjusted_p_values(p_values, "fdr")
    for rate in (0.01, 0.05, 0.3):
        assert textbook_step_up(p_values, rate * (1 + 1e-9)) >= set(np.flatnonzero(q <= rate).tolist())
        assert textbook_step_up(p_values, rate * (1 - 1e-9)) <= set(np.flatnonzero(q <= rate).tolist())


def test_the_null_share_is_near_the_truth_and_never_above_one():
    rng = np.random.default_rng(5)
    p_values = np.concatenate((rng.random(6_000), rng.random(4_000) ** 40))
    assert selection.null_share(p_values) == pytest.approx(0.6, abs=0.04)
    assert selection.null_share(np.ones(3)) == 1.0
    assert selection.null_share(np.zeros(1)) == 1.0


def test_z_and_p_where_nothing_or_everything_is_known():
    raw, errors = np.array([5.0, -5.0, 0.0, 3.0]), np.array([0.0, 0.0, 0.0, np.inf])
    assert selection.z_values(raw, errors).tolist() == [np.inf, -np.inf, 0.0, 0.0]
    assert selection.upper_p_values(raw, errors).tolist() == [0.0, 1.0, 1.0, 1.0]


def test_unknown_rules_and_levels_are_refused():
    with pytest.raises(ParameterError, match="fdr or bonferroni"):
        selection.adjusted_p_values(np.ones(2), "holm")
    for alpha in (0.0, 1.0, 5.0, float("nan")):
        with pytest.raises(ParameterError, match="alpha"):
            selection.check_alpha(alpha)


def test_no_candidate_is_surer_than_it_looks_by_itself():
    """With all candidates but one present, Storey's share is small; a p-value of .2 must stay undetected."""
    p_values = np.array([1e-9] * 50 + [0.2])
    adjusted = selection.adjusted_p_values(p_values, "fdr", selection.null_share(p_values))
    assert adjusted[-1] >= 0.2
    assert (adjusted[:-1] < 0.05).all()
