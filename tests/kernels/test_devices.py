"""Simulated devices: which random word is whose, and that the words stay those of earlier versions.

That devices follow their channels is law 3 (`tests/contract/test_law3_rates.py`, in bulk).
"""

import hashlib
from itertools import pairwise

import numpy as np
import pytest

from overstory.analysis.support.sets import simulate_points
from overstory.kernels import devices
from overstory.kernels.devices import assign_cohorts, simulate_bits, simulate_subsets, simulate_symbols
from overstory.kernels.threads import at_most
from overstory.protocol.encodings.sets import Projective
from overstory.protocol.errors import ParameterError

KEY = bytes(range(32))
ONE = 2**32


def space(field_size, dimension):
    """The space all of whose points are values."""
    return Projective((field_size**dimension - 1) // (field_size - 1), field_size)


QUARTER = ((3 << 30, 1 << 30), (3 << 30, 1 << 31))  # f = .5, p = .5, q = .75
ODD = ((0xDEADBEEF, 0x23456789), (0x8BADF00D, 0x13456789))
TABLE = (np.arange(16 * 70 * 2) * 41 % 100).astype(np.uint16).reshape(16, 70, 2)

# Every simulation of devices that hold some symbols, in cohorts where there are any, as (symbols, cohorts, key, ...).
SIMULATED = {
    "bits": lambda s, c, key, **more: simulate_bits(TABLE, s, c, *QUARTER, key, num_bits=100, **more),
    "bits of odd thresholds": lambda s, c, key, **more: simulate_bits(TABLE, s, c, *ODD, key, num_bits=100, **more),
    "permanent bits": lambda s, c, key, **more: simulate_bits(TABLE, s, c, ODD[0], None, key, num_bits=100, **more),
    "symbols": lambda s, c, key, **more: simulate_symbols(s, c, 1 << 20, 1 << 30, 3 << 30, key, **more),
    "permanent symbols": lambda s, c, key, **more: simulate_symbols(s, c, 1 << 20, 0, None, key, **more),
    "subsets": lambda s, c, key, **more: simulate_subsets(s, 70, 20, 1 << 31, key, **more),
    "points": lambda s, c, key, **more: simulate_points(s, space(101, 4), 0, key, **more),
    "points over a power": lambda s, c, key, **more: simulate_points(s, space(8, 4), 1 << 31, key, **more),
    "cohorts": lambda s, c, key, **more: assign_cohorts(key, 1 << 31, len(s), **more),
}
# Each, but for cohorts, was equal to one device at a time in Python integers when it was written down.
KNOWN = {
    "bits": "4dedef995b6fbced",
    "bits of odd thresholds": "2b78816656583fb2",
    "permanent bits": "8852839838aa7190",
    "symbols": "f86d2e6beca8ed6d",
    "permanent symbols": "ef9641e27b2fccab",
    "subsets": "f244f1c94fbda724",
    "points": "8e6759e1f2e29f3c",
    "points over a power": "06b5a78c3da7ea92",
    "cohorts": "1a430c08561f5770",
}
each_simulation = pytest.mark.parametrize("simulate", SIMULATED.values(), ids=SIMULATED)


def holders(n):
    """Return as many devices' symbols and cohorts."""
    number = np.arange(n)
    return (number * 37 % 70).astype(np.int32), (number * 11 % 16).astype(np.uint16)


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_devices_are_those_of_the_version_that_this_was_written_with(name):
    drawn = SIMULATED[name](*holders(300), KEY, first_device=ONE - 160)
    assert hashlib.sha256(drawn.astype("<u8").tobytes()).hexdigest()[:16] == KNOWN[name]


@pytest.mark.parametrize("inside", [0, ONE])
def test_a_set_holds_the_value_never_or_always_where_the_threshold_says_so(inside):
    symbols, _ = holders(300)
    for size in (1, 20, 69):
        subsets = as_integers(simulate_subsets(symbols, 70, size, inside, KEY))
        assert all(subset.bit_count() == size and subset < 1 << 70 for subset in subsets)
        assert [subset >> symbol & 1 for subset, symbol in zip(subsets, symbols.tolist(), strict=True)] == [
            inside == ONE
        ] * 300
    for shape in ((2, 7), (3, 5), (59, 3), (101, 2), (4, 6), (9, 4), (27, 2)):
        system = space(*shape)
        held = symbols % system.domain_size
        points = simulate_points(held, system, inside, KEY).tolist()
        assert {system.contains(p, int(s)) for p, s in zip(points, held, strict=True)} == {inside == ONE}


def as_integers(reports):
    return [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in reports]


@each_simulation
def test_rows_together_or_apart_and_threads_change_nothing(simulate, monkeypatch):
    monkeypatch.setattr(devices, "ROWS", 256)
    symbols, cohorts = holders(2_061)
    with at_most(1):
        whole = simulate(symbols, cohorts, KEY, first_device=ONE - 260)
    with at_most(3):
        assert np.array_equal(whole, simulate(symbols, cohorts, KEY, first_device=ONE - 260))
    parts = [
        simulate(symbols[start:stop], cohorts[start:stop], KEY, first_device=ONE - 260 + start)
        for start, stop in pairwise([0, 0, 1, 255, 1_100, 2_061])
    ]
    assert np.array_equal(whole, np.concatenate(parts))


@each_simulation
def test_another_key_or_device_draws_anew(simulate):
    symbols, cohorts = holders(300)
    one, *others = (
        simulate(symbols, cohorts, key, first_device=first)
        for key, first in ((KEY, 0), (bytes(32), 0), (KEY, 1), (KEY, ONE))
    )
    assert all(np.mean(one == other) < 0.6 for other in others)  # of words of bits, and of numbers


def test_a_permanent_response_follows_from_symbol_and_cohort_and_a_fresh_one_from_the_reports_number():
    symbols, cohorts = holders(300)
    same = np.zeros((2, 2, 1), np.uint16)
    for make, fresh in (
        (lambda s, c, r, **more: simulate_bits(same, s % 2, c % 2, *r, KEY, num_bits=128, **more), (1 << 31, 1 << 31)),
        (lambda s, c, r, **more: simulate_symbols(s, c, 1 << 20, *r, KEY, **more), 0),
    ):
        permanent, instantaneous = (fresh, None), (None, fresh)
        one, other = make(symbols, cohorts, permanent), make(symbols, cohorts, instantaneous)
        assert np.array_equal(one, make(symbols, cohorts, permanent, report_index=9))
        assert np.mean(other == make(symbols, cohorts, instantaneous, report_index=9)) < 0.01
        assert np.mean(one == make(symbols, cohorts ^ np.uint16(1), permanent)) < 0.01
        assert np.array_equal(other, make(symbols, cohorts ^ np.uint16(1), instantaneous))
        assert np.mean(one == make(symbols ^ 1, cohorts, permanent)) < 0.01


@pytest.mark.parametrize("many", [16, 300, 1 << 16, 1 << 31])
def test_cohorts_are_uniform(many):
    drawn = assign_cohorts(KEY, many, 100_003)
    parts = np.bincount(drawn.astype(np.int64) * 16 // many, minlength=16)
    assert abs(parts - 100_003 / 16).max() < 6 * (100_003 / 16) ** 0.5
    assert not assign_cohorts(KEY, 1, 10).any()


BITS = {
    "positions": np.array([[[5]]]), "symbols": np.array([0]), "cohorts": np.array([0]), "permanent": None,
    "instantaneous": None, "key": KEY, "num_bits": 128,
}  # fmt: skip
SYMBOLS = {
    "symbols": np.array([2]), "cohorts": np.array([0]), "num_symbols": 3, "permanent": None, "instantaneous": None,
    "key": KEY,
}  # fmt: skip
SUBSETS = {"symbols": np.array([2]), "domain_size": 5, "subset_size": 2, "inside": 7, "key": KEY}
COHORTS = {"key": KEY, "num_cohorts": 16, "n": 1}


@pytest.mark.parametrize(
    ("simulate", "sound", "change", "message"),
    [
        (simulate_bits, BITS, {"positions": np.array([[[128]]])}, "positions"),
        (simulate_bits, BITS, {"symbols": np.array([1])}, "symbols"),
        (simulate_bits, BITS, {"symbols": np.array([-1])}, "symbols"),
        (simulate_bits, BITS, {"cohorts": np.array([1])}, "cohorts"),
        (simulate_bits, BITS, {"cohorts": np.array([0, 0])}, "cohorts"),
        (simulate_bits, BITS, {"permanent": (ONE + 1, 0)}, "thresholds"),
        (simulate_bits, BITS, {"permanent": (0, -1)}, "thresholds"),
        (simulate_bits, BITS, {"out": np.zeros((1, 3), np.uint64)}, "out"),
        (simulate_bits, BITS, {"report_index": ONE}, "report_index"),
        (simulate_symbols, SYMBOLS, {"symbols": np.array([3])}, "symbols"),
        (simulate_symbols, SYMBOLS, {"symbols": np.array([0.5])}, "symbols"),
        (simulate_symbols, SYMBOLS, {"cohorts": np.array([1, 2])}, "cohorts"),
        (simulate_symbols, SYMBOLS, {"cohorts": np.array([ONE])}, "cohorts"),
        (simulate_symbols, SYMBOLS, {"num_symbols": 0}, "num_symbols"),
        (simulate_symbols, SYMBOLS, {"permanent": ONE + 1}, "permanent"),
        (simulate_symbols, SYMBOLS, {"instantaneous": -1}, "instantaneous"),
        (simulate_symbols, SYMBOLS, {"report_index": ONE}, "report_index"),
        (simulate_subsets, SUBSETS, {"symbols": np.array([5])}, "symbols"),
        (simulate_subsets, SUBSETS, {"domain_size": 1}, "domain_size"),
        (simulate_subsets, SUBSETS, {"subset_size": 0}, "subset_size"),
        (simulate_subsets, SUBSETS, {"subset_size": 5}, "subset_size"),
        (simulate_subsets, SUBSETS, {"inside": ONE + 1}, "inside"),
        (assign_cohorts, COHORTS, {"num_cohorts": (1 << 31) + 1}, "num_cohorts"),
        *(
            (*simulation, change, message)
            for simulation in (
                (simulate_bits, BITS),
                (simulate_symbols, SYMBOLS),
                (simulate_subsets, SUBSETS),
                (assign_cohorts, COHORTS),
            )
            for change, message in (({"key": b"short"}, "32 bytes"), ({"first_device": 2**48}, "device"))
        ),
    ],
)
def test_bad_input_gets_one_clear_error(simulate, sound, change, message):
    with pytest.raises(ValueError, match=message):
        simulate(**(sound | change))


def test_a_space_of_too_many_points_is_refused():
    with pytest.raises(ParameterError, match=r"the space has \d+ points: .* up to 2\*\*32"):
        simulate_points(np.array([2]), Projective(1 << 31, 2039), 7, KEY)
