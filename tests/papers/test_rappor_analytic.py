"""RAPPOR's exact results; and its simulated figures and tables, on pieces small enough to check."""

import math
from dataclasses import replace

import numpy as np
import pytest

from overstory.files.rappor import RapporParameters
from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.kinds.rappor import rappor
from papers.rappor import averaging, collections, figure_2, figure_3, figure_5, figure_6
from papers.rappor.collections import collected
from papers.rappor.figure_1 import compare, live
from papers.run import EXPERIMENTS
from papers.study import Context


def run(name, **options):
    return EXPERIMENTS[name].run(Context(EXPERIMENTS[name], options=options))


def by_name(result):
    return {one.name: one for one in result.comparisons}


def test_the_spread_of_wide_filters_is_the_normal_one():
    mechanism = RapporParameters(k=4096, h=2, m=4, p=0.25, q=0.75, f=0.25).mechanism()
    bits = next(one for one in compare(mechanism, live(mechanism, "68", 1)) if one.name == "bits set in the report")
    rate = 0.25 + 0.125 / 2
    assert bits.ours == pytest.approx(4094 * rate + 2 * (0.75 - 0.125 / 2))
    assert bits.high - bits.low == pytest.approx(2 * 2.576 * math.sqrt(4096 * rate * (1 - rate)), abs=2)


def test_limits_rise_with_reports_and_never_pass_the_list():
    basic = figure_3._basic(100)
    for cardinality in figure_3.CARDINALITIES:
        found = [figure_3.limit(basic, 10.0**power, cardinality) for power in range(4, 12)]
        assert found == sorted(found)
        assert max(found) <= cardinality
        free = [x for x in found if x < cardinality]
        assert np.diff(np.log10(free)) == pytest.approx(0.5)


def test_figure_7_says_what_selecting_simulated_reports_gives():
    from overstory.analysis.oracle import FrequencyOracle
    from papers.rappor.attacker import false_discovery_rate

    mechanism = rappor(num_bits=128, num_hashes=2, num_cohorts=1, f=0.25)
    values, number = ["v", "w"], 200_000
    assert not mechanism.encode("v", 0) & mechanism.encode("w", 0)
    held = np.random.default_rng(1).random(number) >= 0.1
    batch = FrequencyOracle(mechanism).simulate(held.astype(int), np.random.default_rng(2), candidates=values)
    bits = [i for i in range(128) if mechanism.encode("v", 0) >> i & 1]
    chosen = np.all([batch.bits[:, i // 64] >> np.uint64(i % 64) & np.uint64(1) == 1 for i in bits], axis=0)
    rate, expected = held[chosen].mean(), false_discovery_rate(mechanism, 0.1)
    assert abs(rate - expected) < 6 * math.sqrt(expected * (1 - expected) / chosen.sum())


@pytest.mark.parametrize("memoized", [True, False])
def test_the_permanent_round_is_what_stops_averaging(memoized):
    kept = collected(0.5)
    afresh = averaging.on_grid(replace(kept, rounds=Rounds(BinaryChannel.identity(), kept.channel)))
    believed, moved = averaging._one_device(kept if memoized else afresh, 7)
    assert len(believed) == len(averaging.SEEN)
    if memoized:
        assert moved <= kept.epsilon_permanent + 1e-9
        assert believed[-1] == pytest.approx(believed[-2], rel=1e-3)
    else:
        assert afresh.epsilon_report == pytest.approx(kept.epsilon_report, abs=1e-8)
        assert moved > 50
        assert believed[-1] > 0.999


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
