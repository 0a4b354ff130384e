"""Positions of many strings are those that a device's own code gives each of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.hash.bloom import positions_google, positions_v1
from overstory.kernels.threads import at_most
from overstory.protocol.kinds.hashing import GoogleRapporPython, OverstoryV1

LENGTHS = [0, 1, 3, 4, 7, 8, 9, 50, 51, 52, 55, 56, 57, 63, 64, 65, 115, 119, 120, 127, 128, 129, 255, 256, 257, 1000]
OURS, GOOGLES = OverstoryV1(b"a key"), GoogleRapporPython()


def arrow(strings):
    offsets = np.cumsum([0, *(len(s) for s in strings)]).astype(np.int32)
    return offsets, np.frombuffer(b"".join(strings), dtype=np.uint8)


def some_strings(lengths):
    rng = np.random.default_rng(len(lengths))
    return [rng.integers(0, 256, length, dtype=np.uint8).tobytes() for length in lengths]


def digests_of(strings):
    return np.array([OURS.digest(s) for s in strings], np.uint64)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=70), st.integers(1, 300), st.data(), st.integers(1, 5))
def test_positions_are_the_device_s(strings, num_bits, data, num_cohorts):
    ours = data.draw(st.integers(1, min(num_bits, 20)))
    googles = data.draw(st.integers(1, 16))
    for family, num_hashes, got in (
        (OURS, ours, positions_v1(digests_of(strings), num_bits, ours, num_cohorts)),
        (GOOGLES, googles, positions_google(*arrow(strings), num_bits, googles, num_cohorts)),
    ):
        assert got.dtype == np.uint16
        assert got.shape == (num_cohorts, len(strings), num_hashes)
        for cohort in range(num_cohorts):
            expected = [family.positions(s, cohort, num_bits, num_hashes) for s in strings]
            assert [tuple(row) for row in got[cohort].tolist()] == expected


def test_at_every_length_a_high_cohort_and_the_widest():
    strings = some_strings(LENGTHS)
    google, ours = positions_google(*arrow(strings), 256, 16, 300), positions_v1(digests_of(strings), 65_535, 3, 300)
    for cohort in (0, 255, 256, 299):
        assert [tuple(row) for row in google[cohort]] == [GOOGLES.positions(s, cohort, 256, 16) for s in strings]
        assert [tuple(row) for row in ours[cohort]] == [OURS.positions(s, cohort, 65_535, 3) for s in strings]
    assert np.sort(positions_v1(digests_of(strings[:3]), 64, 64, 2), axis=2).tolist() == [[list(range(64))] * 3] * 2


def test_threads_and_slices_change_nothing():
    offsets, data = arrow(some_strings([i % 40 for i in range(20_011)]))
    digests = np.random.default_rng(1).integers(0, 2**64, 20_011, np.uint64)
    for family in (lambda: positions_v1(digests, 128, 2, 3), lambda: positions_google(offsets, data, 128, 2, 3)):
        with at_most(1):
            alone = family()
        with at_most(3):
            assert np.array_equal(family(), alone)
    part = positions_google(offsets[77:501].astype(np.int64), data, 128, 2, 3)
    assert np.array_equal(part, positions_google(offsets, data, 128, 2, 3)[:, 77:500])


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [2, 1], []])
def test_offsets_outside_the_bytes_are_refused(offsets):
    with pytest.raises(ValueError, match="offsets"):
        positions_google(np.array(offsets, dtype=np.int64), np.zeros(3, np.uint8), 8, 2, 1)


@pytest.mark.parametrize(
    ("positions", "shape", "message"),
    [
        (positions_v1, (0, 1, 1), "num_bits"),
        (positions_v1, (65537, 1, 1), "num_bits"),
        (positions_v1, (8, 9, 1), "num_hashes"),
        (positions_v1, (8, 0, 1), "num_hashes"),
        (positions_v1, (8, 1, 0), "num_cohorts"),
        (positions_google, (128, 17, 1), r"num_hashes must be in 1 .. 16"),
    ],
)
def test_impossible_shapes_are_refused(positions, shape, message):
    with pytest.raises(ValueError, match=message):
        positions(*(arrow([b"x"]) if positions is positions_google else [np.zeros(1, np.uint64)]), *shape)
