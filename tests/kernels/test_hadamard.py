import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.small_hashes import encode_hadamard
from overstory.kernels.symbols.transforms import count_hadamard_support
from overstory.protocol.encodings.symbols import HadamardRow


def twin_support(rows, reported, domain_size):
    encoding = HadamardRow(domain_size)
    pairs = list(zip(rows.tolist(), reported.tolist(), strict=True))
    return [sum(encoding.symbol(value, row) == sign for row, sign in pairs) for value in range(domain_size)]


def reports(n, domain_size):
    rng = np.random.default_rng(n)
    return rng.integers(0, HadamardRow(domain_size).num_cohorts, n).astype(np.uint32), rng.integers(0, 2, n)


@pytest.mark.parametrize("domain_size", [2, 3, 64, 1000, 2**31])
def test_signs_are_the_device_s(domain_size):
    rng, encoding = np.random.default_rng(1), HadamardRow(domain_size)
    symbols, rows = rng.integers(0, domain_size, 50), rng.integers(0, encoding.num_cohorts, 50)
    got = encode_hadamard(symbols, rows)
    assert got.dtype == np.uint32
    assert got.tolist() == [encoding.symbol(int(s), int(r)) for s, r in zip(symbols, rows, strict=True)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(2, 70))
def test_any_support_equals_the_twin(n, domain_size):
    rows, reported = reports(n, domain_size)
    got = count_hadamard_support(rows, reported, domain_size)
    assert got.dtype == np.int64
    assert got.tolist() == twin_support(rows, reported, domain_size)


@pytest.mark.parametrize("domain_size", [1023, 1024, 1025])
def test_larger_orders_equal_the_twin(domain_size):
    rows, reported = reports(300, domain_size)
    assert count_hadamard_support(rows, reported, domain_size).tolist() == twin_support(rows, reported, domain_size)


def test_a_value_seen_in_every_row_has_all_reports_and_every_other_half():
    symbols, rows = np.full(512, 37), np.arange(512)
    support = count_hadamard_support(rows, encode_hadamard(symbols, rows), 300)
    assert support[37] == 512
    assert (np.delete(support, 37) == 256).all()


def test_parts_add_up():
    rows, reported = reports(20_001, 100)
    whole = count_hadamard_support(rows, reported, 100)
    first = count_hadamard_support(rows[:7], reported[:7], 100)
    assert np.array_equal(whole, first + count_hadamard_support(rows[7:], reported[7:], 100))


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
def test_bad_reports_get_one_clear_error(rows, reported, domain_size, message):
    with pytest.raises(ValueError, match=message):
        count_hadamard_support(np.array(rows), np.array(reported), domain_size)


def test_columns_of_two_lengths_are_refused():
    with pytest.raises(ValueError, match="rows"):
        encode_hadamard(np.array([1, 2]), np.array([1]))
