import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overstory.kernels import small_hashes
from overstory.kernels.threads import at_most
from overstory.protocol.kinds.hashes import hash_word, value_word

ONE = 2**32
EDGES = [0, 1, 2**31 - 1, 2**31, ONE - 1]


@pytest.fixture(params=["compiled", "NumPy"])
def kernels(request, monkeypatch):
    """The functions, by compiled code and by NumPy."""
    monkeypatch.setattr(small_hashes, "are_few", lambda count, kernels: request.param == "NumPy")
    return small_hashes


def twin_symbol(word, seed, hash_range):
    return hash_word(int(word), int(seed)) * hash_range >> 32


def test_words_of_a_domain():
    assert small_hashes.value_words(range(1000)).tolist() == [value_word(value, 1000, "") for value in range(1000)]
    assert small_hashes.value_words([]).size == 0
    chosen = [2**31 - 1, 0, 77]
    assert small_hashes.value_words(chosen).tolist() == [value_word(value, 2**31, "") for value in chosen]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
