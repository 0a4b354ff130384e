"""Collections of the papers: counts drawn at once have the law of counted reports; bins are those of the domain."""

import math

import numpy as np
import pytest

from overstory.protocol.domains.numbers import Bins
from overstory.protocol.kinds.bits import rappor, rappor_one_time
from papers.rappor.collections import collect_counts, collect_reports
from papers.smart_homes import homes

NAMES = ["ash", "elm", "oak", "nobody's"]
SHARES = np.array([0.6, 0.3, 0.1, 0.0])
BEYOND = 5.5  # standard errors: about one false alarm in 10^7


def moments(collect, mechanism, runs):
    """Every count over `runs` collections: shape (runs, cohorts * bits)."""
    drawn = [collect(mechanism, NAMES, SHARES, 400, np.random.default_rng([7, run])) for run in range(runs)]
    return np.array([one.counts.ones.ravel() for one in drawn], dtype=float)


@pytest.mark.parametrize(
    "mechanism",
    [
        rappor(num_bits=16, num_hashes=2, num_cohorts=2, f=0.5, p=0.25, q=0.75),
        rappor_one_time(num_bits=16, num_hashes=3, num_cohorts=1, f=0.4),
    ],
    ids=["two rounds", "one round"],
)
def test_drawn_counts_have_the_mean_and_spread_of_counted_reports(mechanism):
    runs = 800
    drawn, counted = (moments(collect, mechanism, runs) for collect in (collect_counts, collect_reports))
    error = np.sqrt((drawn.var(axis=0) + counted.var(axis=0)) / runs)
    assert np.all(np.abs(drawn.mean(axis=0) - counted.mean(axis=0)) < BEYOND * error)
    ratio = np.log(drawn.var(axis=0) / counted.var(axis=0))
    assert np.all(np.abs(ratio) < BEYOND * math.sqrt(4 / runs))


def test_that_comparison_notices_another_channel():
    mechanism = rappor(num_bits=16, num_hashes=2, num_cohorts=2, f=0.5, p=0.25, q=0.75)
    noisier = rappor(num_bits=16, num_hashes=2, num_cohorts=2, f=0.6, p=0.25, q=0.75)
    drawn, counted = moments(collect_counts, noisier, 800), moments(collect_reports, mechanism, 800)
    error = np.sqrt((drawn.var(axis=0) + counted.var(axis=0)) / 800)
    assert np.any(np.abs(drawn.mean(axis=0) - counted.mean(axis=0)) > BEYOND * error)


@pytest.mark.parametrize("collect", [collect_counts, collect_reports])
def test_the_truth_is_what_the_reports_hold(collect):
    mechanism = rappor(num_bits=32, num_hashes=2, num_cohorts=4, f=0.0, p=0.01, q=0.99)
    drawn = collect(mechanism, NAMES, SHARES, 10_000, np.random.default_rng(1))
    assert drawn.held.sum() == drawn.counts.num_reports == 10_000
    assert drawn.held[3] == 0
    decoded = drawn.decoded(mechanism)
    assert np.all(np.abs(decoded.raw_counts - drawn.held) < BEYOND * decoded.standard_errors)
    assert decoded.standard_errors.max() < 150


def test_bins_are_those_of_the_shipped_domain():
    readings = np.array([0.0, 0.019, 0.02, 0.5, 1.99, 2.0, 7.5], np.float32)
    domain = Bins(0, homes.MOST_KWH, homes.BINS)
    assert homes.binned(readings, homes.BINS).tolist()[3:] == [domain.symbol(float(value)) for value in readings[3:]]
