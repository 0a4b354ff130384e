from itertools import pairwise

import numpy as np
import pytest

from overstory.kernels.devices import ROWS, assign_cohorts, assign_seeds, simulate_symbols
from overstory.kernels.threads import at_most
from support.kernel_twins import Words

KEY = bytes(range(32))
ONE = 2**32


def twin(symbol, cohort, size, permanent, instantaneous, device, index):
    purposes = ((permanent, b"symperm1", (cohort, symbol)), (instantaneous, b"syminst1", (index,)))
    for alpha, domain, names in purposes:
        words = Words(KEY, domain, device, *names)
        if alpha is not None and words.coin() >= alpha:
            symbol = words.below(1, size)
    return symbol


def devices(n, size):
    rng = np.random.default_rng(n)
    return rng.integers(0, size, n).astype(np.int32), rng.integers(0, ONE, n).astype(np.uint32)


@pytest.mark.parametrize("channels", [(None, None), (0, None), (ONE, 0), (1 << 30, 0xDEADBEEF), (None, 1), (0, ONE)])
@pytest.mark.parametrize(("size", "first_device", "index"), [(2, 0, 0), (100, 1000, 7), (2**31, 2**32 - 300, ONE - 1)])
def test_equals_the_twin(channels, size, first_device, index):
    n = 1_283
    symbols, cohorts = devices(n, size)
    got = simulate_symbols(symbols, cohorts, size, *channels, KEY, first_device=first_device, report_index=index)
    assert got.dtype == np.uint32
    for row in [0, 1, 255, 256, 257, 299, 300, 301, *range(500, n, 97), n - 1]:
        own = int(symbols[row]), int(cohorts[row])
        assert got[row] == twin(*own, size, *channels, first_device + row, index), row


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257])
def test_any_number_of_devices(n):
    symbols, cohorts = devices(n, 5)
    got = simulate_symbols(symbols, cohorts, 5, 1 << 31, 1 << 31, KEY)
    pairs = zip(symbols.tolist(), cohorts.tolist(), strict=True)
    assert got.tolist() == [twin(*own, 5, 1 << 31, 1 << 31, row, 0) for row, own in enumerate(pairs)]


def test_rows_together_or_apart_and_threads_change_nothing():
    n = 3 * ROWS + 11
    symbols, cohorts = devices(n, 1000)

    def report(start, stop, threads):
        rows = slice(start, stop)
        with at_most(threads):
            return simulate_symbols(symbols[rows], cohorts[rows], 1000, 1 << 30, 3 << 30, KEY, first_device=5 + start)

    whole = report(0, n, 1)
    assert np.array_equal(whole, report(0, n, 3))
    cuts = [0, 1, 300, 11_000, n]
    assert np.array_equal(whole, np.concatenate([report(a, b, None) for a, b in pairwise(cuts)]))


def test_what_each_channel_depends_on():
    n = 2_000
    symbols, cohorts = devices(n, 1 << 20)

    def differ(permanent, instantaneous, *, index=0, cohort=0, first_device=0, key=KEY):
        a = simulate_symbols(symbols, cohorts, 1 << 20, permanent, instantaneous, KEY)
        b = simulate_symbols(
            symbols,
            cohorts ^ np.uint32(cohort),
            1 << 20,
            permanent,
            instantaneous,
            key,
            first_device=first_device,
            report_index=index,
        )
        return np.mean(a != b)

    assert differ(0, None, index=9) == 0
    assert differ(None, 0, cohort=1) == 0
    changes = [{"index": 9}, {"first_device": 1}, {"first_device": 1 << 32}, {"key": bytes(32)}]
    assert min(differ(None, 0, **change) for change in changes) > 0.99
    assert min(differ(0, None, **change) for change in [{"cohort": 1}, *changes[1:]]) > 0.99


def chi_square(observed, expected):
    """Sigmas above the mean; the limit 8 is about a false alarm of 1e-6 with 10 degrees of freedom."""
    statistic, freedom = ((observed - expected) ** 2 / expected).sum(), observed.size - 1
    return (statistic - freedom) / (2 * freedom) ** 0.5


@pytest.mark.parametrize("channels", [(1 << 31, None), (None, 1 << 31), (3 << 30, 3 << 30)])
def test_every_symbol_follows_the_channel_and_a_wrong_one_is_caught(channels):
    n, size = 200_000, 11
    alpha = np.prod([c / ONE for c in channels if c is not None])
    reported = simulate_symbols(np.full(n, 4), np.zeros(n, np.uint32), size, *channels, KEY)
    observed = np.bincount(reported, minlength=size)
    uniform = np.full(size, (1 - alpha) / size)
    kept = np.eye(size)[4] * alpha
    assert abs(chi_square(observed, n * (uniform + kept))) < 8
    among_others = (1 - alpha) * (1 - np.eye(size)[4]) / (size - 1)  # "keep, or any *other*": a common mistake
    assert chi_square(observed, n * (kept + among_others + 1e-9)) > 8


def test_the_two_channels_are_independent():
    n = 100_000
    zeros = np.zeros(n, np.uint32)
    memoized = simulate_symbols(zeros, zeros, 2, 0, None, KEY)
    fresh = simulate_symbols(zeros, zeros, 2, None, 0, KEY)
    again = simulate_symbols(zeros, zeros, 2, None, 0, KEY, report_index=1)
    for a, b in ((memoized, fresh), (fresh, again)):
        assert abs(np.mean(a ^ b) - 0.5) < 5 * 0.5 / n**0.5


def test_seeds():
    whole = assign_seeds(KEY, 1 << 31, 40_003)
    assert np.array_equal(whole[777:], assign_seeds(KEY, 1 << 31, 40_003 - 777, first_device=777))
    assert np.unique(whole).size > 40_003 - 10
    assert abs(np.bincount(whole >> 27, minlength=16) - 40_003 / 16).max() < 6 * (40_003 / 16) ** 0.5
    assert np.array_equal(assign_seeds(KEY, 300, 1000), assign_cohorts(KEY, 300, 1000))
    assert assign_seeds(KEY, 5, 0).size == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbols": np.array([3])}, "symbols"),
        ({"symbols": np.array([-1])}, "symbols"),
        ({"symbols": np.array([0.5])}, "symbols"),
        ({"cohorts": np.array([1, 2])}, "cohorts"),
        ({"cohorts": np.array([ONE])}, "cohorts"),
        ({"num_symbols": 0}, "num_symbols"),
        ({"permanent": ONE + 1}, "permanent"),
        ({"instantaneous": -1}, "instantaneous"),
        ({"key": b"short"}, "32 bytes"),
        ({"first_device": 2**48}, "device"),
        ({"report_index": ONE}, "report_index"),
    ],
)
def test_bad_input_gets_one_clear_error(change, message):
    arguments = {
        "symbols": np.array([2]),
        "cohorts": np.array([0]),
        "num_symbols": 3,
        "permanent": None,
        "instantaneous": None,
        "key": KEY,
    }
    with pytest.raises(ValueError, match=message):
        simulate_symbols(**(arguments | change))
