"""Square Wave's decoder: its table is the exact integral, its steps climb, and what it finds is near the truth."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.kinds.numbers import bucket_edges
from overstory.analysis.numeric.distribution import expectation_maximization, fitted_spread, transition_table
from overstory.protocol.numeric import Interval, SquareWave
from overstory.protocol.numeric.mechanisms import WindowChannel
from papers.smart_homes.measurement import wasserstein


def slow_table(channel, cells, num_bins):
    """P(bucket | bin) by adding up cells and positions one by one, an exact share of a position where a bin ends."""
    size, table = channel.num_positions, []
    for first, last in pairwise(cells):
        row = []
        for i in range(num_bins):
            low, high = Fraction(i * size, num_bins), Fraction((i + 1) * size, num_bins)
            total = Fraction(0)
            for at in range(size):
                part = max(Fraction(0), min(high, at + 1) - max(low, at)) / (high - low)
                if part:
                    total += part * sum(channel.probability(cell, at) for cell in range(first, last))
            row.append(float(total))
        table.append(row)
    return np.array(table)


@settings(max_examples=40)
@given(st.integers(2, 24), st.integers(1, 20), st.integers(1, (1 << 32) - 1), st.data())
def test_the_table_is_the_exact_integral(positions, window, threshold, data):
    channel = WindowChannel(positions, window, Fraction(threshold, 1 << 32))
    cells = bucket_edges(channel.num_cells, data.draw(st.integers(1, channel.num_cells)))
    num_bins = data.draw(st.integers(1, 10))
    table = transition_table(channel, cells, num_bins)
    assert np.allclose(table, slow_table(channel, cells.tolist(), num_bins), atol=1e-12)
    assert np.allclose(table.sum(axis=0), 1)


def test_the_table_at_full_resolution_keeps_its_digits():
    channel = SquareWave(1.0, resolution=1 << 30).channel
    fine = transition_table(channel, bucket_edges(channel.num_cells, 64), 50)
    coarse = SquareWave(1.0, resolution=6400).channel
    assert np.allclose(fine.sum(axis=0), 1, atol=1e-9)
    assert np.allclose(fine, transition_table(coarse, bucket_edges(coarse.num_cells, 64), 50), atol=1e-3)


TABLES = st.integers(2, 6).flatmap(
    lambda d: st.lists(st.lists(st.floats(0.01, 1), min_size=d, max_size=d), min_size=d, max_size=9)
)


@settings(max_examples=60)
@given(TABLES, st.data())
def test_every_step_climbs_and_rows_are_fitted_as_alone(rows, data):
    table = np.array(rows) / np.array(rows).sum(axis=0)
    drawn = st.lists(st.integers(0, 1000), min_size=len(rows), max_size=len(rows)).filter(any)
    counts = np.array(data.draw(st.lists(drawn, min_size=1, max_size=3)), np.float64)
    even = np.full(table.shape[1], 1 / table.shape[1])
    before = -np.inf
    for steps in (0, 1, 5, 50, 2000):
        shares, _ = expectation_maximization(counts, table, 0.0, even, steps)
        likelihood = (counts * np.log(shares @ table.T)).sum(axis=1)
        assert np.all(likelihood >= before - 1e-7)
        assert shares.min() >= 0
        assert shares.sum(axis=1) == pytest.approx(1)
        before = likelihood
    # By concavity the maximum is at most max(slope) - n higher.
    slope = ((counts / (shares @ table.T)) @ table).max(axis=1)
    looser, converged = expectation_maximization(counts, table, 1e-3, even)
    assert converged
    assert not expectation_maximization(counts, table, -1.0, even, 0)[1]
    assert np.all((counts * np.log(looser @ table.T)).sum(axis=1) <= before + slope - counts.sum(axis=1) + 1e-7)
    for row, each in zip(counts, looser, strict=True):
        assert np.allclose(expectation_maximization(row[None], table, 1e-3, even)[0][0], each, atol=1e-9)


REPORTS, BINS, WITHIN = 200_000, 64, 0.01


def unsmeared(counts):
    """Takes reports for values: forgets the window."""
    middle = counts.ones[0][counts.num_bits // 6 : -counts.num_bits // 6]
    return np.array([part.sum() for part in np.array_split(middle, BINS)]) / middle.sum()


def test_what_is_found_is_near_the_truth_and_a_broken_decoder_is_not():
    """By the Wasserstein distance, the range counting as 1, at epsilon 2."""
    wave, rng = SquareWave(2.0, Interval(-1, 3)), np.random.default_rng(2)
    values = rng.beta(2, 6, REPORTS) * 4 - 1
    devices = SimulatedDevices.holding(wave, values, np.arange(REPORTS), rng)
    counts = count_reports(wave, devices.report())
    found = fitted_spread(wave, counts, num_bins=BINS)
    truth = np.histogram(values, found.edges)[0] / REPORTS
    assert wasserstein(found.shares[:BINS], truth, width=1 / BINS) < WITHIN
    assert wasserstein(unsmeared(counts), truth, width=1 / BINS) > 3 * WITHIN
