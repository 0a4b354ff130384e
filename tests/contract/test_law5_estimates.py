"""Law 5: the raw estimate is unbiased, its standard error right, its 95% interval covers. (Bloom: tests/analysis.)

Of devices that report several times, simulated with their permanent responses kept, the standard error counts what
their reports share, and the naive one fails. Each statement is at the suite's false-alarm rate.
"""

import numpy as np
import pytest
from scipy.stats import chi2

from overstory.analysis.estimate import debias
from overstory.analysis.kinds.base import SimulatedDevices
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.analysis.variance import clustering, design_effect, reports_per_device
from overstory.audit.laws import LEVEL, Alarm, estimate_is_unbiased
from overstory.protocol.kinds.bits import BitMechanism
from support.contract_cases import DEBIASED_CASES, SMALL_CASES, candidates_of, is_counted_by_seed
from support.contract_samples import check_coverage, check_spread

REPLICATIONS = 1000


def own_numbers(mechanism, factor=1.0):
    """Debiasing by p* and q*, the first of them wrong by a factor."""
    p_star, q_star = float(mechanism.p_star) * factor, float(mechanism.q_star)
    return lambda counts: debias(counts, p_star, q_star, [str(i) for i in range(counts.num_bits)]).raw_counts[0]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", DEBIASED_CASES, ids=str)
def test_unbiased_by_enumeration(case):
    built = case.build()
    ours, rates = own_numbers(built), (built.p_star, built.q_star)  # `test_laws` has them from the channel
    estimate_is_unbiased(built, ours, rates)
    for broken in (lambda counts: max(0.0, ours(counts)), own_numbers(built, 0.99)):
        with pytest.raises(Alarm, match="the mean estimate is"):
            estimate_is_unbiased(built, broken, rates)


def population(oracle, held, replications=REPLICATIONS, values=6):
    """Devices of as many collections, of `values` candidates where strings must be named."""
    symbols = np.tile(held, replications)
    return oracle.devices(symbols, np.random.default_rng(11), candidates=candidates_of(oracle.mechanism, values))


def replicate(oracle, batches, size, per_device=1.0, sent=slice(None), values=6):
    """Estimate each collection from its own devices' reports (`sent` of them): estimates, raw counts and errors."""
    names, found = candidates_of(oracle.mechanism, values), []
    for start in range(0, len(batches[0]), size):
        cohorts, bits = (
            np.concatenate([getattr(b, column)[start : start + size] for b in batches])[sent]
            for column in ("cohorts", "bits")
        )
        reports = ReportBatch(cohorts, bits, batches[0].num_bits, batches[0].num_cohorts)
        counts = oracle.accumulate(reports, None if is_counted_by_seed(oracle.mechanism) else names)
        found.append(oracle.estimate(counts, names, reports_per_device=per_device))
    return found, np.array([f.raw_counts for f in found]), np.array([f.standard_errors for f in found])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", DEBIASED_CASES, ids=str)
def test_standard_errors_and_coverage(case):
    oracle, size = FrequencyOracle(case.build()), 1000
    held = np.repeat(np.arange(5), [500, 300, 150, 40, 10])
    estimates, raw, errors = replicate(oracle, [population(oracle, held, 1500, 8).report()], size, values=8)
    truth = np.bincount(held, minlength=raw.shape[1])
    variances = np.array([oracle.variance(size, t / size) * size**2 for t in truth])
    check_coverage(truth, raw, errors)
    check_spread(raw, variances)
    lower, upper = estimates[0].confidence_interval(0.95)
    assert np.allclose((upper - lower) / 2, 1.959964 * errors[0], rtol=1e-6)
    assert (raw < 0).any() or min(truth) > 0, "the raw estimate is not clipped"
    with pytest.raises(Alarm):
        check_coverage(truth, raw, errors * 0.7)
    with pytest.raises(Alarm):
        check_spread(raw, variances * 0.6)


DEVICES = 200
REPEATS = 10
SHARES = np.array([0.5, 0.3, 0.15, 0.05])
HELD = np.repeat(np.arange(4), np.rint(SHARES * DEVICES).astype(int))
UNEVEN = np.where(np.arange(DEVICES) % 2, 1, 19)  # 10 on average, and as many for every value


def expected_variances(oracle, per_device, size):
    reports, shares = DEVICES * REPEATS, np.pad(SHARES, (0, size - len(SHARES)))
    naive = np.array([oracle.variance(reports, x) * reports**2 for x in shares])
    return naive, naive * [design_effect(oracle.mechanism, per_device, x) for x in shares]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", DEBIASED_CASES, ids=str)
def test_what_reports_of_one_device_share_is_counted(case):
    oracle = FrequencyOracle(case.build())
    devices = population(oracle, HELD)
    _, raw, errors = replicate(oracle, [devices.report(i) for i in range(REPEATS)], DEVICES, REPEATS)
    truth = np.pad(SHARES * DEVICES * REPEATS, (0, raw.shape[1] - len(SHARES)))
    naive, right = expected_variances(oracle, REPEATS, raw.shape[1])
    check_spread(raw, right)
    check_coverage(truth, raw, errors, 0.93, 0.965)
    if isinstance(oracle.mechanism, BitMechanism) and oracle.mechanism.rounds.permanent.is_identity:
        assert np.array_equal(naive, right), "all noise is fresh: nothing is shared"
        assert not clustering(oracle.mechanism, REPEATS).note
    else:
        with pytest.raises(Alarm):
            check_spread(raw, naive)
    if (right / naive).max() > 2:
        with pytest.raises(Alarm):
            check_coverage(truth, raw, errors * np.sqrt(naive / right), 0.93, 0.965)


ONE_OF_EACH_KIND = [c for c in DEBIASED_CASES if c.name in {"l-osue", "loloha", "subset", "dbitflip", "l-grr"}]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", ONE_OF_EACH_KIND, ids=str)
def test_uneven_numbers_of_reports(case):
    oracle = FrequencyOracle(case.build())
    devices = population(oracle, HELD)
    per_device = reports_per_device(UNEVEN.sum(), (UNEVEN**2).sum())
    sent = np.concatenate([i < UNEVEN for i in range(UNEVEN.max())])
    batches = [devices.report(i) for i in range(UNEVEN.max())]
    _, raw, errors = replicate(oracle, batches, DEVICES, per_device, sent)
    truth = np.pad([UNEVEN[v == HELD].sum() for v in range(4)], (0, raw.shape[1] - 4))
    _, right = expected_variances(oracle, per_device, raw.shape[1])
    check_spread(raw, right)
    check_coverage(truth, raw, errors, 0.93, 0.965)
    _, as_if_even = expected_variances(oracle, UNEVEN.mean(), raw.shape[1])
    with pytest.raises(Alarm):
        check_spread(raw, as_if_even)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", ONE_OF_EACH_KIND, ids=str)
def test_the_bound_holds_when_values_change(case):
    """Half of a device's reports are of its neighbour's value."""
    oracle = FrequencyOracle(case.build())
    first = population(oracle, HELD)
    held = np.tile(np.roll(HELD, DEVICES // 2), REPLICATIONS).astype(np.int32)
    later = SimulatedDevices(first.mechanism, first.table, held, first.cohorts, first.key)
    batches = [(first if i % 2 else later).report(i) for i in range(REPEATS)]
    _, raw, _ = replicate(oracle, batches, DEVICES, REPEATS)
    naive, bound = expected_variances(oracle, REPEATS, raw.shape[1])
    statistic = ((raw - raw.mean(axis=0)) ** 2).sum(axis=0)
    assert chi2.sf(statistic / bound, REPLICATIONS - 1).min() > LEVEL
    assert chi2.sf(statistic / naive, REPLICATIONS - 1).min() < LEVEL, "what is shared is still there"


@pytest.mark.sampled(24)
@pytest.mark.parametrize("case", SMALL_CASES, ids=str)
def test_it_lies_between_all_fresh_and_all_memoized(case):
    mechanism = case.build()
    for frequency in (0.0, 0.3, 1.0):
        assert design_effect(mechanism, 1.0, frequency) == 1.0
        assert 1.0 <= design_effect(mechanism, 7.0, frequency) <= 7.0 * (1 + 1e-12)
    shared = clustering(mechanism, 7.0)
    p_star, q_star = float(mechanism.p_star), float(mechanism.q_star)
    own, other = shared.covariances
    assert 0 <= own <= p_star * (1 - p_star) * (1 + 1e-12)
    assert 0 <= other <= q_star * (1 - q_star) * (1 + 1e-12)
