"""RAPPOR's simulated figures and tables: what the experiments compute, on pieces small enough to check."""

import math

import numpy as np
import pytest

from overstory.experiments.context import Context
from overstory.experiments.rappor import normal, parameters
from overstory.experiments.registry import EXPERIMENTS


def context(name):
    return Context(EXPERIMENTS[name])


def setting(k, h, m, recall):
    rates = {parameters.PAPERS: np.array([recall]), parameters.OURS: np.array([recall])}
    return parameters.Setting(k, h, m, rates, rates)


@pytest.mark.parametrize("num_hashes", parameters.HASHES)
def test_every_number_of_hashes_has_the_same_epsilon(num_hashes):
    mechanism = parameters.one_time(256, num_hashes, 8)
    assert mechanism.epsilon_report == pytest.approx(math.log(3), abs=1e-6)
    assert mechanism.epsilon_permanent == mechanism.epsilon_report


def test_a_level_is_preferred_when_it_is_best_nearly_everywhere():
    always = [setting(k, h, m, 1 / h) for k in (1, 2) for h in (2, 4) for m in range(5)]
    assert parameters.preferred(always, "h", parameters.PAPERS) == "2"
    mixed = [setting(k, h, m, (k + m) % 2) for k in (1, 2) for h in (2, 4) for m in range(5)]
    assert parameters.preferred(mixed, "k", parameters.PAPERS) == parameters.NONE


def test_fewer_hashes_find_more():
    one, four = (parameters._setting(context("rappor-figure-2"), (128, h, 8), 3) for h in (1, 4))
    for procedure in parameters.PROCEDURES:
        assert one.recall[procedure].mean() > four.recall[procedure].mean() + 0.1
        assert one.precision[procedure].mean() > 0.8


def test_words_follow_the_correlation():
    assert [normal.said(correlation) for correlation in (-0.2, 0.74, 0.75, 0.96, 0.97)] == [
        normal.WORDS[0],
        normal.WORDS[0],
        normal.WORDS[1],
        normal.WORDS[1],
        normal.WORDS[2],
    ]


def test_the_bell_is_the_law_of_what_is_drawn():
    oracle = normal.FrequencyOracle(normal.basic_rappor_one_time(domain_size=normal.VALUES, p=0.5, q=0.75))
    learned = normal._learn(oracle, 10**5, np.random.default_rng(1))
    expected = 1e5 * normal.bell()
    common = expected > 25
    chi_square = float((((learned.truth - expected) ** 2 / expected)[common]).sum())
    assert chi_square < common.sum() + 6 * math.sqrt(2 * common.sum())
    assert learned.error(learned.smoothed) < learned.error(learned.estimate.raw_counts)
