"""Positions of many strings are those that a device's own code gives each of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.kinds.base import positions_of
from overstory.kernels.hashing import positions_v1
from overstory.kernels.threads import at_most
from overstory.protocol.kinds.hashing import GoogleRapporPython, OverstoryV1
from overstory.protocol.kinds.rappor import Bloom

OURS, GOOGLES = OverstoryV1(b"a key"), GoogleRapporPython()


def digests_of(strings):
    return np.array([OURS.digest(s) for s in strings], np.uint64)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=70), st.integers(1, 300), st.data(), st.integers(1, 5))
def test_positions_are_the_device_s(strings, num_bits, data, num_cohorts):
    ours, googles = data.draw(st.integers(1, min(num_bits, 20))), data.draw(st.integers(1, 16))
    bytewise = Bloom(max(17, min(num_bits, 256)), googles, num_cohorts, GOOGLES.name)
    for family, size, num_hashes, got in (
        (OURS, num_bits, ours, positions_v1(digests_of(strings), num_bits, ours, num_cohorts)),
        (GOOGLES, bytewise.num_bits, googles, positions_of(bytewise, strings)),
    ):
        assert (got.dtype, got.shape) == (np.uint16, (num_cohorts, len(strings), num_hashes))
        for cohort in range(num_cohorts):
            expected = [family.positions(s, cohort, size, num_hashes) for s in strings]
            assert [tuple(row) for row in got[cohort].tolist()] == expected


def test_a_high_cohort_and_the_widest():
    strings = [bytes([size % 256]) * size for size in (0, 1, 8, 9, 63, 64, 65, 257)]
    ours = positions_v1(digests_of(strings), 65_535, 3, 300)
    for cohort in (0, 255, 256, 299):
        assert [tuple(row) for row in ours[cohort]] == [OURS.positions(s, cohort, 65_535, 3) for s in strings]
    assert np.sort(positions_v1(digests_of(strings[:3]), 64, 64, 2), axis=2).tolist() == [[list(range(64))] * 3] * 2


def test_threads_change_nothing():
    digests = np.random.default_rng(1).integers(0, 2**64, 20_011, np.uint64)
    with at_most(1):
        alone = positions_v1(digests, 128, 2, 3)
    with at_most(3):
        assert np.array_equal(positions_v1(digests, 128, 2, 3), alone)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 1, 1), "num_bits"),
        ((65537, 1, 1), "num_bits"),
        ((8, 9, 1), "num_hashes"),
        ((8, 0, 1), "num_hashes"),
        ((8, 1, 0), "num_cohorts"),
    ],
)
def test_impossible_shapes_are_refused(shape, message):
    with pytest.raises(ValueError, match=message):
        positions_v1(np.zeros(1, np.uint64), *shape)
