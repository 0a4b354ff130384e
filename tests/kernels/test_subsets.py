import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels import devices
from overstory.kernels.devices import simulate_subsets
from overstory.protocol.encodings.sets import Subsets
from support.kernel_twins import Words

KEY = bytes(range(32))
ONE = 2**32


def twin(symbol, system, inside, device):
    """`Subsets._others`, written out over the words; a subset that holds the value leaves out the first draw."""
    d, words = system.domain_size, Words(KEY, b"subsets1", device, symbol)
    held = words.coin() < inside
    count, number = system.subset_size - held, 1 + held
    chosen = set()
    for last in range(d - 1 - count, d - 1):
        drawn = words.below(number, last + 1)
        chosen.add(last if drawn in chosen else drawn)
        number += 1
    return held << symbol | sum(1 << (d - 1 if other == symbol else other) for other in chosen)


def as_integers(reports):
    return [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in reports]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 200).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d - 1))),
    st.sampled_from([0, ONE, 1 << 31]),
    st.integers(0, 2**48 - 9),
)
def test_any_subset_equals_the_twin(shape, inside, first_device):
    symbols = np.array([0, shape[0] - 1, shape[0] // 2])
    got = as_integers(simulate_subsets(symbols, *shape, inside, KEY, first_device=first_device))
    own = [twin(int(symbol), Subsets(*shape), inside, first_device + row) for row, symbol in enumerate(symbols)]
    assert got == own
    assert all(report.bit_count() == shape[1] for report in got)


@pytest.mark.parametrize("shape", [(64, 17), (65, 20), (128, 34), (1000, 269)])
def test_tiles_equal_the_twin(shape, monkeypatch):
    monkeypatch.setattr(devices, "ROWS", 256)
    n, first_device = 523, ONE - 260
    symbols = np.random.default_rng(1).integers(0, shape[0], n).astype(np.int32)
    got = simulate_subsets(symbols, *shape, 1 << 31, KEY, first_device=first_device)
    assert got.shape == (n, -(-shape[0] // 64))
    integers = as_integers(got)
    for row in [0, 1, 255, 256, 259, 260, 300, 511, 512, n - 1]:
        assert integers[row] == twin(int(symbols[row]), Subsets(*shape), 1 << 31, first_device + row)


def test_rows_together_or_apart_change_nothing():
    symbols = np.random.default_rng(2).integers(0, 70, 3_001)

    def report(start, stop):
        return simulate_subsets(symbols[start:stop], 70, 20, 1 << 31, KEY, first_device=9 + start)

    whole = report(0, 3_001)
    assert np.array_equal(whole, np.concatenate([report(0, 1), report(1, 700), report(700, 3_001)]))
    assert simulate_subsets(symbols[:0], 70, 20, 0, KEY).shape == (0, 2)


def test_another_key_device_or_symbol_has_another_subset():
    def one(symbol=0, device=0, key=KEY):
        return as_integers(simulate_subsets(np.array([symbol]), 400, 100, 0, key, first_device=device))[0]

    assert len({one(), one(symbol=1), one(device=1), one(device=ONE), one(key=bytes(32))}) == 5


def deviation(counts, shape, symbol, inside):
    """Sigmas of chi-square over all subsets of the size; limit 8, as in test_symbols."""
    subsets = [b for b in range(1 << shape[0]) if b.bit_count() == shape[1]]
    total, own, _ = Subsets(*shape).sizes
    p = np.array([inside / own if b >> symbol & 1 else (1 - inside) / (total - own) for b in subsets])
    expected = p * counts.sum()
    statistic = ((counts[subsets] - expected) ** 2 / expected).sum()
    return (statistic - (total - 1)) / math.sqrt(2 * (total - 1))


@pytest.mark.parametrize(("shape", "symbol"), [((7, 3), 2), ((7, 3), 6), ((6, 4), 0)])
def test_every_subset_has_its_probability_and_a_wrong_one_is_caught(shape, symbol):
    n, inside = 200_000, 0.4
    reports = simulate_subsets(np.full(n, symbol), *shape, int(inside * ONE), KEY)[:, 0].astype(np.int64)
    counts = np.bincount(reports, minlength=1 << shape[0])
    assert abs(deviation(counts, shape, symbol, inside)) < 8
    other = (symbol + 1) % shape[0]
    assert abs(deviation(counts, shape, other, inside)) > 8
    # A member lost to another in one report in 100: "drawn before, so draw the next".
    broken = counts.copy()
    some = [b for b in range(1 << shape[0]) if b.bit_count() == shape[1]]
    moved = counts[some[0]] // 4
    broken[some[0]] -= moved
    broken[some[1]] += moved
    assert abs(deviation(broken, shape, symbol, inside)) > 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbols": np.array([5])}, "symbols"),
        ({"domain_size": 1}, "domain_size"),
        ({"subset_size": 0}, "subset_size"),
        ({"subset_size": 5}, "subset_size"),
        ({"inside": ONE + 1}, "inside"),
        ({"key": b"short"}, "32 bytes"),
        ({"first_device": 2**48}, "device"),
    ],
)
def test_bad_input_gets_one_clear_error(change, message):
    arguments = {"symbols": np.array([2]), "domain_size": 5, "subset_size": 2, "inside": 7, "key": KEY}
    with pytest.raises(ValueError, match=message):
        simulate_subsets(**(arguments | change))
