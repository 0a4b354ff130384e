import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from overstory.protocol.kinds.hashing import GoogleRapporPython, OverstoryV1
from support.protocol_twins import google_positions

LEVEL = 5e-13  # of one comparison: the false-alarm rate that docs/explanation/laws.md states for the whole suite


@given(st.binary(max_size=40), st.integers(0, 2**16 - 1), st.data())
def test_ours_are_distinct_and_inside(value, cohort, data):
    bits = data.draw(st.integers(2, 200))
    hashes = data.draw(st.integers(1, bits - 1))
    positions = OverstoryV1().positions(value, cohort, bits, hashes)
    assert len(set(positions)) == hashes == len(positions)
    assert all(0 <= p < bits for p in positions)


@pytest.mark.parametrize(("bits", "hashes"), [(128, 2), (7, 3), (100, 1)])
def test_ours_are_uniform_over_values_cohorts_and_pairs(bits, hashes):
    """Chi-square on each hash's positions, and on pairs of hashes, at the suite's one rate."""
    family = OverstoryV1(b"metric")
    drawn = np.array([family.positions(b"%d" % v, c, bits, hashes) for v in range(1500) for c in range(8)])
    # Floyd's hash i is uniform on its own; a set of positions is uniform, so each bit is set equally often.
    counts = np.bincount(drawn.ravel(), minlength=bits)
    expected = drawn.size / bits
    # The h bits of one value exclude each other, which shrinks the statistic by (1 - (h - 1)/(k - 1)).
    shrink = 1 - (hashes - 1) / (bits - 1)
    statistic = ((counts - expected) ** 2 / expected).sum() / shrink
    assert chi2.sf(statistic, bits - 1) > LEVEL
    assert chi2.cdf(statistic, bits - 1) > LEVEL
    assert chi2.sf(((counts + 3 * np.sqrt(expected) - expected) ** 2 / expected).sum() / shrink, bits - 1) < LEVEL


def test_the_cohorts_of_one_value_are_unlike():
    def distinct(cohorts):
        filters = (OverstoryV1().positions(b"Ohio", cohort, 128, 2) for cohort in cohorts)
        return len({tuple(sorted(positions)) for positions in filters})

    assert distinct(range(2000)) > 1650  # of 8128 pairs, 2000 draws hit about 1776 distinct ones
    assert distinct(cohort % 1024 for cohort in range(2000)) < 1000  # cohorts that wrap around


@given(st.binary(max_size=40), st.integers(0, 2**16 - 1), st.integers(2, 256), st.integers(1, 16))
def test_googles_are_bytes_of_md5(value, cohort, bits, hashes):
    assert GoogleRapporPython().positions(value, cohort, bits, hashes) == google_positions(value, cohort, bits, hashes)
