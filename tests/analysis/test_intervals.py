"""No estimate lies outside the interval it is shown with, and what is shown covers no less often than what is raw."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.decoding import decode
from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.estimate import Estimate
from overstory.analysis.postprocess import STEPS, postprocess
from overstory.analysis.reports import SupportCounts
from support.estimates import estimate_of

REPORTS = 100
RAW = st.lists(st.floats(-300, 400), min_size=8, max_size=20)


def estimate(raw):
    return estimate_of(raw, 12.0, reports=REPORTS)


def outside(shown):
    """Return the rows whose estimate is not inside their interval, in counts or as a share."""
    return [
        row
        for row in shown.rows()
        if not row["low"] <= row["count"] <= row["high"]
        or not row["frequency_low"] <= row["frequency"] <= row["frequency_high"]
    ]


@settings(max_examples=200)
@given(RAW, st.sampled_from(sorted(STEPS)))
def test_every_step_keeps_the_estimate_in_its_interval(raw, step):
    """A11: `oak 158.20%, 49.62-100.00%`: the interval was cut at the possible shares, the estimate was not."""
    shown = postprocess(estimate(np.array(raw)), step)
    assert not outside(shown)
    low, high = shown.interval()
    assert (low < high).all()  # an interval of nothing says nothing
    raw_low, raw_high = shown.confidence_interval()
    possible = (raw_low <= REPORTS) & (raw_high >= 0)
    assert (low[possible] <= np.maximum(raw_low, 0)[possible]).all()
    assert (high[possible] >= np.minimum(raw_high, REPORTS)[possible]).all()


def test_the_check_finds_an_interval_that_was_cut_alone():
    """The interval as it was: the raw one, cut at what is possible, for the clipped count."""

    class Cut(Estimate):
        def interval(self, level=0.95, kind=None, *, adjusted=True):
            return tuple(np.clip(bound, 0, REPORTS) for bound in self.confidence_interval(level))

    raw = np.array([158.2, -60.0, 10.0])
    built = {"values": ["a", "b", "c"], "standard_errors": np.full(3, 12.0), "num_reports": REPORTS}
    assert len(outside(Cut(counts=raw, raw_counts=raw, **built))) == 2


def test_a_decoding_keeps_them_too():
    """A11: `nobody-9,0,88.10,0,0.01101,-0.0376,0.0055`: a count that is not negative beside a raw interval."""
    rng = np.random.default_rng(3)
    shelf = CandidateMap([f"c{i}" for i in range(40)], rng.integers(0, 64, (4, 40, 2)), 64)
    ones = rng.binomial(500, 0.3, (4, 64))
    found = decode(SupportCounts([500] * 4, ones), shelf, p_star=0.75, q_star=0.25)
    assert (found.raw_counts < 0).any()
    assert not outside(found)
    assert found.interval()[0].min() >= 0


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_the_shown_interval_covers(share):
    """2,000 collections of 200 people: at least 95% of the shown intervals hold the truth (1e-6: 93.0%)."""
    rng, people, p, q = np.random.default_rng(7), 200, 0.75, 0.25
    held = share * people
    ones = rng.binomial(round(held), p, 2000) + rng.binomial(round(people - held), q, 2000)
    raw = (ones - people * q) / (p - q)
    error = np.sqrt(held * p * (1 - p) + (people - held) * q * (1 - q)) / (p - q)
    shown = postprocess(estimate_of(raw, error, reports=people), "clip")
    low, high = shown.interval()
    assert np.mean((low <= held) & (held <= high)) > 0.93
