"""Post-processing: each step does what its page says, raw counts stay, and the result names the steps."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from overstory.analysis.estimate import Estimate
from overstory.analysis.postprocess import STEPS, Processed, least_risk, postprocess, project_simplex, shrinkage
from overstory.protocol.errors import ParameterError
from papers.smart_homes.measurement import mean_squared_error
from support.estimates import estimate_of

COUNTS = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=20)


def estimate(counts, reports=100, error=10.0, **rest):
    return estimate_of(counts, error, reports=reports, **rest)


@given(COUNTS, st.floats(0, 1e4))
def test_the_projection_is_optimal_by_its_kkt_conditions(values, total):
    """Nearest point x of the simplex: x = v + delta where x > 0, and v + delta <= 0 where x = 0; one delta for all."""
    values = np.array(values)
    found = project_simplex(values, total)
    slack = 1e-9 * (1 + np.abs(values).max() + total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, abs=slack * values.size)
    held = found > slack
    if held.any():
        deltas = (found - values)[held]
        assert np.ptp(deltas) <= slack
        assert (values[~held] + deltas.mean() <= 2 * slack).all()


def test_base_cut_keeps_what_stands_above_its_threshold():
    threshold = 10 * norm.isf(0.05 / 4)
    raw = estimate([threshold + 0.01, threshold - 0.01, 90, -40])
    assert postprocess(raw, "base-cut").counts.tolist() == [raw.counts[0], 0, 90, 0]
    assert postprocess(dataclasses.replace(raw, alpha=0.5), "base-cut").counts[1] > 0


@pytest.mark.parametrize("name", STEPS)
def test_the_raw_counts_stay_and_the_step_is_named(name):
    raw = estimate([50, 30, 25, -8, 2], notes=("a note",), alpha=0.1, correction="bonferroni", null_share=0.5)
    done = postprocess(raw, name)
    assert done.steps == (name,) == tuple(done.summary()["steps"])
    for field in dataclasses.fields(Estimate):
        if field.name != "counts":
            assert np.array_equal(getattr(done, field.name), getattr(raw, field.name)), field.name
    assert done.detected().tolist() == raw.detected().tolist()
    assert raw.counts.tolist() == [50, 30, 25, -8, 2]
    with pytest.raises(dataclasses.FrozenInstanceError):
        done.steps = ()


def test_steps_follow_one_another():
    raw = estimate([50, 40, 3, -8])
    done = postprocess(postprocess(raw, "base-cut"), "norm-sub")
    assert done.steps == ("base-cut", "norm-sub")
    assert done.counts.tolist() == postprocess(raw, "base-cut", "norm-sub").counts.tolist()
    assert done.counts.sum() == pytest.approx(100)
    assert isinstance(postprocess(raw), Processed)
    assert postprocess(raw).steps == ()
    with pytest.raises(ParameterError, match="choose one of clip, norm-sub"):
        postprocess(raw, "crop")


def test_smoothing_keeps_the_sum_and_helps_where_the_truth_is_smooth():
    rng = np.random.default_rng(1)
    truth = 1000 * np.exp(-(((np.arange(128) - 50) / 20) ** 2))
    noisy = truth + rng.normal(0, 100, 128)
    done = postprocess(estimate(noisy, reports=50_000, error=100.0), "smooth")
    assert done.counts.sum() == pytest.approx(noisy.sum())
    assert mean_squared_error(done.counts, truth) < 0.25 * mean_squared_error(noisy, truth)
    assert shrinkage(9, 0.0).tolist() == [1.0] * 9
    assert shrinkage(9, 1e12)[1:].max() < 1e-11


def test_without_noise_nothing_is_smoothed_and_pure_noise_becomes_flat():
    rng = np.random.default_rng(2)
    rough = 1000 * rng.random(64)
    assert np.allclose(postprocess(estimate(rough, error=1e-3), "smooth").counts, rough, atol=20)
    flat = postprocess(estimate(rng.normal(500, 10, 64), error=10.0), "smooth").counts
    assert np.ptp(flat) < 20


def test_the_risk_that_chooses_the_penalty_is_unbiased():
    """Stein's estimate against the true squared error, over many draws at one penalty."""
    rng = np.random.default_rng(3)
    truth, kept = rng.normal(0, 3, 32), shrinkage(32, 1e-3)
    noisy = truth + rng.normal(0, 1, (20_000, 32))
    stein = ((1 - kept) ** 2 * noisy**2).sum(axis=1) + 2 * kept.sum() - 32
    error = ((kept * noisy - truth) ** 2).sum(axis=1)
    gap = stein - error
    assert abs(gap.mean()) < 4.9 * gap.std() / np.sqrt(gap.size)  # one in a million
    forgetful = gap - kept.sum()  # counts what the noise fits once, not twice
    assert abs(forgetful.mean()) > 4.9 * gap.std() / np.sqrt(gap.size)
    assert least_risk(truth * 0, 1.0) > least_risk(truth * 1e6, 1.0)


def test_smoothing_says_what_it_lacks():
    with pytest.raises(ParameterError, match="finite standard error"):
        postprocess(estimate([1, 2], error=np.inf), "smooth")


@pytest.mark.parametrize(("values", "total"), [([], 1), ([[1.0]], 1), ([1.0], -1)])
def test_a_projection_needs_values_and_a_total(values, total):
    with pytest.raises(ParameterError, match="list of numbers"):
        project_simplex(values, total)
