"""Unbiased, rightly uncertain, rarely wrong; and the same tests catch decoders that are not.

Every test here fails by chance with probability at most FALSE_ALARM, were the seeds not fixed.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from overstory.analysis.decoding import decode
from overstory.analysis.estimate import Estimate
from support.random_collections import FALSE_ALARM, P_STAR, Q_STAR, random_map, report, two_sided

SEEDS = 120
HELD = np.array([40_000, 20_000, 10_000, 3_000, 2_000, 1_000] + [0] * 14)


def collections(held: Any = HELD, seeds: Any = SEEDS, **shape: Any) -> Any:
    for seed in range(seeds):
        rng = np.random.default_rng((seed, 17))
        shelf = random_map(rng, held.size, **shape)
        yield report(rng, shelf, held), shelf


def run(decoder: Any, held: Any = HELD, seeds: Any = SEEDS, **shape: Any) -> Any:
    return [decoder(counts, shelf) for counts, shelf in collections(held, seeds, **shape)]


default = partial(decode, p_star=P_STAR, q_star=Q_STAR)
wrong_channel = partial(decode, p_star=P_STAR + 0.02, q_star=Q_STAR)


def overconfident(counts: Any, shelf: Any) -> Any:
    """A broken decoder: standard errors a tenth too small."""
    right = default(counts, shelf)
    return Estimate(
        values=right.values,
        counts=right.counts,
        raw_counts=right.raw_counts,
        standard_errors=0.9 * right.standard_errors,
        num_reports=right.num_reports,
    )


def clipped(counts: Any, shelf: Any) -> Any:
    """A broken decoder: reports the post-processed counts as if they were unbiased."""
    right = default(counts, shelf)
    return Estimate(
        values=right.values,
        counts=right.counts,
        raw_counts=right.counts,
        standard_errors=right.standard_errors,
        num_reports=right.num_reports,
    )


def bias_p_value(found: Any, held: Any = HELD) -> Any:
    """The smallest p-value, over all candidates, of a z test that raw estimates have the true mean."""
    errors = np.array([f.raw_counts - held for f in found])
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(found)))
    return float((2 * norm.sf(np.abs(z))).min() * held.size)


def coverage_p_value(found: Any, held: Any = HELD) -> Any:
    """The smallest p-value, over frequent, rare and absent strings, that 95% intervals cover 95%."""
    bounds = [f.confidence_interval(0.95) for f in found]
    inside = np.array([(low <= held) & (held <= high) for low, high in bounds])
    kinds = (held >= 5000, (held > 0) & (held < 5000), held == 0)
    return min(two_sided(inside[:, kind].sum(), inside[:, kind].size, 0.95) for kind in kinds)


@pytest.fixture(scope="module")
def found() -> Any:
    return run(default)


def test_raw_estimates_are_unbiased(found: Any) -> None:
    assert bias_p_value(found) > FALSE_ALARM


@pytest.mark.parametrize("broken", [wrong_channel, clipped])
def test_a_biased_decoder_is_caught(broken: Any) -> None:
    assert bias_p_value(run(broken)) < FALSE_ALARM


def test_intervals_cover(found: Any) -> None:
    assert coverage_p_value(found) > FALSE_ALARM


@pytest.mark.parametrize("broken", [wrong_channel, overconfident])
def test_wrong_intervals_are_caught(broken: Any) -> None:
    seeds = 4 * SEEDS if broken is overconfident else SEEDS
    assert coverage_p_value(run(broken, seeds=seeds)) < FALSE_ALARM


def test_intervals_cover_when_reports_are_nearly_clean() -> None:
    channel = {"p_star": 0.95, "q_star": 0.05}
    covered = []
    for seed in range(SEEDS):
        rng = np.random.default_rng((seed, 18))
        shelf = random_map(rng, HELD.size)
        low, high = decode(report(rng, shelf, HELD, **channel), shelf, **channel).confidence_interval(0.95)
        covered.extend(((low <= HELD) & (high >= HELD)).tolist())
    covered = np.array(covered)
    assert covered.mean() > 0.93


def test_the_complete_fit_is_unbiased_and_covers() -> None:
    declared = run(partial(default, complete=True))
    assert bias_p_value(declared) > FALSE_ALARM
    assert coverage_p_value(declared) > FALSE_ALARM


def test_pursuit_is_unbiased_and_covers() -> None:
    held = np.concatenate((5 * HELD[:3], np.zeros(397, int)))
    pursued = run(default, held, seeds=40)
    assert {f.method for f in pursued} == {"pursuit"}
    assert bias_p_value(pursued, held) > FALSE_ALARM
    bounds = [f.confidence_interval(0.95) for f in pursued]
    inside = np.array([(low <= held) & (held <= high) for low, high in bounds])
    assert 0.94 < inside.mean() < 0.965


def false_share(found: Any, held: Any = HELD) -> Any:
    return np.mean([(f.detected() & (held == 0)).sum() / max(1, f.detected().sum()) for f in found])


def careless(counts: Any, shelf: Any) -> Any:
    """A broken decoder: picks at z > 1.64, as if it looked at one candidate."""
    right = default(counts, shelf)
    return Estimate(
        values=right.values,
        counts=right.counts,
        raw_counts=np.where(right.z > 1.64, 9 * right.raw_counts, right.raw_counts),
        standard_errors=right.standard_errors,
        num_reports=right.num_reports,
    )


def test_false_discoveries_stay_under_their_rate(found: Any) -> None:
    # A false discovery proportion lies in 0 .. 1 and is mostly 0: its mean over seeds has a standard error below .012.
    assert false_share(found) < 0.05 + 0.03
    assert false_share(run(careless)) > 0.05 + 0.03


def test_missing_strings_do_not_become_false_discoveries() -> None:
    false, careless_false = [], []
    for counts, shelf in collections(np.concatenate((HELD, np.full(4, 6_000))), seeds=60, cohorts=16, bits=64):
        listed = shelf.take(np.arange(HELD.size))
        false.append(default(counts, listed))
        careless_false.append(partial(default, complete=True)(counts, listed))
    assert false_share(false) < 0.08
    assert false_share(careless_false) > false_share(false)


def test_the_lasso_finds_the_same_heavy_strings() -> None:
    for f in run(partial(default, method="lasso", correction="bonferroni"), seeds=10):
        assert f.detected()[:3].all()
