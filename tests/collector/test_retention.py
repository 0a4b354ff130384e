"""What stays past retention: counts of which no report can be read, and estimates that are as right as before.

Statistical tests fail by chance with probability `LEVEL` each at most.
"""

import random

import numpy as np
import pytest
from scipy.stats import binom
from sqlalchemy import select

import overstory
from overstory.analysis.kinds.base import SimulatedDevices
from overstory.analysis.reports import SupportCounts
from overstory.collector.store import open_store, upkeep
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.counts import unpack_counts
from overstory.collector.store.schema import COUNTS
from overstory.collector.store.upkeep import without_few
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric import FEWEST_TOGETHER
from overstory.queries.counts import PeriodCounts, read_store
from overstory.queries.readings import read
from support.registry_texts import STRINGS, registry_of
from support.store_samples import ABOUT, DAY, NOW, received, received_batch, reports
from support.store_samples import registry as samples

PERIOD = 20_000
LATER = NOW + 1000 * DAY
LEVEL = 1e-4

VALUES = 300
GROUPS = '{by = "release", shares = {a = 0.5, b = 0.3}, devices = 9000}'
NUMBERS = f'{{kind = "integers", min = 0, max = {VALUES - 1}}}'
TABLES = (
    '{kind = "table", names = ["x", "y", "z"], tables = [["x", "y"], ["y", "z"]], of = ['
    + ", ".join(['{kind = "integers", min = 0, max = 9}'] * 3)
    + "]}"
)
RAPPOR = "num_bits = 16, num_hashes = 1, num_cohorts = 32"
ORACLES = {  # every one whose reports have a cohort, seed or row, and one of which none has
    "olh": (NUMBERS, "{epsilon = 2.0, num_seeds = 1024}"),
    "blh": (NUMBERS, "{epsilon = 2.0}"),
    "random-matrix": (NUMBERS, "{epsilon = 2.0}"),
    "loloha": (NUMBERS, "{epsilon_permanent = 3.0, epsilon_report = 2.0}"),
    "hadamard": (NUMBERS, "{epsilon = 2.0}"),
    "linear-hash": (NUMBERS, "{epsilon = 2.0}"),
    "dbitflip": (NUMBERS, "{epsilon = 2.0}"),
    "ranges": (NUMBERS, "{epsilon = 2.0}"),
    "rappor": (STRINGS, f"{{{RAPPOR}, f = 0.2, p = 0.3, q = 0.8}}"),
    "divided": (TABLES, '{oracle = "grr", epsilon = 2.0}'),
    "grr": (NUMBERS, "{epsilon = 2.0}"),
}


def registry(*oracles):
    metrics = {
        name: {"domain": ORACLES[name][0], "oracle": f'"{name}"', "parameters": ORACLES[name][1], "groups": GROUPS}
        for name in oracles
    }
    return parse_registry(registry_of(metrics, **ABOUT, retention_days="90"))


def add_devices(store, metric, period, devices, group=""):
    rng = np.random.default_rng([period, devices])
    values = list(range(metric.num_values)) if metric.num_values else ["u", "v"]
    held = rng.integers(len(values), size=devices)
    sent = SimulatedDevices.holding(metric.mechanism, values, held, rng).report()
    store.add([received_batch(metric, period, sent)._replace(group=group)])


def raw_counts(store):
    with store._database.snapshot() as connection:
        rows = connection.execute(select(COUNTS)).all()
    return {(row.period, row.device_group): (unpack_counts(bytes(row.counts)), row.num_reports) for row in rows}


@pytest.mark.parametrize("name", ORACLES)
def test_no_cell_of_few_reports_stays(store_url, name):
    metrics = registry(name)
    metric = metrics[name]
    with open_store(store_url, metrics, create=True) as store:
        for number, devices in enumerate((300, 1, 9, 10, 9000)):
            add_devices(store, metric, PERIOD + number, devices)
        for group, devices in {"a": 250, "b": 45, "other": 5}.items():
            add_devices(store, metric, PERIOD + 9, devices, group)
        store.compact(NOW)
        before = raw_counts(store)
        store.retain(LATER)
        after = raw_counts(store)
        assert after.keys() == before.keys() - {(PERIOD + 1, ""), (PERIOD + 2, ""), (PERIOD + 9, "other")}
        for key, (counts, came) in after.items():
            assert came == before[key][1] >= FEWEST_TOGETHER
            in_a_row = 1 if counts.num_cohorts > 1 or metric.mechanism.num_cohorts == 1 else VALUES
            stays = before[key][0].totals >= FEWEST_TOGETHER * in_a_row
            assert np.array_equal(counts.totals, np.where(stays, before[key][0].totals, 0))
            assert np.array_equal(counts.ones[stays], before[key][0].ones[stays])
            assert not counts.ones[~stays].any()
        assert (PERIOD + 4, "") in after
        assert after[PERIOD + 4, ""][0].num_reports > 0


def test_a_recount_that_retention_overtakes_writes_no_report(store_url, tmp_path, monkeypatch):
    """Counts of another list of candidates are read again, and the reports are deleted before they are written."""
    first = samples(folder=tmp_path)
    with open_store(store_url, first, create=True) as store:
        store.add([received(first["tree"], PERIOD, reports(first["tree"], 20, random.Random(1)))])
        store.compact(NOW)
    second = samples(candidates=("ash", "oak", "yew"), folder=tmp_path)

    read_sums = upkeep.sum_reports

    def overtaken(*args):
        sums = read_sums(*args)
        assert store.retain(LATER).reports == 20
        return sums

    with open_store(store_url, second) as store:
        monkeypatch.setattr(upkeep, "sum_reports", overtaken)
        store.compact(NOW)
        ((counts, came),) = raw_counts(store).values()
        assert (counts.num_reports, came) == (0, 20)
        assert store.sums(second["tree"], PERIOD, PERIOD) == {}


def test_a_reading_says_how_many_reports_stayed(store_url):
    metrics = registry("dbitflip")
    metric = metrics["dbitflip"]
    with open_store(store_url, metrics, create=True) as store:
        add_devices(store, metric, PERIOD, 3000, "a")
        add_devices(store, metric, PERIOD, 600, "b")
        store.compact(NOW)
        before = read_store(store, metric)
        assert (before.num_reports, before.taken_out) == (3600, {})
        assert not any("past retention" in note for note in read(before, "total").notes)
        store.retain(LATER)
        for group in (None, "a", "b"):
            counted = read_store(store, metric, group=group)
            came = 3600 if group is None else 3000 if group == "a" else 600
            assert counted.num_reports + counted.taken_out[PERIOD] == came
            again = PeriodCounts.from_json(metric, counted.to_json())
            assert (again.taken_out, again.num_reports) == (counted.taken_out, counted.num_reports)
            said = f"past retention: {counted.num_reports:,} of {came:,} reports are in the counts that stay"
            assert sum(said in note for note in read(again, "total").notes) == 1


def test_a_late_report_a_second_retention_and_a_backup_bring_no_small_cell_back(store_url, tmp_path):
    metrics = registry("rappor")
    metric = metrics["rappor"]
    with open_store(store_url, metrics, create=True) as store:
        add_devices(store, metric, PERIOD, 320)
        store.compact(NOW)
        store.retain(LATER)
        first = raw_counts(store)[PERIOD, ""][0]
        store.add([received(metric, PERIOD, reports(metric, 40, random.Random(1)))])
        store.compact(NOW)
        assert store.retain(LATER).reports == 40
        counts, came = raw_counts(store)[PERIOD, ""]
        assert came == 360
        assert not ((counts.totals > 0) & (counts.totals < FEWEST_TOGETHER)).any()
        assert (counts.totals[first.totals > 0] >= first.totals[first.totals > 0]).all()
        assert store.retain(LATER).reports == 0
        assert raw_counts(store)[PERIOD, ""] == (counts, came)
        assert store.backup(tmp_path / "backup.db") == 360
    restore(tmp_path / "backup.db", str(tmp_path / "restored.db"))
    with open_store(str(tmp_path / "restored.db"), metrics) as restored:
        assert raw_counts(restored)[PERIOD, ""] == (counts, came)


SHARES = np.array([0.6, *[0.04] * 10])
RUNS = 200
SAMPLED = {
    "balanced seeds": ("blh", {"domain_size": 11, "epsilon": 4.0, "num_seeds": 256}, 2000),
    "seeds, fitted": ("olh", {"domain_size": 11, "epsilon": 2.0, "num_seeds": 200}, 1500),
    "seeds, by itself": ("olh", {"domain_size": 11, "epsilon": 4.0, "num_seeds": 500, "hash_range": 2}, 2200),
    "sampled bits": ("dbitflip", {"domain_size": 11, "epsilon": 2.0, "sampled_bits": 4}, 105),
}


def test_no_row_of_few_reports_stays():
    assert without_few(SupportCounts([10, 9], [[7, 3], [4, 5]]), 2, 10).ones.tolist() == [[7, 3], [0, 0]]
    assert without_few(SupportCounts([29], [[7, 3, 19]]), 512, 10).ones.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("case", SAMPLED)
def test_intervals_from_what_stays_hold_the_truth(case):
    """At least 95% of intervals hold the share, but for chance: of each of three values, a binomial test."""
    name, parameters, devices = SAMPLED[case]
    held = np.repeat(np.arange(len(SHARES)), np.rint(SHARES * devices).astype(int))
    truth, missed, left = np.bincount(held) / held.size, [], []
    for run in range(RUNS):
        rng = np.random.default_rng([run, devices])
        oracle = overstory.oracle(name, **parameters, **({"hash_key": f"m{run}"} if name == "olh" else {}))
        counts = oracle.accumulate(oracle.simulate(rng.permutation(held), rng))
        kept = without_few(counts, oracle.mechanism.num_cohorts, FEWEST_TOGETHER)
        left.append(kept.num_reports / held.size)
        if not kept.num_reports:
            continue
        found = oracle.estimate(kept)
        shares, errors = found.raw_counts / kept.num_reports, found.errors("population") / kept.num_reports
        missed.append(np.abs(shares - truth) > 1.96 * errors)
    assert 0.03 < np.mean(left) < 0.8
    assert len(missed) > RUNS / 2
    for value in (0, 1, 2):
        wrong = int(np.array(missed)[:, value].sum())
        assert wrong <= binom.ppf(1 - LEVEL / 12, len(missed), 0.05)
