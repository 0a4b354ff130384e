"""Hashes and signs of few devices by NumPy, of many by compiled kernels: the same, bit for bit."""

import numpy as np
import pytest

from overstory.kernels import columns, small_hashes
from overstory.kernels.symbols import local_hash, transforms
from overstory.kernels.symbols import transforms as linear_hash

WIDTHS = [(1, 1), (7, 2), (24, 3), (64, 5)]


@pytest.fixture(autouse=True)
def by_numpy(monkeypatch):
    monkeypatch.setattr(columns, "COMPILER", "no such module")
    monkeypatch.setattr(columns, "_done_slowly", 0)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def same(got, expected):
    assert columns._done_slowly > 0 or got.size == 0, "NumPy was not used"
    assert got.dtype == expected.dtype
    assert np.array_equal(got, expected)


@pytest.fixture(autouse=True)
def all_are_counted(monkeypatch):
    monkeypatch.setattr(small_hashes, "TOGETHER", 1)
    monkeypatch.setattr(columns, "PATIENCE", 1 << 40)
    monkeypatch.setattr(columns, "COMPILING", 1 << 40)


@pytest.mark.parametrize("n", [0, 1, 500])
@pytest.mark.parametrize("domain_size", [2, 3, 64, 1000])
def test_hadamard(rng, n, domain_size):
    rows = rng.integers(0, 1 << (domain_size - 1).bit_length(), n).astype(np.uint32)
    given = rows, rng.integers(0, 2, n).astype(np.uint32), domain_size
    same(small_hashes.count_hadamard_support(*given), transforms.count_hadamard_support(*given))


@pytest.mark.parametrize("n", [0, 1, 300])
@pytest.mark.parametrize(("num_bits", "hash_bits"), WIDTHS)
def test_linear_hashes(rng, n, num_bits, hash_bits):
    seeds = rng.integers(0, 2**31, n).astype(np.uint32)
    words = rng.integers(0, 1 << num_bits, 9, np.uint64, endpoint=False)
    held = rng.integers(0, 9, n).astype(np.int32)
    masks = linear_hash.masks_of(seeds, num_bits, hash_bits)
    same(small_hashes.masks_of(seeds, num_bits, hash_bits), masks)
    given = words, held, seeds, num_bits, hash_bits
    reported = linear_hash.encode_linear(*given)
    same(small_hashes.encode_linear(*given), reported)
    for step in (0, min(3, num_bits), min(6, num_bits)):
        parents = np.unique(words >> np.uint64(step) << np.uint64(step))
        for some in (parents, parents[:1], parents[:0]):
            given = masks, reported, some, step
            same(small_hashes.count_blocks(*given), linear_hash.count_blocks(*given))


@pytest.mark.parametrize("n", [0, 1, 300])
@pytest.mark.parametrize("hash_range", [2, 3, 16, 65_536])
def test_hashes_under_seeds(rng, n, hash_range):
    values = np.array([0, 1, 2, 999, 2**31 - 1])
    words = local_hash.value_words(values)
    same(small_hashes.value_words(values), words)
    seeds, held = rng.integers(0, 2**32, n).astype(np.uint32), rng.integers(0, 5, n).astype(np.int32)
    given = words, held, seeds, hash_range
    same(small_hashes.encode_hash(*given), local_hash.encode_hash(*given))


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("count_hadamard_support", (np.array([4]), np.array([0]), 3)),
        ("count_hadamard_support", (np.array([0]), np.array([2]), 3)),
        ("count_hadamard_support", (np.array([0]), np.array([0]), 1)),
        ("encode_hadamard", (np.array([1, 2]), np.array([1]))),
        ("encode_hash", (np.zeros(2, np.uint64), np.array([2]), np.array([0]), 4)),
        ("encode_hash", (np.zeros(2, np.uint64), np.array([0]), np.array([0]), 1)),
    ],
)
def test_what_the_kernels_refuse_is_refused(call, given):
    with pytest.raises(ValueError, match=r"must|has|not"):
        getattr(small_hashes, call)(*given)


def test_many_are_the_kernels(rng, monkeypatch):
    monkeypatch.setattr(columns, "PATIENCE", 0)
    rows = rng.integers(0, 4, 10)
    given = rows, rows & 1, 3
    assert np.array_equal(small_hashes.count_hadamard_support(*given), transforms.count_hadamard_support(*given))
    assert columns._done_slowly == 0
