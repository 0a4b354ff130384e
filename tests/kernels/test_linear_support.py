"""Linear hashing in bulk equals slow, obvious twins: matrices, hashes, and the support of blocks of values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.symbols import transforms
from overstory.kernels.symbols.transforms import count_blocks, encode_linear, masks_of

SEEDS = st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=12)


def split_mix(word):
    """SplitMix64 of a state, as published (Steele, Lea, Flood 2014)."""
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def twin_masks(seed, num_bits, hash_bits):
    return [split_mix((256 * seed + row) * 0x9E3779B97F4A7C15 % 2**64) >> 64 - num_bits for row in range(hash_bits)]


def twin_hash(value, masks):
    return sum(((mask & value).bit_count() % 2) << row for row, mask in enumerate(masks))


def twin_support(masks, reported, value):
    return sum(twin_hash(value, own) == symbol for own, symbol in zip(masks.tolist(), reported.tolist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 64), st.integers(1, 12))
def test_matrices_equal_the_twin(seeds, num_bits, hash_bits):
    masks = masks_of(np.array(seeds, np.uint32), num_bits, hash_bits)
    assert masks.tolist() == [twin_masks(seed, num_bits, hash_bits) for seed in seeds]


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 64), st.integers(1, 12), st.data())
def test_hashes_equal_the_twin(seeds, num_bits, hash_bits, data):
    words = data.draw(st.lists(st.integers(0, 2**num_bits - 1), min_size=1, max_size=5))
    symbols = np.arange(len(seeds)) % len(words)
    found = encode_linear(np.array(words, np.uint64), symbols, np.array(seeds, np.uint32), num_bits, hash_bits)
    assert found.dtype == np.uint32
    assert found.tolist() == [
        twin_hash(words[i], twin_masks(seed, num_bits, hash_bits)) for i, seed in zip(symbols, seeds, strict=True)
    ]


def test_many_devices_are_hashed_in_parts(monkeypatch):
    words, symbols, seeds = np.arange(50, dtype=np.uint64), np.arange(100) % 50, np.arange(100, dtype=np.uint32)
    whole = encode_linear(words, symbols, seeds, 20, 5)
    monkeypatch.setattr(transforms, "AT_ONCE", 7)
    assert np.array_equal(encode_linear(words, symbols, seeds, 20, 5), whole)


def some_reports(seed, n, hash_bits):
    rng = np.random.default_rng(seed)
    masks = masks_of(rng.integers(0, 1 << 31, n).astype(np.uint32), 64, hash_bits)
    return masks, rng.integers(0, 1 << hash_bits, n).astype(np.uint32)


@pytest.mark.parametrize(("hash_bits", "step"), [(1, 0), (1, 4), (3, 5), (6, 3), (7, 9), (12, 2)])
def test_the_transform_counts_what_the_twin_counts(hash_bits, step):
    masks, reported = some_reports(hash_bits, 40, hash_bits)
    parents = (
        np.random.default_rng(step).integers(0, 1 << 63, 3).astype(np.uint64) >> np.uint64(step) << np.uint64(step)
    )
    counted = count_blocks(masks, reported, parents, step)
    assert counted.shape == (3, 1 << step)
    for row, parent in zip(counted, parents.tolist(), strict=True):
        for suffix in range(0, 1 << step, 7 if step > 4 else 1):
            assert row[suffix] == twin_support(masks, reported, parent | suffix)


def test_many_reports_are_added_in_parts(monkeypatch):
    masks, reported = some_reports(9, 100, 4)
    parents = np.array([0, 1 << 40], np.uint64)
    whole = count_blocks(masks, reported, parents, 6)
    monkeypatch.setattr(transforms, "MOST_SIGNS", 16 * 7)
    assert np.array_equal(count_blocks(masks, reported, parents, 6), whole)


def test_no_reports_and_no_parents():
    masks, reported = some_reports(1, 3, 2)
    assert count_blocks(masks[:0], reported[:0], np.zeros(2, np.uint64), 3).tolist() == [[0] * 8] * 2
    assert count_blocks(masks, reported, np.zeros(0, np.uint64), 3).shape == (0, 8)


def test_the_comparison_would_catch_a_wrong_sign():
    masks, reported = some_reports(3, 40, 3)
    parents = np.zeros(1, np.uint64)
    broken = count_blocks(masks, reported ^ np.uint32(1), parents, 4)[0]
    assert any(broken[value] != twin_support(masks, reported, value) for value in range(16))


def test_the_compiled_loops_are_the_plain_ones():
    rng = np.random.default_rng(5)
    seeds, masks = rng.integers(0, 1 << 31, 6).astype(np.uint64), np.empty((6, 3), np.uint64)
    reported, parents = rng.integers(0, 8, 6).astype(np.uint32), np.array([0, 32, 160], np.uint64)
    signs = np.zeros((32, 3), np.int32)
    with np.errstate(over="ignore"):
        transforms.fill_masks.py_func(seeds, np.uint64(0), masks)
        transforms.add_block_signs.py_func(masks, reported, parents, signs)
        transforms.transform.py_func(signs.reshape(-1), 3)
    assert np.array_equal(masks, masks_of(seeds, 64, 3))
    assert np.array_equal(signs.T >> 3, count_blocks(masks, reported, parents, 5))
