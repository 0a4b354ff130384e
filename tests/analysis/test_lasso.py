"""The Lasso against scikit-learn's, and the paper's procedure around it."""

import numpy as np
import pytest

from overstory.analysis.decoding import candidates as design
from overstory.analysis.decoding import decode
from overstory.analysis.decoding import sparse as lasso_module
from overstory.analysis.decoding.sparse import lasso, penalty
from support.random_collections import random_map, report

HELD = np.concatenate(([50_000, 20_000, 10_000], np.zeros(297, int)))


def problem(seed=0, distinct=True):
    rng = np.random.default_rng(seed)
    shelf = random_map(rng, HELD.size, distinct=distinct)
    counts = report(rng, shelf, HELD)
    return shelf, ((counts.ones / counts.totals[:, None] - 0.25) / 0.5).ravel(), counts


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("strength", [0.005, 0.05, 0.4])
def test_agrees_with_scikit_learn(monkeypatch, distinct, compiled, strength):
    from sklearn.linear_model import Lasso

    monkeypatch.setattr(design, "DENSE_CELLS", 0 if compiled else 1 << 20)
    if not compiled:
        monkeypatch.setattr(lasso_module, "COMPILED", "not loaded")
    shelf, y, _ = problem(distinct=distinct)
    level = strength * float(np.abs(y @ shelf.dense()).max())
    theirs = Lasso(alpha=level / y.size, positive=True, fit_intercept=False, tol=1e-12, max_iter=200_000)
    theirs.fit(shelf.dense(), y)
    np.testing.assert_allclose(lasso(shelf, y, level), theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("most", [0, 5])
def test_the_kernel_goes_on_where_numpy_stops(monkeypatch, most):
    monkeypatch.setattr(lasso_module, "COMPILED", "not loaded")
    shelf, y, _ = problem()
    level = 0.05 * float(np.abs(y @ shelf.dense()).max())
    alone = lasso(shelf, y, level)
    enough = []
    descend = lasso_module._descend
    monkeypatch.setattr(
        lasso_module, "_descend", lambda *given, **more: enough.append(descend(*given, **more)) or enough[-1]
    )
    monkeypatch.setattr(lasso_module, "MOST_STEPS", most)
    both = lasso(shelf, y, level)
    assert not enough[0]
    np.testing.assert_allclose(both, alone, atol=1e-8)
    np.testing.assert_array_equal(both != 0, alone != 0)


def test_the_penalty_lets_about_an_eighth_of_the_rows_in():
    rng = np.random.default_rng(3)
    shelf = random_map(rng, 4_000, cohorts=16, bits=64, hashes=2)
    level = penalty(shelf, 1.0)
    entering = np.mean([(design.correlate(shelf, rng.normal(size=1024)) > level).sum() for _ in range(20)])
    assert entering == pytest.approx(1024 / 8, rel=0.25)


def test_unpicked_candidates_are_unknown_and_not_detected():
    shelf, _, counts = problem()
    found = decode(counts, shelf, p_star=0.75, q_star=0.25, method="lasso")
    unpicked = ~np.isfinite(found.standard_errors)
    assert unpicked.any()
    assert not found.detected()[unpicked].any()
    assert (found.p_values[unpicked] == 1).all()
    assert found.detected()[:3].all()


def test_least_squares_follows_on_the_picked():
    shelf, y, counts = problem()
    found = decode(counts, shelf, p_star=0.75, q_star=0.25, method="lasso")
    picked = np.isfinite(found.standard_errors)
    x = shelf.dense()[:, picked]
    f, rss, *_ = np.linalg.lstsq(x, y, rcond=None)
    errors = np.sqrt(rss[0] / (y.size - f.size) * np.diag(np.linalg.inv(x.T @ x)))
    np.testing.assert_allclose(found.raw_frequencies[picked], f, atol=1e-9)
    np.testing.assert_allclose(found.frequency_standard_errors[picked], errors, rtol=1e-6)
