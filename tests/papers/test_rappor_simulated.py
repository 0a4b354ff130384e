"""RAPPOR's simulated figures and tables: what the experiments compute, on pieces small enough to check."""

import numpy as np
import pytest

from papers.rappor import figure_2, figure_5


def setting(k, h, m, recall):
    rates = {figure_2.PAPERS: np.array([recall]), figure_2.DEFAULT: np.array([recall])}
    return figure_2.Setting(k, h, m, rates, rates)


def test_a_level_is_preferred_when_it_is_best_nearly_everywhere():
    always = [setting(k, h, m, 1 / h) for k in (1, 2) for h in (2, 4) for m in range(5)]
    assert figure_2.preferred(always, "h", figure_2.PAPERS) == "2"
    mixed = [setting(k, h, m, (k + m) % 2) for k in (1, 2) for h in (2, 4) for m in range(5)]
    assert figure_2.preferred(mixed, "k", figure_2.PAPERS) == figure_2.NONE


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
