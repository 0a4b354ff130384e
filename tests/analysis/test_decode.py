"""Decoders against textbook formulas and scikit-learn, what a decoding says of itself, and collections at the edge."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.decoding import candidates as design
from overstory.analysis.decoding import decode, model
from overstory.analysis.decoding import sparse as lasso_module
from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.decoding.sparse import lasso, penalty
from overstory.analysis.reports import SupportCounts
from overstory.protocol.errors import ParameterError
from support.random_collections import P_STAR, Q_STAR, random_map, report

HELD = np.array([60_000, 30_000, 15_000, 5_000, 0, 0, 0, 0, 0, 0])


def collection(seed=0, held=HELD, **shape):
    rng = np.random.default_rng(seed)
    shelf = random_map(rng, held.size, **shape)
    return report(rng, shelf, held), shelf


def decoded(counts, shelf, **options):
    return decode(counts, shelf, p_star=P_STAR, q_star=Q_STAR, **options)


def dense_fit(counts, shelf, *, complete):
    """The textbook's weighted least squares, every matrix written out."""
    share = counts.ones / counts.totals[:, None]
    y = ((share - Q_STAR) / (P_STAR - Q_STAR)).ravel()
    rate = np.repeat(share.mean(axis=1), shelf.num_bits)
    weight = np.diag(np.repeat(counts.totals, shelf.num_bits) * (P_STAR - Q_STAR) ** 2 / (rate * (1 - rate)))
    x = shelf.dense()
    if complete:  # f_1 = 1 - the others
        y, x = y - x[:, 0], x[:, 1:] - x[:, :1]
    else:
        y, x = y - shelf.fill, x - shelf.fill
    covariance = np.linalg.inv(x.T @ weight @ x)
    solving = covariance @ x.T @ weight
    f = solving @ y
    residual = y - x @ f
    phi = residual @ weight @ residual / (y.size - f.size)
    if complete:
        ones = np.ones(f.size)
        f, solving = np.append(1 - f.sum(), f), np.vstack((-ones @ solving, solving))
        return f, np.append(ones @ covariance @ ones, np.diag(covariance)), phi, solving
    return f, np.diag(covariance), phi, solving


def of_these_reports(counts, shelf, shares, solving):
    """What the variances of present candidates have more: people bring all bits of a string, less who was drawn."""
    more, hidden, bits = np.zeros(shares.size), 1 - shares.sum(), shelf.num_bits
    for cohort, reports in enumerate(counts.totals):
        rows = slice(cohort * bits, (cohort + 1) * bits)
        design, fitted = shelf.dense()[rows], solving[:, rows]
        others = shelf.fill * (1 - shelf.fill) * np.eye(bits) + shelf.fill**2 * np.ones((bits, bits))
        load = design @ shares + hidden * shelf.fill
        together = design @ np.diag(shares) @ design.T + hidden * others - np.outer(load, load)
        more += np.diag(fitted @ (together - np.diag(load * (1 - load))) @ fitted.T) / reports
    return np.where(shares > 0, more - shares * (1 - shares) / counts.num_reports, 0.0)


@pytest.mark.parametrize("complete", [False, True])
def test_least_squares_is_the_textbooks(monkeypatch, complete):
    monkeypatch.setattr(model, "REWEIGHT", np.inf)  # one pass, so that the weights are known
    counts, shelf = collection()
    found = decoded(counts, shelf, complete=complete)
    f, variances, phi, solving = dense_fit(counts, shelf, complete=complete)
    np.testing.assert_allclose(found.raw_frequencies, f, atol=1e-10)
    people = of_these_reports(counts, shelf, found.frequencies, solving)
    assert people[:2].max() < 0  # who was drawn is most of it
    np.testing.assert_allclose(found.frequency_standard_errors**2, variances * max(1, phi) + people, rtol=1e-8)
    assert found.dispersion == pytest.approx(phi)
    if complete:
        assert found.raw_frequencies.sum() == pytest.approx(1)
        assert found.unallocated == 0
    else:
        assert found.unallocated == pytest.approx((1 - f.sum()) * counts.num_reports)


def test_a_single_candidate_by_hand():
    # 1000 reports, bits 0 and 1 set in 60%: y = (.6 - .25) / .5 = .7; the two other bits say y = (.25 - .25) / .5 = 0.
    # The candidate sets half the bits, so an unlisted string is taken to set each with 1/2:
    # f = sum (x - .5)(y - .5) / sum (x - .5)^2 = (2 * .5 * .2 + 2 * .5 * .5) / 1 = .7.
    shelf = CandidateMap(["ash"], np.array([[[0, 1]]]), 4)
    found = decoded(SupportCounts([1000], [[600, 600, 250, 250]]), shelf)
    assert found.raw_counts[0] == pytest.approx(700, rel=0.02)  # rows differ a little in weight
    assert found.unallocated == pytest.approx(300, rel=0.05)


def test_pursuit_estimates_as_least_squares_on_its_members_would(monkeypatch):
    monkeypatch.setattr(model, "REWEIGHT", np.inf)
    counts, shelf = collection(held=np.concatenate((HELD, np.zeros(390, int))))
    found = decoded(counts, shelf)
    assert found.method == "pursuit"
    members = np.flatnonzero(found.z > 8)
    assert set(members) <= {0, 1, 2, 3}
    assert set(members) >= {0, 1, 2}
    share = counts.ones / counts.totals[:, None]
    y = ((share - Q_STAR) / (P_STAR - Q_STAR)).ravel() - shelf.fill
    rate = np.repeat(share.mean(axis=1), shelf.num_bits)
    root = np.sqrt(np.repeat(counts.totals, shelf.num_bits) / (rate * (1 - rate)))
    x = (shelf.dense() - shelf.fill) * root[:, None]
    for s in (0, 200, 399):  # beside the members, one more column at a time
        columns = np.union1d(np.flatnonzero(found.z >= 3.2), s)
        f = np.linalg.lstsq(x[:, columns], root * y, rcond=None)[0]
        at = int(np.flatnonzero(columns == s)[0])
        assert found.raw_frequencies[s] == pytest.approx(f[at], abs=0.3 * found.frequency_standard_errors[s])


def test_reported_counts_are_a_distribution():
    for held in (HELD, np.concatenate((HELD, np.zeros(390, int)))):
        counts, shelf = collection(held=held)
        found = decoded(counts, shelf)
        assert found.counts.min() >= 0
        assert found.counts.sum() <= counts.num_reports * (1 + 1e-12)
        assert found.counts[found.detected()].min() > 0
        assert decoded(counts, shelf, complete=True).raw_counts is not None


def test_colliding_candidates_share_one_estimate():
    rng = np.random.default_rng(6)
    shelf = random_map(rng, HELD.size)
    twice = np.concatenate((shelf.positions, shelf.positions[:, :1, ::-1]), axis=1)
    double = CandidateMap([*shelf.candidates, "twin"], twice, shelf.num_bits)
    counts = report(rng, shelf, HELD)
    alone, found = decoded(counts, shelf), decoded(counts, double)
    assert found.colliding == (("v0", "twin"),)
    assert found.raw_counts[0] == found.raw_counts[-1] == alone.raw_counts[0]
    assert found.counts[0] + found.counts[-1] == pytest.approx(alone.counts[0])
    assert any("same bits in every cohort" in note for note in found.notes)


def test_an_incomplete_list_is_noticed():
    counts, shelf = collection()
    listed = shelf.take(np.delete(np.arange(HELD.size), 2))
    found = decoded(counts, listed)
    assert any("hold strings that are not in your list" in note for note in found.notes)
    assert any("bits are set far more often than your list explains" in note for note in found.notes)
    assert found.dispersion < 1.5  # what the missing string sets was set aside
    assert found.unallocated == pytest.approx(HELD[2], abs=5 * found.unallocated_standard_error)
    declared = decoded(counts, listed, complete=True)
    assert declared.unallocated == 0


def test_values_that_set_no_bit_are_noticed():
    rng = np.random.default_rng(8)
    shelf = random_map(rng, HELD.size)
    counts = report(rng, shelf, HELD)
    silent = np.full(shelf.num_cohorts, 5_000)
    more = SupportCounts(silent, rng.binomial(5_000, Q_STAR, counts.ones.shape))
    found = decoded(counts + more, shelf)
    assert any("sent no or several values" in note for note in found.notes)
    np.testing.assert_allclose(found.raw_counts, HELD, atol=5 * found.standard_errors.max())


def test_unbalanced_cohorts_are_noticed():
    rng = np.random.default_rng(9)
    shelf = random_map(rng, 3)
    totals = np.array([9000] + [8000] * 7)
    found = decoded(SupportCounts(totals, rng.binomial(totals[:, None], 0.3, (8, 32))), shelf)
    assert found.cohort_p_value < 1e-4
    assert any("cohort sizes differ" in note for note in found.notes)
    counts, shelf = collection()
    assert not any("cohort" in note for note in decoded(counts, shelf).notes)


def test_wrong_parameters_are_noticed():
    counts, shelf = collection()
    assert decode(counts, shelf, p_star=0.9, q_star=0.1).notes


def test_a_clean_collection_has_no_notes():
    counts, shelf = collection()
    assert decoded(counts, shelf).notes == ()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "em"}, "gls or lasso"),
        ({"correction": "holm"}, "fdr or bonferroni"),
        ({"alpha": 5}, "alpha"),
        ({"p_star": Q_STAR}, "say nothing"),
        ({"p_star": 1.5}, "probability"),
        ({"q_star": float("nan")}, "probability"),
    ],
)
def test_bad_options_are_refused(options, says):
    counts, shelf = collection()
    with pytest.raises(ParameterError, match=says):
        decode(counts, shelf, **{"p_star": P_STAR, "q_star": Q_STAR, **options})


def test_counts_of_another_shape_are_refused():
    _, shelf = collection()
    with pytest.raises(ParameterError, match="8 cohorts x 16 bits, but a candidate map of 8 cohorts x 32 bits"):
        decoded(SupportCounts.empty(8, 16), shelf)


METHODS = [{"method": "gls"}, {"method": "gls", "complete": True}, {"method": "lasso"}]


def check(counts, shelf, p_star=0.75, q_star=0.25):
    """Decode by every method; nothing undefined may appear, and what is unknown must be called unknown."""
    for options in METHODS:
        found = decode(counts, shelf, p_star=p_star, q_star=q_star, **options)
        assert np.isfinite(found.counts).all()
        assert (found.counts >= 0).all()
        assert np.isfinite(found.raw_counts).all()
        assert not np.isnan(found.standard_errors).any()
        assert ((found.p_values >= 0) & (found.p_values <= 1)).all()
        assert ((found.q_values >= 0) & (found.q_values <= 1)).all()
        assert not found.detected()[~np.isfinite(found.standard_errors)].any()
        assert np.isfinite([found.unallocated, found.dispersion, found.cohort_chi_square]).all()
        json.dumps(found.to_json(), allow_nan=False)
        found.table()
    return found


@settings(max_examples=150)
@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 30),
    st.sampled_from([(0.75, 0.25), (0.5, 0.75), (1.0, 0.0), (0.6875, 0.5625), (0.5, 0.4999)]),
)
def test_any_small_collection(seed, cohorts, bits, hashes, candidates, channel):
    rng = np.random.default_rng(seed)
    shelf = random_map(rng, candidates, cohorts=cohorts, bits=bits, hashes=hashes, distinct=False)
    totals = rng.integers(0, 4, cohorts) ** rng.integers(1, 9)
    check(SupportCounts(totals, rng.integers(0, totals[:, None] + 1, (cohorts, bits))), shelf, *channel)


def test_no_reports():
    shelf = random_map(np.random.default_rng(0), 5)
    found = check(SupportCounts.empty(8, 32), shelf)
    assert found.notes == ("there are no reports: nothing can be estimated",)
    assert np.isinf(found.standard_errors).all()


def test_empty_cohorts_are_left_out():
    rng = np.random.default_rng(1)
    shelf = random_map(rng, 5)
    counts = report(rng, shelf, np.array([50_000, 20_000, 0, 0, 0]))
    keep = (np.arange(8) % 2).astype(bool)
    some = SupportCounts(counts.totals * keep, counts.ones * keep[:, None])
    check(some, shelf)
    found = decode(some, shelf, p_star=0.75, q_star=0.25)
    half = CandidateMap(shelf.candidates, shelf.positions[keep], 32)
    alone = decode(SupportCounts(counts.totals[keep], counts.ones[keep]), half, p_star=0.75, q_star=0.25)
    np.testing.assert_allclose(found.raw_counts, alone.raw_counts)
    np.testing.assert_allclose(found.standard_errors, alone.standard_errors)
    assert "4 of 8 cohorts sent no report" in found.notes


def test_a_dependent_list_is_decoded_without_the_strings_outside():
    # One bit a candidate and every bit taken: the columns add up to one everywhere, as the other strings' do.
    shelf = CandidateMap(list("abcd"), np.arange(4).reshape(1, 4, 1), 4)
    counts = SupportCounts([4000], [[2000, 1500, 1250, 1250]])
    found = decode(counts, shelf, p_star=0.75, q_star=0.25)
    np.testing.assert_allclose(found.raw_counts, [2000, 1000, 500, 500])  # (c - N q*) / (p* - q*)
    assert any("cannot be distinguished" in note for note in found.notes)


@pytest.mark.parametrize("channel", [(1.0, 0.0), (0.0, 1.0)])
def test_a_channel_without_noise(channel):
    shelf = random_map(np.random.default_rng(4), 4)
    held = np.array([5000, 3000, 0, 0])
    counts = report(np.random.default_rng(5), shelf, held, *channel)
    found = check(counts, shelf, *channel)
    np.testing.assert_allclose(found.raw_counts[:2], held[:2], rtol=0.1)


def test_few_reports_are_noted():
    rng = np.random.default_rng(6)
    shelf = random_map(rng, 5)
    found = decode(report(rng, shelf, np.array([20, 0, 0, 0, 0])), shelf, p_star=0.6, q_star=0.5)
    assert any("fewer reports than needed" in note for note in found.notes)


def lasso_problem(distinct=True):
    counts, shelf = collection(held=np.concatenate(([50_000, 20_000, 10_000], np.zeros(297, int))), distinct=distinct)
    return shelf, ((counts.ones / counts.totals[:, None] - 0.25) / 0.5).ravel(), counts


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("strength", [0.005, 0.05, 0.4])
def test_agrees_with_scikit_learn(monkeypatch, distinct, compiled, strength):
    from sklearn.linear_model import Lasso

    monkeypatch.setattr(design, "DENSE_CELLS", 0 if compiled else 1 << 20)
    if not compiled:
        monkeypatch.setattr(lasso_module, "COMPILED", "not loaded")
    shelf, y, _ = lasso_problem(distinct=distinct)
    level = strength * float(np.abs(y @ shelf.dense()).max())
    theirs = Lasso(alpha=level / y.size, positive=True, fit_intercept=False, tol=1e-12, max_iter=200_000)
    theirs.fit(shelf.dense(), y)
    np.testing.assert_allclose(lasso(shelf, y, level), theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("most", [0, 5])
def test_the_kernel_goes_on_where_numpy_stops(monkeypatch, most):
    monkeypatch.setattr(lasso_module, "COMPILED", "not loaded")
    shelf, y, _ = lasso_problem()
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
    shelf, _, counts = lasso_problem()
    found = decoded(counts, shelf, method="lasso")
    unpicked = ~np.isfinite(found.standard_errors)
    assert unpicked.any()
    assert not found.detected()[unpicked].any()
    assert (found.p_values[unpicked] == 1).all()
    assert found.detected()[:3].all()


def test_least_squares_follows_on_the_picked():
    shelf, y, counts = lasso_problem()
    found = decoded(counts, shelf, method="lasso")
    picked = np.isfinite(found.standard_errors)
    x = shelf.dense()[:, picked]
    f, rss, *_ = np.linalg.lstsq(x, y, rcond=None)
    errors = np.sqrt(rss[0] / (y.size - f.size) * np.diag(np.linalg.inv(x.T @ x)))
    np.testing.assert_allclose(found.raw_frequencies[picked], f, atol=1e-9)
    np.testing.assert_allclose(found.frequency_standard_errors[picked], errors, rtol=1e-6)
