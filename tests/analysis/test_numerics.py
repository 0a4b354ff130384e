"""What small analyses do by NumPy alone, held to SciPy's and to sums without rounding."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, special

from overstory.analysis.decoding import model as gls
from overstory.analysis.decoding.model import median, simplex_least_squares
from overstory.analysis.selection import chi2_tail

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


@settings(deadline=None)
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
