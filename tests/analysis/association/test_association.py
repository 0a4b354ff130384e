"""What is said of a table in small cases that can be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from overstory.analysis.association.effect import compare_rows, conditional, cramers_v
from overstory.analysis.association.independence import independence
from overstory.analysis.association.summary import nearest_distribution, reported
from overstory.analysis.association.table import TableEstimate
from support.association_populations import KroneckerCovariance


def _table(shares: list[list[float]], error: float, reports: int = 1_000) -> TableEstimate:
    """Return a table of which each cell has this standard error by itself."""
    rows, columns = np.array(shares).shape
    spread = KroneckerCovariance(((np.eye(rows) * error, np.eye(columns) * error),))
    labels = tuple(f"r{number}" for number in range(rows)), tuple(f"c{number}" for number in range(columns))
    return TableEstimate(
        names=("row", "column"),
        labels=labels,
        shares=np.array(shares),
        covariance=spread,
        num_reports=reports,
        design="linked",
    )


def test_conditional_shares_and_their_errors() -> None:
    """P(column | row) with the errors of the ratio's derivative."""
    given = conditional(_table([[0.3, 0.1], [0.2, 0.4]], 0.001))
    np.testing.assert_allclose(given.shares, [[0.75, 0.25], [1 / 3, 2 / 3]])
    # r = x / (x + y): its derivative is (y, -x) / (x + y)^2.
    assert given.standard_errors[0, 0] == pytest.approx(0.001 * math.hypot(0.1, 0.3) / 0.4**2)
    assert given.standard_errors[1, 1] == pytest.approx(0.001 * math.hypot(0.2, 0.4) / 0.6**2)


def test_a_row_that_may_be_empty_has_no_conditional_shares() -> None:
    """Below four standard errors a ratio's interval would say nothing true."""
    table = _table([[0.6, 0.37], [0.02, 0.01]], 0.01)
    given = conditional(table)
    assert given.estimable.tolist() == [True, False]
    assert np.isnan(given.shares[1]).all()
    assert np.isnan(given.standard_errors[1]).all()
    assert compare_rows(table, 0) == []


def test_rows_are_compared() -> None:
    """The difference of two conditional shares, with its interval."""
    table = _table([[0.3, 0.1], [0.2, 0.4]], 0.001)
    given = conditional(table)
    (difference,) = compare_rows(table, 0)
    assert (difference.column, difference.row, difference.against) == ("c1", "r1", "r0")
    error = math.hypot(given.standard_errors[0, 1], given.standard_errors[1, 1])
    assert difference.estimate == pytest.approx(2 / 3 - 1 / 4)
    assert difference.high - difference.estimate == pytest.approx(1.959964 * error, rel=1e-6)
    assert difference.apart


def test_a_sharp_table_has_its_own_cramers_v() -> None:
    """With no noise V is the plain one: .5 for 3/8, 1/8, 1/8, 3/8, and 1 where one variable follows from the other."""
    v = cramers_v(_table([[0.375, 0.125], [0.125, 0.375]], 1e-6))
    assert v is not None
    assert v.estimate == pytest.approx(0.5)
    assert v.low == pytest.approx(0.5, abs=1e-4)
    sure = cramers_v(_table([[0.5, 0.0], [0.0, 0.5]], 1e-6))
    assert sure is not None
    assert sure.estimate == pytest.approx(1.0)


def test_without_a_sign_of_dependence_v_has_an_upper_bound_alone() -> None:
    """A V above 0 that noise alone would give is not shown."""
    v = cramers_v(_table([[0.25, 0.25], [0.25, 0.25]], 0.01))
    assert v is not None
    assert math.isnan(v.estimate)
    assert v.low == 0.0
    assert 0 < v.high < 0.2
    assert v.to_json()["estimate"] is None


def test_v_leaves_out_rows_that_may_be_empty() -> None:
    """A rare row would weigh most, and is all noise."""
    v = cramers_v(_table([[0.4, 0.1], [0.1, 0.398], [0.001, 0.001]], 0.005))
    assert v is not None
    assert v.left_out == (("r2",), ())
    assert v.estimate == pytest.approx(0.6, abs=0.01)


def test_the_nearest_distribution_is_the_optimum() -> None:
    """Against a general optimizer, for covariances of full rank and of sums that are always 1."""
    drawn = np.random.default_rng(6)
    for trial in range(30):
        root = drawn.normal(size=(6, 6))
        spread = root @ root.T + 0.1 * np.eye(6)
        estimate = drawn.normal(1 / 6, 0.4, size=6)
        if trial % 2:
            centred = np.eye(6) - 1 / 6
            spread = centred @ spread @ centred
            estimate += (1 - estimate.sum()) / 6
        shown = nearest_distribution(estimate, spread)
        precision = np.linalg.pinv(spread, rcond=1e-10)
        best = minimize(
            lambda p, precision=precision, estimate=estimate: (p - estimate) @ precision @ (p - estimate),
            np.full(6, 1 / 6),
            bounds=[(0, 1)] * 6,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 1_000},
        )
        np.testing.assert_allclose(shown, best.x, atol=2e-4)


def test_a_table_without_dependence_is_shown_as_independent() -> None:
    """Where T is below its degrees of freedom, nothing is left of the departure."""
    shown = reported(_table([[0.2501, 0.2499], [0.2499, 0.2501]], 0.01))
    assert shown.shrunk == 0.0
    np.testing.assert_allclose(shown.shares, 0.25)
    assert "independence is not rejected" in shown.note
    sharp = reported(_table([[0.5, 0.0], [0.1, 0.4]], 0.01))
    assert sharp.shrunk == 1.0
    assert "independence" not in sharp.note


def test_without_reports_nothing_is_tested() -> None:
    """No statistic, no V, no conditional shares, and an even table."""
    empty = _table([[0.0, 0.0], [0.0, 0.0]], 1.0, reports=0)
    assert independence(empty) is None
    assert cramers_v(empty) is None
    assert not conditional(empty).estimable.any()
    np.testing.assert_allclose(reported(empty).shares, 0.25)
