"""Pairs of collections from two populations, by every kind of oracle, and whether intervals cover as they should."""

import numpy as np
from scipy.stats import binom

import overstory
from overstory.analysis.decoding import decode
from support.random_collections import FALSE_ALARM, random_map, report

WEEKS = np.array([[0.45, 0.30, 0.20, 0.05, 0.0], [0.40, 0.35, 0.15, 0.10, 0.0]])  # true shares of two populations

ORACLES = {
    "a symbol": ("grr", {"domain_size": 5}),
    "one-hot bits": ("oue", {"domain_size": 5}),
    "a set": ("subset", {"domain_size": 5}),
    "signs": ("hadamard", {"domain_size": 5}),
    "hashes, balanced seeds": ("olh", {"domain_size": 5}),
    "hashes, fitted seeds": ("olh", {"domain_size": 5, "num_seeds": 64}),
    "hashes of strings": ("olh", {"num_seeds": 64}),
    "sampled bits": ("dbitflip", {"domain_size": 5, "sampled_bits": 3}),
}


def weekly(name, parameters, epsilon, people, pairs, seed):
    """Pairs of estimates: two weeks of different people from two populations."""
    oracle, rng = overstory.oracle(name, epsilon=epsilon, **parameters), np.random.default_rng(seed)
    names = [f"v{i}" for i in range(5)]
    strings = names if "domain_size" not in parameters else None
    for _ in range(pairs):
        weeks = []
        for shares in WEEKS:
            held = rng.choice(5, size=people, p=shares)
            counts = oracle.accumulate(oracle.simulate(held, rng, candidates=strings))
            weeks.append(oracle.estimate(counts, names))
        yield weeks


def decoded(hashes, epsilon, people, pairs, seed):
    """The same of Bloom filters: optimized bits, `hashes` of them for every string."""
    rng, q_star = np.random.default_rng(seed), 1 / (np.exp(epsilon / hashes) + 1)
    for _ in range(pairs):
        shelf, weeks = random_map(rng, 5, cohorts=4, bits=24, hashes=hashes), []
        for shares in WEEKS:
            counts = report(rng, shelf, rng.multinomial(people, shares), 0.5, q_star)
            weeks.append(decode(counts, shelf, p_star=0.5, q_star=q_star))
        yield weeks


def collections(kind, epsilon, people, pairs, seed=1):
    if kind in ORACLES:
        return weekly(*ORACLES[kind], epsilon, people, pairs, seed)
    return decoded(int(kind[-1]), epsilon, people, pairs, seed)


KINDS = [*ORACLES, "Bloom filters, h = 1", "Bloom filters, h = 2"]


def is_alarming(hits) -> bool:
    """Whether some value's coverage is surely outside 93.5% to 96.5%."""
    level, number = FALSE_ALARM / (2 * hits.shape[1]), hits.sum(axis=0)
    too_few = binom.cdf(number, len(hits), 0.935).min()
    too_many = binom.sf(number - 1, len(hits), 0.965).min()
    return min(too_few, too_many) < level
