"""Simulated devices: what a report depends on, and what not; that it follows its channel is law 3, in bulk."""

from itertools import pairwise

import numpy as np
import pytest

from overstory.analysis.kinds.base import support_of
from overstory.kernels import devices
from overstory.kernels.devices import StreamKey, assign_cohorts, simulate_bits, simulate_subsets, simulate_symbols
from overstory.kernels.threads import at_most
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism

KEY = bytes(range(32))
ZERO = StreamKey(KEY)
ONE = 2**32
POINTS = support_of(mechanism("projective", domain_size=9000, epsilon=1.0))
QUARTER = ((3 << 30, 1 << 30), (3 << 30, 1 << 31))  # f = .5, p = .5, q = .75
ODD = ((0xDEADBEEF, 0x23456789), (0x8BADF00D, 0x13456789))
TABLE = np.random.default_rng(7).integers(0, 100, (16, 70, 2)).astype(np.uint16)

# Every simulation of devices that hold some symbols, in cohorts where there are any, as (symbols, cohorts, stream).
SIMULATED = {
    "bits": lambda s, c, stream: simulate_bits(TABLE, s, c, *QUARTER, stream, num_bits=100),
    "bits of odd thresholds": lambda s, c, stream: simulate_bits(TABLE, s, c, *ODD, stream, num_bits=100),
    "permanent bits": lambda s, c, stream: simulate_bits(TABLE, s, c, ODD[0], None, stream, num_bits=100),
    "symbols": lambda s, c, stream: simulate_symbols(s, c, 1 << 20, 1 << 30, 3 << 30, stream),
    "permanent symbols": lambda s, c, stream: simulate_symbols(s, c, 1 << 20, 0, None, stream),
    "subsets": lambda s, c, stream: simulate_subsets(s, 70, 20, 1 << 31, stream),
    "points": lambda s, c, stream: POINTS.respond(np.arange(70), s, c, stream)[:, 0],
    "cohorts": lambda s, c, stream: assign_cohorts(stream, 1 << 31, len(s)),
}
each_simulation = pytest.mark.parametrize("simulate", SIMULATED.values(), ids=SIMULATED)


def holders(n):
    rng = np.random.default_rng(n)
    return rng.integers(0, 70, n).astype(np.int32), rng.integers(0, 16, n).astype(np.uint16)


@each_simulation
def test_rows_together_or_apart_and_threads_change_nothing(simulate, monkeypatch):
    monkeypatch.setattr(devices, "ROWS", 256)
    symbols, cohorts = holders(2_061)
    with at_most(1):
        whole = simulate(symbols, cohorts, StreamKey(KEY, ONE - 260))
    with at_most(3):
        assert np.array_equal(whole, simulate(symbols, cohorts, StreamKey(KEY, ONE - 260)))
    parts = [
        simulate(symbols[start:stop], cohorts[start:stop], StreamKey(KEY, ONE - 260 + start))
        for start, stop in pairwise([0, 0, 1, 255, 1_100, 2_061])
    ]
    assert np.array_equal(whole, np.concatenate(parts))


@each_simulation
def test_another_key_or_device_draws_anew(simulate):
    symbols, cohorts = holders(300)
    one, *others = (
        simulate(symbols, cohorts, StreamKey(key, first))
        for key, first in ((KEY, 0), (bytes(32), 0), (KEY, 1), (KEY, ONE))
    )
    assert all(np.mean(one == other) < 0.6 for other in others)  # of words of bits, and of numbers


def test_a_permanent_response_follows_from_symbol_and_cohort_and_a_fresh_one_from_the_reports_number():
    symbols, cohorts = holders(300)
    same = np.zeros((2, 2, 1), np.uint16)
    for make, fresh in (
        (lambda s, c, r, at=ZERO: simulate_bits(same, s % 2, c % 2, *r, at, num_bits=128), (1 << 31, 1 << 31)),
        (lambda s, c, r, at=ZERO: simulate_symbols(s, c, 1 << 20, *r, at), 0),
    ):
        permanent, instantaneous = (fresh, None), (None, fresh)
        one, other = make(symbols, cohorts, permanent), make(symbols, cohorts, instantaneous)
        assert np.array_equal(one, make(symbols, cohorts, permanent, at=StreamKey(KEY, report_index=9)))
        assert np.mean(other == make(symbols, cohorts, instantaneous, at=StreamKey(KEY, report_index=9))) < 0.01
        assert np.mean(one == make(symbols, cohorts ^ np.uint16(1), permanent)) < 0.01
        assert np.array_equal(other, make(symbols, cohorts ^ np.uint16(1), instantaneous))
        assert np.mean(one == make(symbols ^ 1, cohorts, permanent)) < 0.01


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"key": b"short"}, "32 bytes"), ({"report_index": ONE}, "report_index"), ({"first_device": -1}, "first device")],
)
def test_what_is_no_stream_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        StreamKey(**({"key": KEY} | wrong))


def test_a_space_of_too_many_points_is_refused():
    huge = support_of(mechanism("projective", domain_size=1 << 31, epsilon=7.6))
    with pytest.raises(ParameterError, match=r"there are \d+ outputs: .* up to 2\*\*32"):
        huge.respond(np.array([2]), np.array([0]), np.array([0], np.uint16), StreamKey(KEY))
