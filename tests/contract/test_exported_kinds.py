"""Every kind of metric is read from exported folders as from the store: the same JSON, text and files."""

import json

import numpy as np
import pytest
from test_every_kind import GROUPS, KINDS, NAMES, entry

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.cli.main import main
from overstory.collector.store import open_store
from overstory.engines import driver
from overstory.protocol.metrics import load_registry
from support.exported_store import LATER, PERIODS, export_all
from support.registry_texts import registry_of
from support.store_samples import received_batch

OF_GROUPS = "categories"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("kinds")
    (place / "versions.txt").write_text("1.0\n2.0\n3\n4\n")
    entries = {name: entry(kind, retention_days="90", grace_days="30") for kind, name in NAMES.items()}
    entries[OF_GROUPS]["groups"] = GROUPS
    (place / "metrics.toml").write_text(registry_of(entries))
    registry = load_registry(place / "metrics.toml")
    fill(f"sqlite:///{place}/store.db", registry)
    export_all(f"sqlite:///{place}/store.db", registry, place / "exported")
    return place


def fill(url, registry):
    """Add reports of simulated devices, a tenth of which hold the fourth value."""
    rng = np.random.default_rng(5)
    with open_store(url, registry, create=True) as store:
        for kind, name in NAMES.items():
            metric = registry[name]
            values = [metric.encode(value) for value in KINDS[kind][3]]
            for period in PERIODS:
                for group in ("1.0", "1.1", "0.9", "") if kind == OF_GROUPS else ("",):
                    held = rng.choice(4, 600, p=[0.4, 0.3, 0.2, 0.1])
                    batch = SimulatedDevices.holding(metric.mechanism, values, held, rng).report()
                    store.add([received_batch(metric, period, batch)._replace(group=group)])
        store.compact(LATER, forgetting=False)


@pytest.fixture
def said(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)

    def run(*command):
        assert main(list(command)) == 0
        return capsys.readouterr().out

    return run


def both(said, kind, *options):
    chosen = ("--registry", "metrics.toml", "--metric", NAMES[kind], "--quiet", *options)
    return said("decode", "--store", "store.db", *chosen), said("decode", "exported", *chosen)


LONG = {"unknown strings"}
EACH = [pytest.param(kind, marks=[pytest.mark.slow] if kind in LONG else []) for kind in KINDS]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", EACH)
def test_a_folder_is_read_as_the_store(said, kind):
    stored, exported = both(said, kind, "--json")
    assert json.loads(exported) == json.loads(stored)
    assert json.loads(stored).get("reports", json.loads(stored).get("counted")) == (4800 if kind == OF_GROUPS else 1200)
    stored, exported = both(said, kind, "--all")
    assert exported == stored
    stored, exported = both(said, kind, "-o", "-")
    assert exported == stored


DAYS = ("2024-10-04", "2024-10-05")
SPANS = ("--compare", DAYS[1], DAYS[0])


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (OF_GROUPS, ("--by-group",)),
        (OF_GROUPS, ("--by-group", "--json")),
        (OF_GROUPS, ("--group", "1.1", "--aggregate", "per-period", "--json")),
        (OF_GROUPS, ("--compare", "1.0", "1.1")),
        (OF_GROUPS, SPANS),
        ("integers", ("--aggregate", "cumulative", "--json", "--steps", "norm-sub")),
        ("integers", ("--from", DAYS[1], "--alpha", "0.2")),
        ("integers", ("--to", DAYS[0], "--interval", "population")),
        ("integers", ("--from", "2024-12-01")),
        ("bins", ("--range", "0.2:0.6", "--json")),
        ("strings", ("--complete", "--method", "lasso", "--candidates", "versions.txt")),
        ("pair", SPANS),
        ("mean", (*SPANS, "--json")),
        ("unknown integers", SPANS),
    ],
)
def test_an_option_does_what_it_does_to_a_store(said, kind, options):
    stored, exported = both(said, kind, *options)
    assert exported == stored


def test_all_groups_are_counted_by_one_run_and_summed_by_another(said, monkeypatch):
    runs, count = [], driver.count

    def counting(*given, **options):
        runs.append(run := count(*given, **options))
        return run

    monkeypatch.setattr(driver, "count", counting)
    both(said, OF_GROUPS, "--by-group")
    assert [(run.num_units, run.num_reports) for run in runs] == [(8, 4800), (8, 4800)]


def test_the_only_metric_needs_no_name(said, capsys):
    named, _ = both(said, "mean")
    assert said("decode", "exported/metric=mean", "--registry", "metrics.toml", "--quiet") == named
    assert main(["decode", "exported", "--registry", "metrics.toml"]) == 2
    assert "reports of bins, categories, distribution" in capsys.readouterr().err
