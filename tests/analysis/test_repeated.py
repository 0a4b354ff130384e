"""Several reports of one device: Bloom filters decoded, and what is refused. (Closed forms: tests/contract.)"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import overstory
from overstory.analysis.decoding import decode
from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.decoding.decoder import cohort_balance
from overstory.analysis.reports import SupportCounts
from overstory.analysis.variance import Clustering, design_effect, reports_per_device
from overstory.protocol.errors import ParameterError
from support.random_collections import FALSE_ALARM, two_sided

SEEDS, REPEATS = 60, 12
HELD = np.array([700, 500, 300, 200, 150, 100, 50] + [0] * 9)
NAMES = [f"v{i}" for i in range(HELD.size)]
SHAPE = {"num_bits": 32, "num_hashes": 2, "num_cohorts": 8}
MEMOIZED = overstory.oracle("rappor", **SHAPE, f=0.3, p=0.25, q=0.75)
ONE_ROUND = overstory.oracle("rappor-one-time", **SHAPE, f=0.4)


def collections(oracle):
    symbols = np.repeat(np.arange(HELD.size), HELD)
    for seed in range(SEEDS):
        devices = oracle.devices(symbols, np.random.default_rng((seed, 23)), candidates=NAMES)
        counts = [oracle.accumulate(devices.report(i)) for i in range(REPEATS)]
        yield sum(counts[1:], counts[0])


@pytest.fixture(scope="module", params=[MEMOIZED, ONE_ROUND], ids=lambda oracle: oracle.name)
def read(request):
    """The collections, each read twice: with the devices' reports known to be several, and without."""
    found = list(collections(request.param))
    per_device = [request.param.estimate(counts, NAMES, reports_per_device=REPEATS) for counts in found]
    return per_device, [request.param.estimate(counts, NAMES) for counts in found]


def coverage_p_value(found, widening):
    """The smaller p-value, over present and absent strings, that 95% intervals cover 95%."""
    truth = HELD * REPEATS
    inside = np.array([np.abs(f.raw_counts - truth) <= 1.959964 * widening(f) * f.standard_errors for f in found])
    return min(two_sided(inside[:, kind].sum(), inside[:, kind].size, 0.95) for kind in (HELD > 0, HELD == 0))


def as_stated(_):
    return 1.0


def without_dispersion(estimate):
    """Undo the widening by residual dispersion: what the channel alone explains."""
    return 1 / np.sqrt(max(1.0, estimate.dispersion))


def test_intervals_cover_and_the_naive_ones_do_not(read):
    right, naive = read
    assert coverage_p_value(right, as_stated) > FALSE_ALARM
    assert coverage_p_value(naive, without_dispersion) < FALSE_ALARM


def test_residuals_are_explained(read):
    right, naive = read
    degrees = right[0].degrees_of_freedom
    mean = np.mean([f.dispersion for f in right])
    assert abs(mean - 1) < 5 * np.sqrt(2 / (degrees * SEEDS)) + 0.01
    assert np.mean([f.dispersion for f in naive]) > 1.4
    assert all(any("residuals vary" in note for note in f.notes) for f in naive)
    assert not any("residuals vary" in note for f in right for note in f.notes)


def test_the_estimate_itself_is_as_it_was(read):
    right, naive = read
    errors = np.array([f.raw_counts - HELD * REPEATS for f in right])
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(SEEDS))
    assert np.abs(z).max() < 6
    moved = [
        (np.abs(a.raw_counts - b.raw_counts) / a.standard_errors).max()
        for a, b in zip(right, naive, strict=True)
        if not any("set aside" in note for note in a.notes + b.notes)  # by chance, in one collection of a hundred
    ]
    assert len(moved) > 0.9 * SEEDS
    assert max(moved) < 0.5


def test_cohorts_are_judged_by_devices(read):
    right, naive = read
    assert not any("cohort sizes differ" in note for f in right for note in f.notes)
    assert [f.cohort_chi_square * REPEATS for f in right] == pytest.approx([f.cohort_chi_square for f in naive])
    assert cohort_balance(SupportCounts([60, 40], [[0], [0]]), 4)[0] == 1.0


def test_without_the_permanent_round_all_noise_is_taken_for_memoized():
    counts = next(collections(MEMOIZED))
    encoding, channel = MEMOIZED.mechanism.encoding, MEMOIZED.mechanism.channel
    positions = np.array([[encoding.positions(name, cohort) for name in NAMES] for cohort in range(8)])
    shelf = CandidateMap(NAMES, positions, encoding.num_bits)
    chances = {"p_star": float(channel.keep_one), "q_star": float(channel.raise_zero)}
    careful = decode(counts, shelf, **chances, reports_per_device=REPEATS)
    known = decode(counts, shelf, **chances, permanent=MEMOIZED.mechanism.rounds.permanent, reports_per_device=REPEATS)
    assert (careful.standard_errors > 1.5 * known.standard_errors).all()
    once = decode(counts, shelf, **chances)
    assert np.allclose(
        careful.standard_errors, np.sqrt(REPEATS) * once.standard_errors / once.dispersion**0.5, rtol=0.03
    )


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40))
def test_a_reports_device_sent_at_least_the_mean(numbers):
    found = reports_per_device(sum(numbers), sum(n * n for n in numbers))
    assert sum(numbers) / len(numbers) - 1e-9 <= found <= max(numbers)
    even = len(set(numbers)) == 1
    assert (found == pytest.approx(sum(numbers) / len(numbers), rel=1e-12)) == even, "only even numbers have it"


@pytest.mark.parametrize("number", [0, 0.5, -1, float("nan"), float("inf"), True])
def test_fewer_than_one_report_is_refused(number):
    with pytest.raises(ParameterError, match="at least 1"):
        Clustering(number)
    oracle = overstory.oracle("grr", domain_size=3, epsilon=1.0)
    with pytest.raises(ParameterError, match="at least 1"):
        oracle.estimate(SupportCounts([4], [[1, 1, 2]]), reports_per_device=number)
    with pytest.raises(ParameterError, match="at least 1"):
        MEMOIZED.estimate(SupportCounts.empty(8, 32), NAMES, reports_per_device=number)


@pytest.mark.parametrize(("total", "squares"), [(0, 0), (5, 4), (3, 10), (-1, 1)])
def test_sums_that_no_devices_have_are_refused(total, squares):
    with pytest.raises(ParameterError, match="no devices sent"):
        reports_per_device(total, squares)


def test_a_frequency_is_a_share():
    with pytest.raises(ParameterError, match="0 to 1"):
        design_effect(MEMOIZED.mechanism, 2.0, 1.5)
