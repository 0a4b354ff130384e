import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.symbols import signs
from overstory.kernels.symbols.local_hash import value_words
from overstory.kernels.symbols.signs import count_sign_support, encode_signs
from overstory.protocol.encodings.symbols import SignMatrix, hash_word

ONE = 2**32


def twin_sign(word, row):
    hashed = hash_word(int(word), int(row) >> 5)
    return (hashed ^ (hashed >> 16)) >> (int(row) & 31) & 1


def twin_support(rows, reported, words):
    pairs = list(zip(rows.tolist(), reported.tolist(), strict=True))
    return [sum(twin_sign(word, row) == sign for row, sign in pairs) for word in words]


def some_words(d):
    return np.random.default_rng(d).integers(0, 2**64, d, dtype=np.uint64)


def some_signs(n):
    return np.random.default_rng(n).integers(0, 2, n).astype(np.uint32)


def some_rows(kind, n):
    rng = np.random.default_rng(n)
    return {
        "consecutive": np.arange(n) + 5,
        "lossy": np.flatnonzero(rng.random(2 * n) < 0.8)[:n] + 2**31 - 50,
        "shuffled": rng.permutation(n),
        "repeated": rng.integers(0, max(1, n // 3), n),
        "scattered": rng.integers(0, ONE, n),
    }[kind][:n].astype(np.uint32)


KINDS = ["consecutive", "lossy", "shuffled", "repeated", "scattered"]


def test_signs_are_the_device_s():
    matrix = SignMatrix(domain_size=40)
    rows = np.arange(40) * 1_000_003
    got = encode_signs(value_words(range(40)), np.arange(40), rows)
    assert got.dtype == np.uint32
    assert got.tolist() == [matrix.symbol(value, int(row)) for value, row in enumerate(rows)]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 140), st.integers(0, 5))
def test_any_support_equals_the_twin(kind, n, d):
    rows, words = some_rows(kind, n), some_words(d)
    reported = some_signs(n)[: rows.size]
    got = count_sign_support(rows, reported, words)
    assert got.dtype == np.int64
    assert got.tolist() == twin_support(rows, reported, words)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sorting", [0, 10**6])
def test_blocks_equal_the_twin_sorted_or_not(kind, sorting, monkeypatch):
    monkeypatch.setattr(signs, "WORTH_SORTING", sorting)
    rows, words = some_rows(kind, 2_067), some_words(5)
    reported = some_signs(rows.size)
    reported[::3] = encode_signs(words, np.full(rows.size, 3), rows)[::3]
    assert count_sign_support(rows, reported, words).tolist() == twin_support(rows, reported, words)


def test_one_value_has_all_its_own_reports_and_half_of_another_s():
    n, words = 100_000, some_words(9)
    for kind in KINDS:
        rows = some_rows(kind, n)
        reported = encode_signs(words, np.full(rows.size, 4), rows)
        support = count_sign_support(rows, reported, words)
        assert support[4] == rows.size
        if kind != "repeated":
            assert abs(np.delete(support, 4) - rows.size / 2).max() < 6 * rows.size**0.5 / 2


def test_threads_and_parts_change_nothing():
    words = some_words(33)
    for kind in ("consecutive", "scattered"):
        rows = some_rows(kind, 300_001)
        reported = some_signs(rows.size)
        whole = count_sign_support(rows, reported, words, threads=1)
        assert np.array_equal(whole, count_sign_support(rows, reported, words, threads=3))
        first = count_sign_support(rows[:77], reported[:77], words)
        assert np.array_equal(whole, first + count_sign_support(rows[77:], reported[77:], words))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": np.array([1, 2])}, "reported"),
        ({"rows": np.array([-1])}, "rows"),
        ({"reported": np.array([2])}, "reported"),
        ({"words": np.array([1])}, "words"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_reports_get_one_clear_error(change, message):
    arguments = {"rows": np.array([1]), "reported": np.array([1]), "words": np.array([5], np.uint64)}
    with pytest.raises(ValueError, match=message):
        count_sign_support(**(arguments | change))


def test_a_symbol_outside_the_words_is_refused():
    with pytest.raises(ValueError, match="symbols"):
        encode_signs(value_words(range(3)), np.array([3]), np.array([0]))
