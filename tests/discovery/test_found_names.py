"""Names that a search detected, as candidates of another metric on the same people: their estimates are not too high.

The second metric's noise is independent of the search. So a name that was detected because noise helped it has no
advantage there, while its estimate in the search is too high.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

import overstory
from overstory.discovery import CodedIntegers, find, prefix_extension, simulate

RUNS = 80
BOUND = 4.9
"""Standard errors that a mean of 40 runs or more is from 0 less than once in 10,000: the false alarms of each test."""
DEVICES = 3_000
SHARES = np.array([0.04] * 12 + [0.52])
"""Twelve names near the threshold of detection (detected about one time in four), and a frequent one."""


@cache
def departures() -> tuple[list[float], list[float], float]:
    """Return the mean departure of the detected names in each run, in standard errors.

    Of the second metric, and of the search itself; then how many of the twelve names are detected on average.
    """
    plan = prefix_extension(epsilon=2.0, domain=CodedIntegers(8), levels=(4, 8))
    second = overstory.oracle("rappor", num_bits=32, num_hashes=1, num_cohorts=8, f=0.1, p=0.25, q=0.75)
    names = np.arange(len(SHARES)) * 16 + 5
    later, own, detected = [], [], 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        held = rng.choice(len(SHARES), DEVICES, p=SHARES)
        discovered = find(plan, simulate(plan, names[held].astype(np.uint64), rng))
        place = {int(value): number for number, value in enumerate(discovered.raw_values)}
        found = [int(value) for value in discovered.found() if value in names[:-1]]
        detected += len(found)
        if not found:
            continue
        true = np.array([np.count_nonzero(names[held] == value) for value in found])
        candidates = [str(value) for value in names]
        counts = second.accumulate(second.simulate([candidates[number] for number in held], rng=rng))
        learned = second.estimate(counts, candidates)
        at = [candidates.index(str(value)) for value in found]
        later.append(float(np.mean((learned.raw_counts[at] - true) / learned.standard_errors[at])))
        rows = [place[value] for value in found]
        own.append(float(np.mean((discovered.counts[rows] - true) / discovered.standard_errors[rows])))
    return later, own, detected / RUNS / (len(SHARES) - 1)


def z_of(means: list[float]) -> float:
    return float(np.mean(means)) / (float(np.std(means, ddof=1)) / math.sqrt(len(means)))


def test_estimates_of_another_metric_are_unbiased_for_names_that_were_found() -> None:
    later, _, part = departures()
    assert 0.05 < part < 0.9, "the names are neither always nor never detected"
    assert len(later) >= 40
    assert abs(z_of(later)) < BOUND


def test_the_searchs_own_estimates_of_them_are_too_high() -> None:
    """The control: the same check rejects numbers that were chosen for being large."""
    _, own, _ = departures()
    assert z_of(own) > BOUND
