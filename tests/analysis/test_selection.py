"""P-values, corrections for looking at every candidate, quantiles and small systems, by textbooks and by SciPy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import linalg, special

from overstory.analysis import selection
from overstory.analysis.decoding import model as gls
from overstory.analysis.decoding.model import median, simplex_least_squares
from overstory.analysis.selection import chi2_tail
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


DEGREES = (1, 2, 3, 4, 9, 18, 19, 20, 21, 63, 255, 1000, 4096, 65_536)


def chi_squares(degrees):
    """From far below the mean to far above it, by standard deviations."""
    values = degrees + math.sqrt(2 * degrees) * np.linspace(-12, 20, 161)
    return [float(value) for value in values if value > 0]


@pytest.mark.parametrize("degrees", DEGREES)
def test_the_tail_of_chi_square_is_scipys(degrees):
    for value in chi_squares(degrees):
        expected = float(special.chdtrc(degrees, value))
        assert chi2_tail(degrees, value) == pytest.approx(expected, rel=1e-11, abs=0), value


@pytest.mark.parametrize(("value", "expected"), [(0.0, 1.0), (math.inf, 0.0), (1e6, 0.0), (1e-300, 1.0)])
def test_the_ends_of_chi_square(value, expected):
    assert chi2_tail(3, value) == expected


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_the_median_is_numpys(size):
    values = np.random.default_rng(size).normal(size=size)
    assert median(values) == np.median(values)
    assert math.isnan(median(np.append(values, math.nan)))


def positive(size):
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, 2 * size))
    return root @ root.T, rng.normal(size=(size, 2))


@pytest.mark.parametrize("size", [1, 2, 30, 100])
def test_small_and_large_systems_are_solved_alike(monkeypatch, size):
    """By NumPy below `MANY` unknowns and by SciPy from there on."""
    matrix, right = positive(size)
    few = gls.cholesky_solve(matrix, right), *gls.cholesky_inverse(matrix)
    monkeypatch.setattr(gls, "MANY", 0)
    many = gls.cholesky_solve(matrix, right), *gls.cholesky_inverse(matrix)
    for one, other in zip(few[:2], many[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12 * np.abs(other).max())
    assert few[2] * (1 - 1e-9) <= many[2] <= 3 * few[2]  # LAPACK's is an estimate, from below for the inverse's norm
    np.testing.assert_allclose(few[1], linalg.inv(matrix), rtol=1e-9, atol=1e-12 * np.abs(few[1]).max())
    assert few[2] == pytest.approx(1 / np.linalg.cond(matrix, 1), rel=1e-9)


@pytest.mark.parametrize("many", [0, 256])
def test_what_is_not_positive_definite_is_refused(monkeypatch, many):
    monkeypatch.setattr(gls, "MANY", many)
    for refused in (gls.cholesky_inverse, lambda matrix: gls.cholesky_solve(matrix, np.ones((2, 1)))):
        with pytest.raises(np.linalg.LinAlgError):
            refused(np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ValueError, match=r"infs or NaNs|NaN"):
        gls.cholesky_solve(np.full((2, 2), np.nan), np.ones((2, 1)))


@pytest.mark.parametrize("size", [3, 40])
def test_shares_are_the_same_by_either_way(monkeypatch, size):
    gram, right = positive(size)
    few = simplex_least_squares(gram, right[:, 0])
    monkeypatch.setattr(gls, "MANY", 0)
    np.testing.assert_allclose(few, simplex_least_squares(gram, right[:, 0]), rtol=1e-9, atol=1e-12)


def problem(seed, size, rows):
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(rows, size))
    response = rng.normal(size=rows) + design @ rng.dirichlet(np.full(size, 0.3))
    return design.T @ design, design.T @ response


@given(st.integers(0, 10**6), st.integers(1, 25), st.integers(1, 40))
def test_the_optimality_conditions_hold(seed, size, rows):
    gram, moment = problem(seed, size, rows)
    shares = simplex_least_squares(gram, moment)
    slope = gram @ shares - moment
    level = slope[shares > 0].max()
    tolerance = 1e-5 * (1 + np.abs(gram).max())
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    assert slope.min() >= level - tolerance


def test_a_singular_problem_still_gives_a_distribution():
    shares = simplex_least_squares(np.ones((3, 3)), np.ones(3))
    assert shares.sum() == pytest.approx(1)
    assert simplex_least_squares(np.zeros((2, 2)), np.zeros(2)).sum() == pytest.approx(1)
