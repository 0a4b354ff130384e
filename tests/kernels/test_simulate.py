import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.kernels.devices import ROWS, assign_cohorts, simulate_bits
from overstory.kernels.threads import at_most
from support.kernel_twins import simulate_one

KEY = bytes(range(32))
ONE = 2**32
QUARTER = ((3 << 30, 1 << 30), (3 << 30, 1 << 31))  # f = .5, p = .5, q = .75


def table(num_cohorts: int, num_symbols: int, num_hashes: int, num_bits: int) -> np.ndarray:
    rng = np.random.default_rng(num_bits)
    return rng.integers(0, num_bits, (num_cohorts, num_symbols, num_hashes)).astype(np.uint16)


def devices(n: int, num_symbols: int, num_cohorts: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.integers(0, num_symbols, n).astype(np.int32), rng.integers(0, num_cohorts, n).astype(np.uint16)


def as_integers(reports: np.ndarray) -> list[int]:
    return [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in reports]


def assert_equals_twin(positions, n, permanent, instantaneous, num_bits, first_device=0, report_index=0, rows=None):
    symbols, cohorts = devices(n, positions.shape[1], positions.shape[0])
    got = simulate_bits(
        positions,
        symbols,
        cohorts,
        permanent,
        instantaneous,
        KEY,
        num_bits=num_bits,
        first_device=first_device,
        report_index=report_index,
    )
    assert got.shape == (n, -(-num_bits // 64))
    integers = as_integers(got)
    for row in rows if rows is not None else range(n):
        expected = simulate_one(
            positions,
            int(symbols[row]),
            int(cohorts[row]),
            permanent,
            instantaneous,
            KEY,
            num_bits=num_bits,
            device=first_device + row,
            report_index=report_index,
        )
        assert integers[row] == expected, (row, num_bits)


thresholds = st.one_of(
    st.sampled_from([0, 1, 2, 1 << 31, 3 << 30, ONE - 1, ONE]),
    st.integers(0, ONE),
    st.integers(1, 32).flatmap(lambda digits: st.integers(0, 2**digits).map(lambda t: t << (32 - digits))),
)
channels = st.one_of(st.none(), st.tuples(thresholds, thresholds))


@settings(max_examples=40, deadline=None)
@given(channels, channels, st.integers(1, 700), st.integers(0, 2**40), st.integers(0, ONE - 1))
def test_any_channels_equal_the_twin(permanent, instantaneous, num_bits, first_device, report_index):
    positions = table(3, 5, 2, num_bits)
    assert_equals_twin(positions, 2, permanent, instantaneous, num_bits, first_device, report_index)


@pytest.mark.parametrize("num_bits", [8, 64, 65, 128, 192, 256, 512, 1000])
@pytest.mark.parametrize(
    "channels", [QUARTER, ((0xDEADBEEF, 0x23456789), (0x8BADF00D, 0x13456789)), ((ONE, 0), (0, ONE))]
)
def test_tiles_equal_the_twin(num_bits, channels):
    # Rows on both sides of a tile's border; what is decided early has been left out by then.
    rows, n = [0, 1, 155, 700, ROWS - 1, ROWS, ROWS + 9], ROWS + 10
    assert_equals_twin(table(2, 7, 2, num_bits), n, *channels, num_bits, first_device=100, rows=rows)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 255, 256, 257, 1023])
def test_identity_encodes(n):
    positions = np.arange(130, dtype=np.int32).reshape(1, 130, 1)
    symbols, cohorts = devices(n, 130, 1)
    got = simulate_bits(positions, symbols, cohorts, None, None, KEY, num_bits=130)
    assert as_integers(got) == [1 << int(symbol) for symbol in symbols]


@pytest.mark.parametrize("channels", [QUARTER, ((0xDEADBEEF, 0x23456789), (0x8BADF00D, 0x13456789))])
@pytest.mark.parametrize("num_bits", [60, 128, 200])
def test_rows_together_or_apart_and_threads_change_nothing(channels, num_bits):
    n = 3 * ROWS + 11
    positions = table(16, 100, 2, num_bits)
    symbols, cohorts = devices(n, 100, 16)
    with at_most(1):
        whole = simulate_bits(positions, symbols, cohorts, *channels, KEY, num_bits=num_bits, first_device=5)
    with at_most(3):
        threaded = simulate_bits(positions, symbols, cohorts, *channels, KEY, num_bits=num_bits, first_device=5)
    assert np.array_equal(whole, threaded)
    out = np.empty_like(whole)
    for start, stop in ((0, 1), (1, 300), (300, 11_000), (11_000, n)):
        part = slice(start, stop)
        simulate_bits(
            positions,
            symbols[part],
            cohorts[part],
            *channels,
            KEY,
            num_bits=num_bits,
            first_device=5 + start,
            out=out[part],
        )
    assert np.array_equal(whole, out)


def test_permanent_response_ignores_report_index_and_fresh_bits_do_not():
    positions = table(4, 10, 2, 128)
    symbols, cohorts = devices(2000, 10, 4)

    def reports(permanent, instantaneous, index):
        return simulate_bits(
            positions, symbols, cohorts, permanent, instantaneous, KEY, num_bits=128, report_index=index
        )

    permanent, instantaneous = QUARTER
    assert np.array_equal(reports(permanent, None, 0), reports(permanent, None, 9))
    assert (reports(permanent, instantaneous, 0) != reports(permanent, instantaneous, 9)).all(axis=1).all()
    assert (reports(None, instantaneous, 0) != reports(None, instantaneous, 9)).all(axis=1).all()


def test_another_key_device_symbol_or_cohort_has_other_permanent_bits():
    positions = np.zeros((2, 2, 1), dtype=np.uint16)
    zero = np.zeros(1, int)

    def report(key=KEY, device=0, symbol=0, cohort=0):
        bits = simulate_bits(
            positions, zero + symbol, zero + cohort, (1 << 31, 1 << 31), None, key, num_bits=128, first_device=device
        )
        return as_integers(bits)[0]

    others = [report(), report(bytes(32)), report(device=1), report(device=2**32), report(symbol=1), report(cohort=1)]
    assert len(set(others)) == len(others)
    assert (
        min((a ^ b).bit_count() for i, a in enumerate(others) for b in others[:i]) > 30
    )  # two of 128 fair bits: 64 +- 6


def test_every_bit_follows_its_channel():
    n = 100_000
    positions = np.array([[[3, 77]]], dtype=np.uint16)
    symbols, cohorts = np.zeros(n, np.int32), np.zeros(n, np.uint16)
    for keep_one, raise_zero in ((0xDEADBEEF, 0x23456789), (3 << 30, 1 << 29)):
        reports = simulate_bits(positions, symbols, cohorts, (keep_one, raise_zero), None, KEY, num_bits=128)
        bits = np.unpackbits(reports.view(np.uint8), axis=1, bitorder="little")
        rates = bits.mean(axis=0)
        for place in range(128):
            p = (keep_one if place in (3, 77) else raise_zero) / ONE
            assert abs(rates[place] - p) < 6 * (p * (1 - p) / n) ** 0.5  # fixed key: this cannot fail now and then


def test_cohorts():
    whole = assign_cohorts(KEY, 16, 100_003)
    assert np.array_equal(whole[777:], assign_cohorts(KEY, 16, 100_003 - 777, first_device=777))
    assert abs(np.bincount(whole, minlength=16) - 100_003 / 16).max() < 6 * (100_003 / 16) ** 0.5
    assert not assign_cohorts(KEY, 1, 10).any()
    assert assign_cohorts(KEY, 5, 0).size == 0
    assert assign_cohorts(KEY, 65536, 10_000).max() > 65_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": np.array([[[128]]])}, "positions"),
        ({"symbols": np.array([1])}, "symbols"),
        ({"symbols": np.array([-1])}, "symbols"),
        ({"cohorts": np.array([1])}, "cohorts"),
        ({"cohorts": np.array([0, 0])}, "cohorts"),
        ({"permanent": (ONE + 1, 0)}, "thresholds"),
        ({"permanent": (0, -1)}, "thresholds"),
        ({"key": b"short"}, "32 bytes"),
        ({"first_device": 2**48}, "device"),
        ({"report_index": ONE}, "report_index"),
        ({"out": np.zeros((1, 3), np.uint64)}, "out"),
    ],
)
def test_bad_input_gets_one_clear_error(change, message):
    arguments = {
        "positions": np.array([[[5]]]),
        "symbols": np.array([0]),
        "cohorts": np.array([0]),
        "permanent": None,
        "instantaneous": None,
        "key": KEY,
        "num_bits": 128,
    }
    with pytest.raises(ValueError, match=message):
        simulate_bits(**(arguments | change))
