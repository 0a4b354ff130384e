"""Law 5 for devices that report several times: the standard error counts what their reports share; the naive one fails.

The registry's devices, simulated with their permanent responses kept; each statement at the suite's false-alarm rate.
"""

import numpy as np
import pytest
from scipy.stats import chi2

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.analysis.variance import clustering, design_effect, reports_per_device
from overstory.audit.laws import LEVEL, Alarm
from overstory.protocol.kinds.bits import BitMechanism
from support.contract_cases import DEBIASED_CASES, SMALL_CASES, candidates_of, is_counted_by_seed
from support.contract_samples import check_coverage, check_spread

REPLICATIONS = 1000
DEVICES = 200
REPEATS = 10
SHARES = np.array([0.5, 0.3, 0.15, 0.05])
HELD = np.repeat(np.arange(4), np.rint(SHARES * DEVICES).astype(int))
UNEVEN = np.where(np.arange(DEVICES) % 2, 1, 19)  # 10 on average, and as many for every value


def population(oracle):
    return oracle.devices(
        np.tile(HELD, REPLICATIONS), np.random.default_rng(11), candidates=candidates_of(oracle.mechanism, 6)
    )


def replicate(oracle, batches, per_device, sent=slice(None)):
    """Estimate each collection from its own devices' reports (`sent` of them): raw counts and errors, row by row."""
    found = []
    for i in range(REPLICATIONS):
        own = slice(i * DEVICES, (i + 1) * DEVICES)
        cohorts, bits = (
            np.concatenate([getattr(b, column)[own] for b in batches])[sent] for column in ("cohorts", "bits")
        )
        reports = ReportBatch(cohorts, bits, batches[0].num_bits, batches[0].num_cohorts)
        names = candidates_of(oracle.mechanism, 6)
        counts = oracle.accumulate(reports, None if is_counted_by_seed(oracle.mechanism) else names)
        found.append(oracle.estimate(counts, names, reports_per_device=per_device))
    return np.array([f.raw_counts for f in found]), np.array([f.standard_errors for f in found])


def expected_variances(oracle, per_device, size):
    reports, shares = DEVICES * REPEATS, np.pad(SHARES, (0, size - len(SHARES)))
    naive = np.array([oracle.variance(reports, x) * reports**2 for x in shares])
    return naive, naive * [design_effect(oracle.mechanism, per_device, x) for x in shares]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", DEBIASED_CASES, ids=str)
def test_what_reports_of_one_device_share_is_counted(case):
    oracle = FrequencyOracle(case.build())
    devices = population(oracle)
    raw, errors = replicate(oracle, [devices.report(i) for i in range(REPEATS)], REPEATS)
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
    devices = population(oracle)
    per_device = reports_per_device(UNEVEN.sum(), (UNEVEN**2).sum())
    sent = np.concatenate([i < UNEVEN for i in range(UNEVEN.max())])
    raw, errors = replicate(oracle, [devices.report(i) for i in range(UNEVEN.max())], per_device, sent)
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
    first = population(oracle)
    held = np.tile(np.roll(HELD, DEVICES // 2), REPLICATIONS).astype(np.int32)
    later = SimulatedDevices(first.mechanism, first.table, held, first.cohorts, first.key)
    batches = [(first if i % 2 else later).report(i) for i in range(REPEATS)]
    raw, _ = replicate(oracle, batches, REPEATS)
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
    assert 0 <= shared.own <= p_star * (1 - p_star) * (1 + 1e-12)
    assert 0 <= shared.other <= q_star * (1 - q_star) * (1 + 1e-12)
