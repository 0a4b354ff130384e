import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.symbols.local_hash import count_hash_support, encode_hash, value_words
from overstory.protocol.encodings.symbols import LocalHash, hash_word, value_word

ONE = 2**32
EDGES = [0, 1, 2**31 - 1, 2**31, ONE - 1]


def twin_symbol(word, seed, hash_range):
    return hash_word(int(word), int(seed)) * hash_range >> 32


def twin_support(seeds, reported, words, hash_range):
    pairs = list(zip(seeds.tolist(), reported.tolist(), strict=True))
    return [sum(twin_symbol(word, seed, hash_range) == y for seed, y in pairs) for word in words]


def collection(n, d, hash_range):
    rng = np.random.default_rng(n)
    words = rng.integers(0, 2**64, d, dtype=np.uint64)
    seeds = rng.integers(0, ONE, n, dtype=np.uint32)
    return seeds, rng.integers(0, hash_range, n).astype(np.uint32), words


def test_words_of_a_domain():
    assert value_words(range(1000)).tolist() == [value_word(value, 1000, "") for value in range(1000)]
    assert value_words([]).size == 0
    chosen = [2**31 - 1, 0, 77]
    assert value_words(chosen).tolist() == [value_word(value, 2**31, "") for value in chosen]


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 2**16), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5), st.integers(0, 99))
def test_any_symbols_equal_the_twin(hash_range, words, seed):
    rng = np.random.default_rng(seed)
    symbols, seeds = rng.integers(0, len(words), 40), rng.integers(0, ONE, 40, dtype=np.uint32)
    seeds[: len(EDGES)] = EDGES
    got = encode_hash(np.array(words, np.uint64), symbols, seeds, hash_range)
    assert got.dtype == np.uint32
    expected = [twin_symbol(words[symbol], row, hash_range) for symbol, row in zip(symbols, seeds, strict=True)]
    assert got.tolist() == expected


def test_symbols_are_the_device_s():
    encoding = LocalHash(5, domain_size=20)
    got = encode_hash(value_words(range(20)), np.arange(20), np.arange(20) + 100, 5)
    assert got.tolist() == [encoding.symbol(value, value + 100) for value in range(20)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 70), st.integers(0, 7), st.integers(2, 2**16))
def test_any_support_equals_the_twin(n, d, hash_range):
    seeds, reported, words = collection(n, d, hash_range)
    if d:  # else nobody would ever hit in a wide range
        reported[::2] = encode_hash(words, np.zeros(n, np.int32), seeds, hash_range)[::2]
    got = count_hash_support(seeds, reported, words, hash_range)
    assert got.dtype == np.int64
    assert got.tolist() == twin_support(seeds, reported, words, hash_range)


@pytest.mark.parametrize("hash_range", [2, 3, 4, 7, 56, 65_535, 65_536])
@pytest.mark.parametrize("n", [1023, 1024, 1025, 2063])
def test_blocks_equal_the_twin(n, hash_range):
    seeds, reported, words = collection(n, 5, hash_range)
    reported[::3] = encode_hash(words, np.full(n, 3), seeds, hash_range)[::3]
    assert count_hash_support(seeds, reported, words, hash_range).tolist() == twin_support(
        seeds, reported, words, hash_range
    )


def test_the_borders_of_every_interval():
    # seed 0 and chosen words give hash words next to each border, where an interval that is off by one would show.
    hash_range, first, second = 7, pow(0x21F0AAAD, -1, ONE), pow(0x735A2D97, -1, ONE)

    def word_of(hashed):
        x = hashed * second % ONE
        x = x ^ (x >> 15) ^ (x >> 30)
        x = x * first % ONE
        return x ^ (x >> 16)  # mix32(0) is 0, and the upper half adds nothing

    borders = [-(-y * ONE // hash_range) + step for y in range(hash_range) for step in (-1, 0, 1)]
    borders = [border % ONE for border in borders]
    words = np.array([word_of(border) for border in borders], np.uint64)
    assert [hash_word(int(word), 0) for word in words] == borders
    for y in range(hash_range):
        got = count_hash_support(np.array([0]), np.array([y]), words, hash_range)
        assert got.tolist() == [int(border * hash_range >> 32 == y) for border in borders]


def test_threads_and_parts_change_nothing():
    seeds, reported, words = collection(50_001, 33, 9)
    whole = count_hash_support(seeds, reported, words, 9, threads=1)
    assert np.array_equal(whole, count_hash_support(seeds, reported, words, 9, threads=3))
    first = count_hash_support(seeds[:17], reported[:17], words, 9)
    assert np.array_equal(whole, first + count_hash_support(seeds[17:], reported[17:], words, 9))
    assert np.array_equal(whole[4:9], count_hash_support(seeds, reported, words[4:9], 9))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": np.array([1, 2])}, "reported"),
        ({"seeds": np.array([-1])}, "seeds"),
        ({"reported": np.array([4])}, "reported"),
        ({"words": np.array([1])}, "words"),
        ({"hash_range": 1}, "hash_range"),
        ({"hash_range": 2**16 + 1}, "hash_range"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_reports_get_one_clear_error(change, message):
    arguments = {
        "seeds": np.array([1]),
        "reported": np.array([3]),
        "words": np.array([5], np.uint64),
        "hash_range": 4,
    }
    with pytest.raises(ValueError, match=message):
        count_hash_support(**(arguments | change))


def test_a_symbol_outside_the_words_is_refused():
    with pytest.raises(ValueError, match="symbols"):
        encode_hash(value_words(range(3)), np.array([3]), np.array([0]), 4)
