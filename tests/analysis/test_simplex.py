"""Least squares on the simplex: its optimality conditions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.decoding.gls import simplex_least_squares


def problem(seed: Any, size: Any, rows: Any) -> Any:
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(rows, size))
    response = rng.normal(size=rows) + design @ rng.dirichlet(np.full(size, 0.3))
    return design.T @ design, design.T @ response


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 25), st.integers(1, 40))
def test_the_optimality_conditions_hold(seed: Any, size: Any, rows: Any) -> None:
    gram, moment = problem(seed, size, rows)
    shares = simplex_least_squares(gram, moment)
    slope = gram @ shares - moment
    level = slope[shares > 0].max()
    tolerance = 1e-5 * (1 + np.abs(gram).max())
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    assert slope.min() >= level - tolerance


def test_a_singular_problem_still_gives_a_distribution() -> None:
    shares = simplex_least_squares(np.ones((3, 3)), np.ones(3))
    assert shares.sum() == pytest.approx(1)
    assert simplex_least_squares(np.zeros((2, 2)), np.zeros(2)).sum() == pytest.approx(1)
