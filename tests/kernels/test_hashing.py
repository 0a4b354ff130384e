"""Positions, hashes, and supports by transforms, compiled and by NumPy, equal the device's own and obvious twins."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overstory.analysis.kinds.base import positions_of
from overstory.kernels import small_hashes
from overstory.kernels.small_hashes import encode_hadamard, encode_linear, positions_v1
from overstory.kernels.threads import at_most
from overstory.protocol.kinds.bits import Bloom
from overstory.protocol.kinds.hashes import hash_word, value_word
from overstory.protocol.kinds.hashing import GoogleRapporPython, OverstoryV1
from overstory.protocol.kinds.symbols import HadamardRow

OURS, GOOGLES = OverstoryV1(b"a key"), GoogleRapporPython()


def digests_of(strings):
    return np.array([OURS.digest(s) for s in strings], np.uint64)


@settings(max_examples=50)
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


def test_high_cohorts_the_widest_and_strings_in_blocks(monkeypatch):
    monkeypatch.setattr(small_hashes, "BLOCK", 3)
    strings = [bytes([size % 256]) * size for size in (0, 1, 8, 9, 63, 64, 65, 257)]
    ours = positions_v1(digests_of(strings), 65_535, 3, 300)
    for cohort in (0, 255, 256, 299):
        assert [tuple(row) for row in ours[cohort]] == [OURS.positions(s, cohort, 65_535, 3) for s in strings]
    assert np.sort(positions_v1(digests_of(strings[:3]), 64, 64, 2), axis=2).tolist() == [[list(range(64))] * 3] * 2


ONE = 2**32
EDGES = [0, 1, 2**31 - 1, 2**31, ONE - 1]
SEEDS = st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=12)
by_examples = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["compiled", "NumPy"])
def kernels(request, monkeypatch):
    """The functions, by compiled code and by NumPy."""
    monkeypatch.setattr(small_hashes, "are_few", lambda count, kernels: request.param == "NumPy")
    return small_hashes


def hadamard_twin(rows, reported, domain_size):
    encoding = HadamardRow(domain_size)
    pairs = list(zip(rows.tolist(), reported.tolist(), strict=True))
    return [sum(encoding.symbol(value, row) == sign for row, sign in pairs) for value in range(domain_size)]


def hadamard_reports(n, domain_size):
    rng = np.random.default_rng(n)
    return rng.integers(0, HadamardRow(domain_size).num_cohorts, n).astype(np.uint32), rng.integers(0, 2, n)


@pytest.mark.parametrize("domain_size", [2, 3, 64, 1000, 2**31])
def test_signs_are_the_device_s(domain_size):
    rng, encoding = np.random.default_rng(1), HadamardRow(domain_size)
    symbols, rows = rng.integers(0, domain_size, 50), rng.integers(0, encoding.num_cohorts, 50)
    got = encode_hadamard(symbols, rows)
    assert got.dtype == np.uint32
    assert got.tolist() == [encoding.symbol(int(s), int(r)) for s, r in zip(symbols, rows, strict=True)]


@by_examples
@given(st.integers(0, 60), st.integers(2, 70) | st.sampled_from([1023, 1024, 1025]))
def test_any_signs_support_equals_the_twin(kernels, n, domain_size):
    rows, reported = hadamard_reports(n, domain_size)
    got = kernels.count_hadamard_support(rows, reported, domain_size)
    assert got.dtype == np.int64
    assert got.tolist() == hadamard_twin(rows, reported, domain_size)


@pytest.mark.parametrize(
    ("rows", "reported", "domain_size", "message"),
    [
        ([4], [0], 4, "rows"),
        ([-1], [0], 4, "rows"),
        ([0], [2], 4, "reported"),
        ([0], [], 4, "reported"),
        ([0], [0], 1, "domain_size"),
    ],
)
def test_bad_reports_get_one_clear_error(kernels, rows, reported, domain_size, message):
    with pytest.raises(ValueError, match=message):
        kernels.count_hadamard_support(np.array(rows), np.array(reported), domain_size)


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


@by_examples
@given(SEEDS, st.integers(1, 64), st.integers(1, 12), st.data())
def test_matrices_and_hashes_equal_the_twin(kernels, seeds, num_bits, hash_bits, data):
    column = np.array(seeds, np.uint32)
    expected = [twin_masks(seed, num_bits, hash_bits) for seed in seeds]
    assert kernels.masks_of(column, num_bits, hash_bits).tolist() == expected
    words = data.draw(st.lists(st.integers(0, 2**num_bits - 1), min_size=1, max_size=5))
    symbols = np.arange(len(seeds)) % len(words)
    found = encode_linear(np.array(words, np.uint64), symbols, column, num_bits, hash_bits)
    assert found.dtype == np.uint32
    assert found.tolist() == [twin_hash(words[i], masks) for i, masks in zip(symbols, expected, strict=True)]


def test_many_devices_are_hashed_in_parts(monkeypatch):
    words, symbols, seeds = np.arange(50, dtype=np.uint64), np.arange(100) % 50, np.arange(100, dtype=np.uint32)
    whole = encode_linear(words, symbols, seeds, 20, 5)
    monkeypatch.setattr(small_hashes, "AT_ONCE", 7)
    assert np.array_equal(encode_linear(words, symbols, seeds, 20, 5), whole)


def some_reports(seed, n, hash_bits):
    rng = np.random.default_rng(seed)
    masks = small_hashes.masks_of(rng.integers(0, 1 << 31, n).astype(np.uint32), 64, hash_bits)
    return masks, rng.integers(0, 1 << hash_bits, n).astype(np.uint32)


@pytest.mark.parametrize(("hash_bits", "step"), [(1, 0), (1, 4), (3, 5), (6, 3), (7, 9), (12, 2)])
def test_the_transform_counts_what_the_twin_counts(kernels, hash_bits, step):
    masks, reported = some_reports(hash_bits, 40, hash_bits)
    drawn = np.random.default_rng(step).integers(0, 1 << 63, 3).astype(np.uint64)
    parents = drawn >> np.uint64(step) << np.uint64(step)
    reported[::2] = [twin_hash(int(parents[0]), own) for own in masks[::2].tolist()]
    counted = kernels.count_blocks(masks, reported, parents, step)
    assert counted.shape == (3, 1 << step)
    for row, parent in zip(counted, parents.tolist(), strict=True):
        for suffix in range(0, 1 << step, 7 if step > 4 else 1):
            assert row[suffix] == twin_support(masks, reported, parent | suffix)
    assert np.array_equal(kernels.count_blocks(masks[:0], reported[:0], parents, step), 0 * counted)
    assert kernels.count_blocks(masks, reported, parents[:0], step).shape == (0, 1 << step)
    broken = kernels.count_blocks(masks, reported ^ np.uint32(1), parents, step)
    assert not np.array_equal(broken, counted), "a wrong sign would be seen"


@by_examples
@given(st.integers(1, 8), st.integers(1, 10), st.integers(0, 30), st.integers(0, 4), st.integers(0, 99), st.booleans())
def test_both_ways_of_numpy_count_what_the_kernel_counts(hash_bits, step, n, num_parents, seed, repeats):
    """Bit for bit, also where a report's rows depend on each other and its values have no solution, or many."""
    masks, reported = some_reports(seed, n, hash_bits)
    if repeats:
        masks[:, -1] = masks[:, 0]
        masks[::3] &= np.uint64(1)
    drawn = np.random.default_rng(seed).integers(0, 1 << 63, num_parents).astype(np.uint64)
    parents = drawn >> np.uint64(step) << np.uint64(step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_hashes, "are_few", lambda count, kernels: False)
        counted = small_hashes.count_blocks(masks, reported, parents, step)
    for most in (1, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(small_hashes, "MOST_SOLUTIONS", most)
            solved = small_hashes.count_solutions(masks, reported, parents, step)
        assert (solved.dtype, solved.shape, solved.tolist()) == (counted.dtype, counted.shape, counted.tolist())
    assert np.array_equal(small_hashes.count_by_signs(masks, reported, parents, step), counted)


def test_many_reports_are_added_in_parts(monkeypatch):
    monkeypatch.setattr(small_hashes, "are_few", lambda count, kernels: False)
    masks, reported = some_reports(9, 100, 4)
    parents = np.array([0, 1 << 40], np.uint64)
    whole = small_hashes.count_blocks(masks, reported, parents, 6)
    monkeypatch.setattr(small_hashes, "MOST_SIGNS", 16 * 7)
    assert np.array_equal(small_hashes.count_blocks(masks, reported, parents, 6), whole)


def twin_symbol(word, seed, hash_range):
    return hash_word(int(word), int(seed)) * hash_range >> 32


def test_words_of_a_domain():
    assert small_hashes.value_words(range(1000)).tolist() == [value_word(value, 1000, "") for value in range(1000)]
    assert small_hashes.value_words([]).size == 0
    chosen = [2**31 - 1, 0, 77]
    assert small_hashes.value_words(chosen).tolist() == [value_word(value, 2**31, "") for value in chosen]


@by_examples
@given(st.integers(2, 2**16), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5), st.integers(0, 99))
def test_any_symbols_equal_the_twin(kernels, hash_range, words, seed):
    rng = np.random.default_rng(seed)
    symbols, seeds = rng.integers(0, len(words), 40), rng.integers(0, ONE, 40, dtype=np.uint32)
    seeds[: len(EDGES)] = EDGES
    got = kernels.encode_hash(np.array(words, np.uint64), symbols, seeds, hash_range)
    assert got.dtype == np.uint32
    expected = [twin_symbol(words[symbol], row, hash_range) for symbol, row in zip(symbols, seeds, strict=True)]
    assert got.tolist() == expected


def test_threads_and_parts_change_nothing(kernels):
    rng = np.random.default_rng(1)
    words, symbols = rng.integers(0, 2**64, 33, dtype=np.uint64), rng.integers(0, 33, 150_001)
    seeds = rng.integers(0, ONE, symbols.size, dtype=np.uint32)
    with at_most(1):
        whole = kernels.encode_hash(words, symbols, seeds, 9)
    with at_most(3):
        assert np.array_equal(whole, kernels.encode_hash(words, symbols, seeds, 9))
    assert np.array_equal(whole[17:], kernels.encode_hash(words, symbols[17:], seeds[17:], 9))


DEVICE = {"words": np.array([5], np.uint64), "symbols": np.array([0]), "seeds": np.array([1]), "hash_range": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbols": np.array([1])}, "symbols"),
        ({"symbols": np.array([0, 0])}, "seeds"),
        ({"seeds": np.array([-1])}, "seeds"),
        ({"hash_range": 1}, "hash_range"),
        ({"hash_range": 2**16 + 1}, "hash_range"),
        ({"words": np.array([1])}, "words"),
    ],
)
def test_bad_devices_get_one_clear_error(kernels, change, message):
    with pytest.raises(ValueError, match=message):
        kernels.encode_hash(**(DEVICE | change))
