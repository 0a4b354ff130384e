"""Hashes of few devices by NumPy, of many by compiled kernels: the same, bit for bit."""

import numpy as np
import pytest

from overstory.kernels import columns, small_hashes
from overstory.kernels.symbols import local_hash


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
        ("encode_hash", (np.zeros(2, np.uint64), np.array([2]), np.array([0]), 4)),
        ("encode_hash", (np.zeros(2, np.uint64), np.array([0]), np.array([0]), 1)),
    ],
)
def test_what_the_kernels_refuse_is_refused(call, given):
    with pytest.raises(ValueError, match=r"must|has|not"):
        getattr(small_hashes, call)(*given)
