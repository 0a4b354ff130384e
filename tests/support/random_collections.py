"""Collections drawn at the level of counts, which is exact for one report per permanent response; and populations."""

from dataclasses import replace

import numpy as np

from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.reports import SupportCounts
from overstory.protocol.search import thresholds

P_STAR, Q_STAR = 0.75, 0.25
FALSE_ALARM = 1e-6  # of every statistical test here


def random_map(rng, candidates, *, cohorts=8, bits=32, hashes=2, distinct=True):
    """A map of an ideal hash family."""
    if distinct:
        positions = rng.random((cohorts, candidates, bits)).argsort(axis=2)[:, :, :hashes]
    else:
        positions = rng.integers(0, bits, (cohorts, candidates, hashes))
    return CandidateMap([f"v{i}" for i in range(candidates)], positions, bits)


def report(rng, shelf, held, p_star=P_STAR, q_star=Q_STAR):
    """Counts of people who hold ``held[s]`` times candidate s, each assigned to a cohort at random."""
    parts = np.stack([rng.multinomial(n, np.full(shelf.num_cohorts, 1 / shelf.num_cohorts)) for n in held])
    totals = parts.sum(axis=0)
    dense = shelf.dense().reshape(shelf.num_cohorts, shelf.num_bits, -1)
    truly = np.einsum("jis,sj->ji", dense, parts).round().astype(np.int64)
    ones = rng.binomial(truly, p_star) + rng.binomial(totals[:, None] - truly, q_star)
    return SupportCounts(totals, ones)


def two_sided(hits, trials, rate):
    """Binomial p-value of ``hits`` in ``trials`` under ``rate``."""
    from scipy.stats import binomtest

    return binomtest(int(hits), int(trials), rate).pvalue


def zipf(num_devices: int, num_values: int, seed: int, *, bits: int = 64, exponent: float = 1.1):
    """Devices whose values follow Zipf's law over random integers."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, num_values + 1) ** -exponent
    values = rng.integers(0, 1 << bits, num_values, dtype=np.uint64)
    return values[rng.choice(num_values, num_devices, p=weights / weights.sum())]


def with_shares(plan, shares):
    """Return a search's plan whose levels are asked of these shares of the users."""
    ends = zip(plan.questions, thresholds(shares), strict=True)
    return replace(plan, questions=tuple(replace(question, threshold=end) for question, end in ends))
