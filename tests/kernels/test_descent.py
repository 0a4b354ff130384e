"""Coordinate descent against its obvious twin."""

import numpy as np

from overstory.kernels.design_matrix import descend


def slow_descent(x, y, penalty, sweeps):
    """Soft-threshold one coordinate at a time, every product written out."""
    b = np.zeros(x.shape[1])
    for _ in range(sweeps):
        for s in range(b.size):
            pull = x[:, s] @ (y - x @ b + x[:, s] * b[s])
            b[s] = max(pull - penalty, 0.0) / (x[:, s] @ x[:, s])
    return b


def test_equals_the_slow_twin():
    rng = np.random.default_rng(1)
    rows = np.stack([rng.permutation(40)[:6] for _ in range(25)])
    rows[::3, -1] = -1  # a repeated hash: one entry less
    x = np.zeros((40, 25))
    for s, column in enumerate(rows):
        x[column[column >= 0], s] = 1.0
    y = rng.normal(size=40)
    residual, b = y.copy(), np.zeros(25)
    sweeps = descend(rows, residual, b, 0.7, 1e-14, 100_000)
    assert sweeps < 100_000
    np.testing.assert_allclose(b, slow_descent(x, y, 0.7, 2_000), atol=1e-9)
    np.testing.assert_allclose(residual, y - x @ b, atol=1e-10)
    assert (b != 0).any()
    assert (b == 0).any()


def test_a_column_without_rows_stays_at_zero():
    b = np.zeros(1)
    descend(np.full((1, 3), -1), np.ones(4), b, 0.1, 1e-9, 10)
    assert b[0] == 0.0


def test_it_stops_at_the_limit():
    rows = np.array([[0, 1], [1, 2]])
    assert descend(rows, np.ones(3), np.zeros(2), 0.0, 0.0, 3) == 3
