"""A table of pairs: its cells, their covariances without a matrix, and the marginals' errors."""

import numpy as np
import pytest

import overstory
from overstory.analysis.association.table import TableEstimate, pair_table
from overstory.protocol.errors import ParameterError
from support.association_populations import KroneckerCovariance

LABELS = (("a", "b", "c"), ("no", "yes"))


def _estimate(name: str, epsilon: float, size: int):
    oracle = overstory.oracle(name, domain_size=size, epsilon=epsilon)
    values = np.random.default_rng(1).integers(size, size=20_000)
    return oracle.mechanism, oracle.estimate(oracle.accumulate(oracle.simulate(values, rng=2)))


def _matrix(table: TableEstimate):
    cells = table.shares.size
    return table.covariance.apply(np.eye(cells).reshape(cells, *table.shares.shape)).reshape(cells, cells)


@pytest.mark.parametrize("kind", ["reports", "population"])
@pytest.mark.parametrize("name", ["grr", "oue", "subset", "olh", "hadamard", "projective", "dbitflip"])
def test_the_covariances_are_those_of_the_estimate(name: str, kind) -> None:
    parameters = {"sampled_bits": 4} if name == "dbitflip" else {}
    oracle = overstory.oracle(name, domain_size=6, epsilon=2.0, **parameters)
    values = np.random.default_rng(1).choice(6, size=20_000, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate(values, rng=2)))  # the seeds of olh: filled unevenly
    table = pair_table(oracle.mechanism, estimate, ["x", "y"], LABELS, interval_kind=kind)
    np.testing.assert_allclose(_matrix(table), estimate.covariance(kind) / 20_000**2, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table.standard_errors.ravel(), estimate.errors(kind) / 20_000)
    np.testing.assert_array_equal(table.shares.ravel(), estimate.raw_frequencies)


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_the_pairs_of_three_variables_are_sums_of_cells(name: str) -> None:
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


def test_a_sum_of_kronecker_products_is_one_matrix():
    drawn = np.random.default_rng(3)
    terms = tuple((_spread(drawn, 3), _spread(drawn, 2)) for _ in range(3))
    table = TableEstimate(
        names=("x", "y"),
        labels=LABELS,
        shares=np.full((3, 2), 1 / 6),
        covariance=KroneckerCovariance(terms),
        num_reports=10,
        design="linked",
    )
    whole = sum(np.kron(rows, columns) for rows, columns in terms)
    np.testing.assert_allclose(_matrix(table), whole)
    np.testing.assert_allclose(table.standard_errors.ravel() ** 2, np.diag(whole))


def test_a_table_refuses_cells_of_another_shape():
    mechanism, estimate = _estimate("grr", 2.0, 6)
    with pytest.raises(ParameterError, match="a table of 3 x 3 cells, but 6 values"):
        pair_table(mechanism, estimate, ["x", "y"], [("a", "b", "c")] * 2)


def _spread(drawn: np.random.Generator, size: int):
    root = drawn.normal(size=(size, size))
    return root @ root.T
