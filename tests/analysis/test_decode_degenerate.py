"""Collections at the edge: never a traceback, never a number that is none."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.decoding import decode
from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.reports import SupportCounts
from support.random_collections import random_map, report

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


@settings(deadline=None, max_examples=150)
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
