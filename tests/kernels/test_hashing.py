import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.hash.bloom import positions_google, positions_v1

MASK = 2**64 - 1
LENGTHS = [0, 1, 3, 4, 7, 8, 9, 50, 51, 52, 55, 56, 57, 63, 64, 65, 115, 119, 120, 127, 128, 129, 255, 256, 257, 1000]


def arrow(strings: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *(len(s) for s in strings)]).astype(np.int32)
    return offsets, np.frombuffer(b"".join(strings), dtype=np.uint8)


def some_strings(lengths: list[int]) -> list[bytes]:
    rng = np.random.default_rng(len(lengths))
    return [rng.integers(0, 256, length, dtype=np.uint8).tobytes() for length in lengths]


def twin_google(value: bytes, cohort: int, num_bits: int, num_hashes: int) -> list[int]:
    digest = hashlib.md5(cohort.to_bytes(4, "big") + value).digest()
    return [byte % num_bits for byte in digest[:num_hashes]]


def twin_mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def twin_v1(digest: int, cohort: int, num_bits: int, num_hashes: int) -> list[int]:
    golden = 0x9E3779B97F4A7C15
    y = twin_mix((digest + twin_mix((cohort + 1) * golden & MASK)) & MASK)
    positions: list[int] = []
    for i in range(num_hashes):
        y = (y + golden) & MASK
        last = num_bits - num_hashes + i
        t = twin_mix(y) * (last + 1) >> 64
        positions.append(last if t in positions else t)
    return positions


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=70), st.integers(1, 300), st.integers(1, 16), st.integers(1, 5))
def test_google_positions_equal_hashlib(strings, num_bits, num_hashes, num_cohorts):
    got = positions_google(*arrow(strings), num_bits, num_hashes, num_cohorts)
    assert got.dtype == np.uint16
    assert got.shape == (num_cohorts, len(strings), num_hashes)
    for cohort in range(num_cohorts):
        assert got[cohort].tolist() == [twin_google(s, cohort, num_bits, num_hashes) for s in strings]


def test_google_positions_at_every_length_and_a_high_cohort():
    strings = some_strings(LENGTHS)
    got = positions_google(*arrow(strings), 256, 16, 300)
    for cohort in (0, 255, 256, 299):
        assert got[cohort].tolist() == [twin_google(s, cohort, 256, 16) for s in strings]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, MASK), max_size=20), st.integers(1, 300), st.data(), st.integers(1, 5))
def test_v1_positions_equal_the_twin(digests, num_bits, data, num_cohorts):
    num_hashes = data.draw(st.integers(1, min(num_bits, 20)))
    got = positions_v1(np.array(digests, dtype=np.uint64), num_bits, num_hashes, num_cohorts)
    assert got.shape == (num_cohorts, len(digests), num_hashes)
    for cohort in range(num_cohorts):
        assert got[cohort].tolist() == [twin_v1(digest, cohort, num_bits, num_hashes) for digest in digests]


def test_v1_positions_at_the_widest():
    digests = np.array([0, 1, MASK], dtype=np.uint64)
    assert positions_v1(digests, 65536, 3, 1)[0].tolist() == [twin_v1(int(d), 0, 65536, 3) for d in digests]
    assert np.sort(positions_v1(digests, 64, 64, 2), axis=2).tolist() == [[list(range(64))] * 3] * 2


def test_v1_sets_are_equally_likely():
    positions = np.sort(positions_v1(np.arange(60_000, dtype=np.uint64), 5, 2, 1)[0], axis=1)
    counts = np.unique(positions[:, 0] * 5 + positions[:, 1], return_counts=True)[1]
    assert counts.size == 10
    assert abs(counts - 6000).max() < 6 * 6000**0.5  # fixed digests: this cannot fail now and then


def test_threads_and_slices_change_nothing():
    offsets, data = arrow(some_strings([i % 40 for i in range(20_011)]))
    digests = np.random.default_rng(1).integers(0, 2**64, 20_011, np.uint64)
    for family in (
        lambda threads: positions_v1(digests, 128, 2, 3, threads=threads),
        lambda threads: positions_google(offsets, data, 128, 2, 3, threads=threads),
    ):
        assert np.array_equal(family(1), family(3))
    part = positions_google(offsets[77:501].astype(np.int64), data, 128, 2, 3)
    assert np.array_equal(part, positions_google(offsets, data, 128, 2, 3)[:, 77:500])


def test_no_strings():
    assert positions_google(*arrow([]), 8, 2, 4).shape == (4, 0, 2)
    assert positions_v1(np.zeros(0, np.uint64), 8, 2, 4).shape == (4, 0, 2)


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [2, 1], []])
def test_offsets_outside_the_bytes_are_refused(offsets):
    with pytest.raises(ValueError, match="offsets"):
        positions_google(np.array(offsets, dtype=np.int64), np.zeros(3, np.uint8), 8, 2, 1)


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


def test_more_than_sixteen_google_hashes_are_refused():
    with pytest.raises(ValueError, match=r"num_hashes must be in 1 .. 16"):
        positions_google(*arrow([b"x"]), 128, 17, 1)
