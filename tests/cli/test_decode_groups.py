"""decode by group: each group's estimates, and the difference of two groups."""

import json

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import open_store
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import load_registry
from overstory.queries.counts import read_store
from overstory.queries.readings import read_groups
from support.registry_texts import COLOURS, registry_of
from support.running import within
from support.store_samples import received_batch

DAY = 20_700
GROUPS = '{by = "release", shares = {"1.0" = 0.5, "1.1" = 0.3, "1.2" = 0.1}, devices = 100000}'
HELD = {"1.0": [0.6, 0.3, 0.1], "1.1": [0.2, 0.3, 0.5], "1.2": [0.2, 0.3, 0.5], "other": [0.6, 0.3, 0.1]}
SENT = {"1.0": 4000, "1.1": 8000, "1.2": 1000, "other": 1000}
"""Reports by group: devices with release 1.1 report more often than their share of all devices."""

METRICS = {"colour": {"groups": GROUPS}, "plain": {}}


def reports(metric, shares, number, seed, group=""):
    held = np.repeat(np.arange(3), np.round(np.array(shares) * number).astype(int))
    sent = FrequencyOracle(metric.mechanism).simulate(held, np.random.default_rng(seed))
    return received_batch(metric, DAY, sent)._replace(group=group)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("groups")
    (path / "metrics.toml").write_text(registry_of(METRICS, domain=COLOURS, expires="2040-01-01"))
    registry = load_registry(path / "metrics.toml")
    with open_store(str(path / "reports.db"), registry, create=True) as store:
        store.add(
            [
                *(
                    reports(registry["colour"], HELD[g], n, seed, group=g)
                    for seed, (g, n) in enumerate(SENT.items(), 1)
                ),
                reports(registry["colour"], HELD["other"], 100, 9, group="0.8"),
                reports(registry["colour"], HELD["other"], 50, 10),
                reports(registry["plain"], HELD["other"], 500, 11),
            ]
        )
    return path


def decode(folder, *options, metric="colour"):
    given = ["--store", "reports.db", "--registry", "metrics.toml", "--metric", metric]
    return within("decode", *given, *options, cwd=folder)


def test_each_group_is_estimated_by_itself(folder):
    ran = decode(folder, "--by-group", "--json", "--plot", "groups.svg")
    assert (ran.returncode, ran.stderr) == (0, "")
    read = json.loads(ran.stdout)
    drawn = (folder / "groups.svg").read_text()
    assert [drawn.count(f">{name}, 2026-") for name in ("1.0", "1.1", "1.2", "other")] == [2] * 4  # text and title
    assert [(part["group"], part["expected_devices"], part["reports"]) for part in read["groups"]] == [
        ("1.0", 50_000, 4000),
        ("1.1", 30_000, 8000),
        ("1.2", 10_000, 1000),
        ("other", 10_000, 1100),
    ], "reports of the earlier release 0.8 count as other"
    for part in read["groups"]:
        assert part["interval"] == "population"
        for row in part["readings"][0]["estimates"]:
            truth = HELD[part["group"]][["red", "green", "blue"].index(row["value"])]
            assert abs(row["frequency"] - truth) < 5 * row["frequency_standard_error"]
    assert read["reports_in_no_group_here"] == 50
    assert "50 reports in no group above: of devices that name none, or a hidden one" in read["notes"]


def test_the_difference_of_two_groups_has_an_interval(folder):
    ran = decode(folder, "--compare", "1.1", "1.0", "--json", "--all")
    compared = json.loads(ran.stdout)
    assert (compared["a"]["group"], compared["b"]["group"]) == ("1.1", "1.0")
    by_value = {row["value"]: row for row in compared["differences"]}
    for value, truth in (("red", -0.4), ("green", 0.0), ("blue", 0.4)):
        assert by_value[value]["low"] < truth < by_value[value]["high"]
    assert [by_value[value]["changed"] for value in ("red", "green", "blue")] == [True, False, True]
    assert "a: group 1.1, 8,000 reports from" in decode(folder, "--compare", "1.1", "1.0").stdout


def test_names_that_are_periods_too_are_groups_only_where_both_are(tmp_path):
    listed = '{by = "build", shares = {"2026-09-04" = 0.5, "2026-09-03" = 0.5}, devices = 100000}'
    text = registry_of({"colour": {"groups": listed}}, domain=COLOURS, expires="2040-01-01")
    (tmp_path / "metrics.toml").write_text(text)
    metric = load_registry(tmp_path / "metrics.toml")["colour"]
    with open_store(str(tmp_path / "reports.db"), create=True) as store:
        sent = [reports(metric, HELD["1.0"], 2000, seed, f"2026-09-0{seed}") for seed in (3, 4)]
        store.add([*sent, sent[0]._replace(period=DAY + 1, batch=b"a" * 16)])
    groups = json.loads(decode(tmp_path, "--compare", "2026-09-04", "2026-09-03", "--json").stdout)
    assert (groups["a"]["group"], groups["a"]["reports"]) == ("2026-09-04", 2000)
    periods = json.loads(decode(tmp_path, "--compare", "2026-09-04", "2026-09-05", "--json").stdout)
    assert ("group" in periods["a"], periods["a"]["reports"], periods["b"]["reports"]) == (False, 4000, 2000)


def test_a_group_below_the_floor_is_hidden_by_expected_devices_and_not_by_reports(folder, tmp_path):
    """All shares are listed, so nobody is expected in other; that many devices say they are changes nothing."""
    listed = GROUPS.replace('"1.2" = 0.1', '"1.2" = 0.2')
    (tmp_path / "metrics.toml").write_text(
        registry_of({"colour": {"groups": listed}}, domain=COLOURS, expires="2040-01-01")
    )
    metric = load_registry(tmp_path / "metrics.toml")["colour"]
    with open_store(str(folder / "reports.db")) as store:

        def counts_of(group):
            return read_store(store, metric, group=group)

        reading = read_groups(metric, counts_of)
        with pytest.raises(
            ParameterError, match="has 0 expected devices, fewer than the floor of 1,000: its results are"
        ):
            counts_of("other")
    assert (reading.hidden, list(reading.parts)) == (("other",), ["1.0", "1.1", "1.2"])
    assert reading.left_out == 1150
    assert "release other is hidden: 0 expected devices, fewer than the floor of 1,000" in list(reading.all_notes())
