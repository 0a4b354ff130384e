"""What is said of a table in small cases that can be checked by hand."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.special import chdtri, chndtrinc

import overstory
from overstory.analysis.association.independence import (
    compare_rows,
    conditional,
    cramers_v,
    independence,
)
from overstory.analysis.association.summary import reported
from overstory.analysis.association.table import DenseCovariance, TableEstimate, pair_table
from overstory.protocol.errors import ParameterError


def _table(shares, error, reports=1_000):
    """Return a table of which each cell has this standard error by itself."""
    rows, columns = np.array(shares).shape
    spread = DenseCovariance(np.eye(rows * columns) * error**2, np.array(shares), 0.0)
    labels = tuple(f"r{number}" for number in range(rows)), tuple(f"c{number}" for number in range(columns))
    return TableEstimate(
        names=("row", "column"),
        labels=labels,
        shares=np.array(shares),
        covariance=spread,
        num_reports=reports,
    )


def _strength(table):
    return cramers_v(table, independence(table))


def _shown(table):
    return reported(table, independence(table))


def test_conditional_shares_and_their_errors():
    given = conditional(_table([[0.3, 0.1], [0.2, 0.4]], 0.001))
    np.testing.assert_allclose(given.shares, [[0.75, 0.25], [1 / 3, 2 / 3]])
    # r = x / (x + y): its derivative is (y, -x) / (x + y)^2.
    assert given.standard_errors[0, 0] == pytest.approx(0.001 * math.hypot(0.1, 0.3) / 0.4**2)
    assert given.standard_errors[1, 1] == pytest.approx(0.001 * math.hypot(0.2, 0.4) / 0.6**2)


def test_a_row_that_may_be_empty_has_no_conditional_shares():
    """Below four standard errors a ratio's interval would say nothing true."""
    table = _table([[0.6, 0.37], [0.02, 0.01]], 0.01)
    given = conditional(table)
    assert given.estimable.tolist() == [True, False]
    assert np.isnan(given.shares[1]).all()
    assert np.isnan(given.standard_errors[1]).all()
    assert compare_rows(table, 0) == []


def test_rows_are_compared():
    table = _table([[0.3, 0.1], [0.2, 0.4]], 0.001)
    given = conditional(table)
    (difference,) = compare_rows(table, 0)
    assert (difference.column, difference.row) == ("c1", "r1")
    error = math.hypot(given.standard_errors[0, 1], given.standard_errors[1, 1])
    assert difference.estimate == pytest.approx(2 / 3 - 1 / 4)
    assert difference.high - difference.estimate == pytest.approx(1.959964 * error, rel=1e-6)
    assert difference.apart


def test_a_sharp_table_has_its_own_cramers_v():
    """With no noise V is the plain one: .5 for 3/8, 1/8, 1/8, 3/8, and 1 where one variable follows from the other."""
    v = _strength(_table([[0.375, 0.125], [0.125, 0.375]], 1e-6))
    assert v is not None
    assert v.estimate == pytest.approx(0.5)
    assert v.low == pytest.approx(0.5, abs=1e-4)
    sure = _strength(_table([[0.5, 0.0], [0.0, 0.5]], 1e-6))
    assert sure is not None
    assert sure.estimate == pytest.approx(1.0)


def test_the_strength_that_is_detected_is_the_mean_over_all_directions():
    """One by one, with marginals so skewed that the order of a product shows."""
    first, second = np.array([0.8, 0.15, 0.05]), np.array([0.4, 0.35, 0.25])
    ones = np.ones((1, 3))
    derivative = np.eye(9) - np.kron(np.eye(3), second[:, None] * ones) - np.kron(first[:, None] * ones, np.eye(3))
    contrasts = np.kron(null_space(ones), null_space(ones)).T
    moved = contrasts @ derivative * 0.01
    each = [
        contrasts @ (np.outer(x, y) * np.sqrt(np.outer(first, second))).ravel()
        for x, y in product(null_space(np.sqrt([first])).T, null_space(np.sqrt([second])).T)
    ]
    noncentral = np.mean([way @ np.linalg.solve(moved @ moved.T, way) for way in each])
    needed = chndtrinc(chdtri(4, 0.05), 4, 0.2)
    assert independence(_table(np.outer(first, second), 0.01)).detectable == pytest.approx(
        math.sqrt(needed / noncentral / 2)
    )


def test_without_a_sign_of_dependence_v_has_an_upper_bound_alone():
    """A V above 0 that noise alone would give is not shown."""
    v = _strength(_table([[0.25, 0.25], [0.25, 0.25]], 0.01))
    assert v is not None
    assert math.isnan(v.estimate)
    assert v.low == 0.0
    assert 0 < v.high < 0.2
    assert v.to_json()["estimate"] is None


def test_v_leaves_out_rows_that_may_be_empty():
    """A rare row would weigh most, and is all noise."""
    v = _strength(_table([[0.4, 0.1], [0.1, 0.398], [0.001, 0.001]], 0.005))
    assert v is not None
    assert v.left_out == (("r2",), ())
    assert v.estimate == pytest.approx(0.6, abs=0.01)


def test_a_table_without_dependence_is_shown_as_independent():
    """Where T is below its degrees of freedom, nothing is left of the departure."""
    shown = _shown(_table([[0.2501, 0.2499], [0.2499, 0.2501]], 0.01))
    assert shown.shrunk == 0.0
    np.testing.assert_allclose(shown.shares, 0.25)
    assert "independence is not rejected" in shown.note
    sharp = _shown(_table([[0.5, 0.0], [0.1, 0.4]], 0.01))
    assert sharp.shrunk == 1.0
    assert "independence" not in sharp.note


def test_without_reports_nothing_is_tested():
    empty = _table([[0.0, 0.0], [0.0, 0.0]], 1.0, reports=0)
    assert independence(empty) is None
    assert _strength(empty) is None
    assert not conditional(empty).estimable.any()
    np.testing.assert_allclose(_shown(empty).shares, 0.25)


LABELS = (("a", "b", "c"), ("no", "yes"))


def _estimate(name, epsilon, size):
    oracle = overstory.oracle(name, domain_size=size, epsilon=epsilon)
    values = np.random.default_rng(1).integers(size, size=20_000)
    return oracle.mechanism, oracle.estimate(oracle.accumulate(oracle.simulate(values, rng=2)))


def _matrix(table):
    cells = table.shares.size
    return table.covariance.apply(np.eye(cells).reshape(cells, *table.shares.shape)).reshape(cells, cells)


@pytest.mark.parametrize("kind", ["reports", "population"])
@pytest.mark.parametrize("name", ["grr", "oue", "subset", "olh", "hadamard", "projective", "dbitflip"])
def test_the_covariances_are_those_of_the_estimate(name, kind):
    parameters = {"sampled_bits": 4} if name == "dbitflip" else {}
    oracle = overstory.oracle(name, domain_size=6, epsilon=2.0, **parameters)
    values = np.random.default_rng(1).choice(6, size=20_000, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate(values, rng=2)))  # the seeds of olh: filled unevenly
    table = pair_table(oracle.mechanism, estimate, ["x", "y"], LABELS, interval_kind=kind)
    np.testing.assert_allclose(_matrix(table), estimate.covariance(kind) / 20_000**2, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table.standard_errors.ravel(), estimate.errors(kind) / 20_000)
    np.testing.assert_array_equal(table.shares.ravel(), estimate.raw_frequencies)


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_the_pairs_of_three_variables_are_sums_of_cells(name):
    labels = (("a", "b"), ("c", "d", "e"), ("f", "g"))
    mechanism, estimate = _estimate(name, 2.0, 12)
    cells, whole = estimate.raw_frequencies.reshape(2, 3, 2), estimate.covariance("population") / 20_000**2
    for of, left in (((0, 1), 2), ((0, 2), 1), ((2, 1), 0)):
        table = pair_table(mechanism, estimate, ["x", "y", "z"], labels, of=of)
        sums = cells.sum(axis=left) if of[0] < of[1] else cells.sum(axis=left).T
        np.testing.assert_allclose(table.shares, sums)
        numbers = np.arange(12).reshape(2, 3, 2)
        gathered = np.moveaxis(numbers, (*of, left), (0, 1, 2)).reshape(table.shares.size, -1)
        adding = np.zeros((table.shares.size, 12))
        np.put_along_axis(adding, gathered, 1.0, axis=1)
        np.testing.assert_allclose(_matrix(table), adding @ whole @ adding.T, atol=1e-12)
        np.testing.assert_allclose(table.standard_errors.ravel() ** 2, np.diag(adding @ whole @ adding.T))
        same = table.covariance.at(table.shares)
        np.testing.assert_allclose(same.apply(table.shares), table.covariance.apply(table.shares), rtol=0.01)


def test_marginals_have_the_errors_of_sums():
    mechanism, estimate = _estimate("grr", 2.0, 6)
    table = pair_table(mechanism, estimate, ["x", "y"], LABELS)
    whole = estimate.covariance("population") / 20_000**2
    rows = np.kron(np.eye(3), np.ones(2))
    np.testing.assert_allclose(table.marginals[0].shares, rows @ estimate.raw_frequencies)
    np.testing.assert_allclose(table.marginals[0].standard_errors ** 2, np.diag(rows @ whole @ rows.T))
    columns = np.kron(np.ones(3), np.eye(2))
    np.testing.assert_allclose(table.marginals[1].standard_errors ** 2, np.diag(columns @ whole @ columns.T))


def test_a_table_refuses_cells_of_another_shape():
    mechanism, estimate = _estimate("grr", 2.0, 6)
    with pytest.raises(ParameterError, match="a table of 3 x 3 cells, but 6 values"):
        pair_table(mechanism, estimate, ["x", "y"], [("a", "b", "c")] * 2)
