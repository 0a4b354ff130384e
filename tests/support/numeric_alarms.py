"""Statistical tests of numeric estimates, each at a false-alarm rate of one in a million."""

import numpy as np
from scipy.stats import binom, chi2, norm

from overstory.audit.laws import FALSE_ALARM, Alarm


def _judge(surprise, what):
    if surprise < FALSE_ALARM:
        raise Alarm(f"{what}: p = {surprise:.1e}; a correct program raises this once in {1 / FALSE_ALARM:.0e} runs")


def check_cells(counts, chances):
    """Pearson's chi-square of counts against exact chances; an outcome of chance 0 must not occur."""
    counts, expected = np.asarray(counts), np.asarray(chances, float) * np.sum(counts)
    if counts[expected == 0].any():
        raise Alarm("an outcome that cannot occur")
    held = expected > 0
    assert expected[held].min() > 25, "too few for chi-square"
    statistic = ((counts[held] - expected[held]) ** 2 / expected[held]).sum()
    _judge(chi2.sf(statistic, held.sum() - 1), "shares of outcomes")


def check_unbiased(errors, variance):
    """The mean error of independent collections is within its own noise of 0."""
    z = np.mean(errors) / np.sqrt(np.mean(variance) / len(errors))
    _judge(2 * norm.sf(abs(z)), f"bias, z = {z:.1f}")


def check_spread(errors, variances):
    """The squared errors, each over its stated variance, are a chi-square."""
    statistic, size = (np.square(errors) / variances).sum(), len(errors)
    _judge(2 * min(chi2.cdf(statistic, size), chi2.sf(statistic, size)), f"variance off by {statistic / size:.3f}")


def check_coverage(covered, level=0.95, slack=0.015):
    """Intervals cover as often as they say, give or take `slack`."""
    hits, size = int(np.sum(covered)), len(covered)
    surprise = max(0.0, min(binom.cdf(hits, size, level - slack), 1.0)), binom.sf(hits - 1, size, level + slack)
    _judge(min(surprise), f"coverage {hits / size:.3f} of {level:.0%} intervals")
