"""RAPPOR's simulated figures and tables: what the experiments compute, on pieces small enough to check."""

import numpy as np
import pytest

from papers.rappor import collections, figure_2, figure_5, figure_6
from papers.rappor.collections import collected
from papers.run import EXPERIMENTS
from papers.study import Context


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


def found(detected, counts=None):
    counts = np.zeros(figure_6.HOMEPAGES) if counts is None else counts
    return figure_6.Found(np.zeros(figure_6.HOMEPAGES, int), {"rule": detected}, {"rule": counts}, {})


@pytest.mark.parametrize("limit", [0.003, 0.0045, 0.0071])
def test_the_limit_is_where_half_is_found(limit):
    rng = np.random.default_rng(1)
    shares = np.repeat(figure_6.PROBED, figure_6.EACH)
    seen = [shares + rng.normal(0, 0.0015, shares.size) > limit for _ in range(400)]
    rest = np.zeros(figure_6.HOMEPAGES - shares.size, bool)
    limits = [found(np.concatenate((one, rest))).limit("rule") for one in seen]
    assert np.mean(limits) == pytest.approx(limit, abs=6 * np.std(limits) / 20 + 2e-5)


def test_full_mode_sends_every_report_and_quick_mode_draws_their_counts(monkeypatch):
    monkeypatch.setattr(figure_6, "REPORTS", 50_000)
    mechanism, shares = collected(0.75, num_cohorts=32), figure_6.homepages()
    for quick in (True, False):
        context = Context(EXPERIMENTS["rappor-figure-6"], quick=quick)
        (drawn,) = figure_6._collections(context, mechanism, shares, [context.rng(1)], "")
        assert drawn.counts.num_reports == drawn.held.sum() == 50_000
        assert drawn.held[figure_6.HEAVY_HOMEPAGES : figure_6.HOMEPAGES].sum() == 0


@pytest.mark.parametrize("kind", collections.KINDS)
def test_machines_send_about_the_papers_reports_at_the_stated_shares(kind):
    sent = collections.KINDS[kind](np.random.default_rng(1))
    assert sent.times.sum() == pytest.approx(collections.REPORTS, rel=0.01)
    assert len(np.unique(sent.machines * len(collections.NAMES) + sent.names)) == sent.names.size
    held = np.bincount(sent.names, weights=sent.times) / sent.times.sum()
    assert held[: len(collections.PRINTED)] == pytest.approx(collections.shares()[: len(collections.PRINTED)], rel=0.12)


def test_a_machine_keeps_its_cohort_and_every_report_is_counted():
    mechanism = collected(0.5, num_cohorts=8)
    rng = np.random.default_rng(3)
    sent = collections.one_name(rng)
    drawn = collections.collect(mechanism, sent, rng)
    assert drawn.counts.num_reports == drawn.held.sum() == collections.REPORTS
    per_machine = np.bincount(sent.machines, weights=sent.times)
    # Cohorts of machines scatter as sums over machines do, far more than cohorts of reports would.
    scatter = np.sum((drawn.counts.totals - collections.REPORTS / 8) ** 2) / 7
    assert scatter / (np.sum(per_machine**2) / 8) == pytest.approx(1, abs=0.95)
    assert scatter > 5 * collections.REPORTS / 8
