"""RAPPOR's simulated figures and tables: what the experiments compute, on pieces small enough to check."""

import math

import numpy as np
import pytest

from papers.rappor import figure_2, figure_4, figure_5, table_1
from papers.rappor.collections import collected
from papers.run import EXPERIMENTS
from papers.study import Context


def context(name):
    return Context(EXPERIMENTS[name])


def setting(k, h, m, recall):
    rates = {figure_2.PAPERS: np.array([recall]), figure_2.DEFAULT: np.array([recall])}
    return figure_2.Setting(k, h, m, rates, rates)


@pytest.mark.parametrize("num_hashes", figure_2.HASHES)
def test_every_number_of_hashes_has_the_same_epsilon(num_hashes):
    mechanism = figure_2.one_time(256, num_hashes, 8)
    assert mechanism.epsilon_report == pytest.approx(math.log(3), abs=1e-6)
    assert mechanism.epsilon_permanent == mechanism.epsilon_report


def test_a_level_is_preferred_when_it_is_best_nearly_everywhere():
    always = [setting(k, h, m, 1 / h) for k in (1, 2) for h in (2, 4) for m in range(5)]
    assert figure_2.preferred(always, "h", figure_2.PAPERS) == "2"
    mixed = [setting(k, h, m, (k + m) % 2) for k in (1, 2) for h in (2, 4) for m in range(5)]
    assert figure_2.preferred(mixed, "k", figure_2.PAPERS) == figure_2.NONE


def test_fewer_hashes_find_more():
    one, four = (figure_2._setting(context("rappor-figure-2"), (128, h, 8), 3) for h in (1, 4))
    for procedure in figure_2.PROCEDURES:
        assert one.recall[procedure].mean() > four.recall[procedure].mean() + 0.1
        assert one.precision[procedure].mean() > 0.8


def test_words_follow_the_correlation():
    assert [figure_4.in_words(correlation) for correlation in (-0.2, 0.74, 0.75, 0.96, 0.97)] == [
        figure_4.WORDS[0],
        figure_4.WORDS[0],
        figure_4.WORDS[1],
        figure_4.WORDS[1],
        figure_4.WORDS[2],
    ]


def test_the_bell_is_the_law_of_what_is_drawn():
    oracle = figure_4.FrequencyOracle(figure_4.basic_rappor_one_time(domain_size=figure_4.VALUES, p=0.5, q=0.75))
    learned = figure_4._learn(oracle, 10**5, np.random.default_rng(1))
    expected = 1e5 * figure_4.bell()
    common = expected > 25
    chi_square = float((((learned.truth - expected) ** 2 / expected)[common]).sum())
    assert chi_square < common.sum() + 6 * math.sqrt(2 * common.sum())
    assert learned.error(learned.smoothed) < learned.error(learned.estimate.raw_counts)


def decoding(true_z, false_z, bar):
    z = np.concatenate((np.asarray(true_z, float), np.asarray(false_z, float)))
    return figure_5.Decoding(z, z > bar)


def test_the_oracle_stops_before_one_false_detection_too_many():
    present = np.linspace(6, 0, figure_5.PRESENT)
    absent = np.concatenate(([3.0, 2.0, 1.0], np.full(figure_5.PRESENT - 3, -1.0)))
    one = decoding(present, absent, bar=2.5)
    assert (one.true, one.false) == (np.count_nonzero(present > 2.5), 1)
    assert [one.oracle(false) for false in (0, 1, 2)] == [np.count_nonzero(present > bar) for bar in (3, 2, 1)]
    false, true, share = figure_5.frontier([one])
    at = int(np.argmin(np.abs(figure_5.THRESHOLDS - 2.5)))
    assert (false[at], true[at]) == (1, one.true)
    assert share[at] == pytest.approx(1 / (1 + one.true))


def test_the_oracle_threshold_keeps_its_false_share():
    one = decoding(np.linspace(6, 0, 100), np.linspace(3, -3, 100), bar=2.5)
    true, false = figure_5.oracle_at([one])
    assert 0 < false / (true + false) <= figure_5.LEVEL
    nothing = figure_5.oracle_at([one], level=0.0)
    assert nothing[1] == 0
    assert nothing[0] <= true


def test_redesigned_parameters_stay_within_the_papers_epsilons():
    paper = collected(0.5)
    for bits in (128, 256):
        ours = figure_5.redesigned(bits)
        assert ours.epsilon_report <= paper.epsilon_report
        assert ours.epsilon_permanent <= paper.epsilon_permanent
        assert ours.epsilon_report == pytest.approx(paper.epsilon_report, abs=1e-6)


def test_estimates_of_table_1s_strings_have_the_spread_they_state():
    assert len(table_1.PRINTED) == 20
    found = [table_1._once(context("rappor-table-1"), number) for number in range(8)]
    counts, errors = (np.array([getattr(one, name) for one in found]) for name in ("counts", "errors"))
    expected = 1e6 * figure_5.exponential()[[string - 1 for string, *_ in table_1.PRINTED]]
    z = (counts - expected) / np.sqrt(errors**2 + expected)
    assert abs(z.mean()) < 5.5 / math.sqrt(z.size)
    assert 0.7 < z.std() < 1.3


def test_the_first_and_the_last_of_table_1_are_the_ones_named():
    assert [table_1.PRINTED[i][0] for i in (table_1.FIRST, table_1.LAST)] == [1, 21]
