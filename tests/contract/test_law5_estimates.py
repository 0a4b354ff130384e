"""Law 5: the raw estimate is unbiased, its standard error right, its 95% interval covers. (Bloom: tests/analysis.)"""

import numpy as np
import pytest

from overstory.analysis.estimate import debias
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.audit.laws import Alarm, estimate_is_unbiased
from support.contract_cases import DEBIASED_CASES, candidates_of, is_counted_by_seed
from support.contract_samples import check_coverage, check_spread

REPLICATIONS = 1500
DEVICES = 1000


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


def replicate(case):
    oracle = FrequencyOracle(case.build())
    values = candidates_of(oracle.mechanism, 8)
    shares = np.array([0.5, 0.3, 0.15, 0.04, 0.01])
    symbols = np.repeat(np.arange(5), np.rint(shares * DEVICES).astype(int))
    assert len(symbols) == DEVICES
    reports = oracle.simulate(np.tile(symbols, REPLICATIONS), np.random.default_rng(5), candidates=values)
    rows = (slice(i * DEVICES, (i + 1) * DEVICES) for i in range(REPLICATIONS))
    shape = reports.num_bits, reports.num_cohorts
    collections = (ReportBatch(reports.cohorts[r], reports.bits[r], *shape) for r in rows)
    estimates = [oracle.estimate(counted(oracle, one, values), values) for one in collections]
    return oracle, np.bincount(symbols, minlength=len(estimates[0])), estimates


def counted(oracle, reports, values):
    return oracle.accumulate(reports, None if is_counted_by_seed(oracle.mechanism) else values)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", DEBIASED_CASES, ids=str)
def test_standard_errors_and_coverage(case):
    oracle, truth, estimates = replicate(case)
    raw, errors = (np.array([getattr(e, name) for e in estimates]) for name in ("raw_counts", "standard_errors"))
    variances = np.array([oracle.variance(DEVICES, t / DEVICES) * DEVICES**2 for t in truth])
    check_coverage(truth, raw, errors)
    check_spread(raw, variances)
    lower, upper = estimates[0].confidence_interval(0.95)
    assert np.allclose((upper - lower) / 2, 1.959964 * errors[0], rtol=1e-6)
    assert (raw < 0).any() or min(truth) > 0, "the raw estimate is not clipped"
    with pytest.raises(Alarm):
        check_coverage(truth, raw, errors * 0.7)
    with pytest.raises(Alarm):
        check_spread(raw, variances * 0.6)
