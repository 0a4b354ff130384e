"""``overstory decode`` of exported folders: what is counted, and what is refused."""

import json
import random
from pathlib import Path

import pytest

from overstory.cli.main import main
from overstory.collector.store import open_store
from overstory.engines.driver import LocalEngine, count
from overstory.engines.places import find_sets
from overstory.protocol.metrics import parse_registry
from overstory.queries import sources
from overstory.queries.sources import ExportedReports
from support.exported_store import LATER, PERIODS, add, export_all, fill, registry, registry_toml, small_parts
from support.registry_texts import registry_of
from support.store_samples import ABOUT, sample_metrics

OPTIONS = ("--registry", "metrics.toml", "--metric")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A store, and its export in parts of several row groups each."""
    monkeypatch.chdir(tmp_path)
    small_parts(monkeypatch.setattr)
    monkeypatch.setattr("overstory.engines.units.SMALLEST_UNIT", 1)
    (tmp_path / "metrics.toml").write_text(registry_toml())
    fill("sqlite:///store.db", registry())
    export_all("sqlite:///store.db", registry(), "exported")
    return tmp_path


def in_units(metric):
    return ExportedReports(find_sets("exported"), lambda job, units: count(LocalEngine(1), job, units))


def test_metrics_of_equal_parameters_are_kept_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    size = sample_metrics()["size"] | {"oracle": '"hadamard"'}
    metrics = parse_registry(registry_of({"shirt": size, "shoe": size}, **ABOUT, period='"day"', grace_days="30"))
    with open_store("sqlite:///store.db", metrics, create=True) as store:
        for number, metric in enumerate(metrics.values(), 1):
            add(store, metric, PERIODS[0], 90 * number, random.Random(number))
        store.compact(LATER, forgetting=False)
    export_all("sqlite:///store.db", metrics, "exported")
    there, (shirt, shoe) = in_units(metrics["shirt"]), metrics.values()
    assert shirt.counts_digest == shoe.counts_digest
    with open_store("sqlite:///store.db", metrics) as store:
        for metric, many in ((shirt, 90), (shoe, 180), (shirt, 90)):
            assert there.counts(metric, *PERIODS) == store.counts(metric, *PERIODS)
            assert there.sums(metric, *PERIODS)[PERIODS[0]].num_reports == many


@pytest.mark.usefixtures("folder")
def test_pairs_are_looked_for_in_the_first_reports_of_each_collection(monkeypatch):
    """As many as a store looks at, whatever the units: the other sums are of all reports."""
    monkeypatch.setattr(sources, "PAIR_REPORTS", 37)
    for name, groups in (("size", 1), ("colour", 3)):
        sums = in_units(registry()[name]).sums(registry()[name], *PERIODS)
        watched = {period: one.pair_reports for period, one in sums.items()}
        if name == "colour":  # a symbol is one value: nothing is summed
            assert watched == {}
        else:
            assert watched == dict.fromkeys(PERIODS, 37 * groups)
            assert {one.num_reports for one in sums.values()} == {90}


@pytest.fixture
def refused(capsys):
    def run(*command):
        assert main(["decode", *command]) == 2
        return capsys.readouterr().err

    return run


@pytest.mark.usefixtures("folder")
def test_what_is_refused(refused):
    part = str(next(Path("exported").rglob("part-*.parquet")))
    assert part in refused(part, *OPTIONS, "bloom")
    assert "these reports are also those of" in refused("exported", "exported/metric=bloom", *OPTIONS, "bloom")
    for engine in ("locl", "local:0", "local:tcp://a:1"):
        assert f"--engine {engine}: " in refused("exported", *OPTIONS, "bloom", "--engine", engine)
    assert "colour has no groups" in refused("exported", *OPTIONS, "colour", "--group", "north")
    weekly = registry_toml().replace('period = "day"', 'period = "week"')
    Path("weekly.toml").write_text(weekly)
    assert "its periods have 86,400 seconds" in refused("exported", "--registry", "weekly.toml", "--metric", "bloom")


@pytest.mark.usefixtures("folder")
def test_a_missing_or_damaged_part_is_an_error(refused):
    part = next(Path("exported/metric=bloom").rglob("part-*.parquet"))
    raw = part.read_bytes()
    part.write_bytes(raw[:-1])
    assert f"{len(raw) - 1:,} bytes, and {len(raw):,} are listed" in refused("exported", *OPTIONS, "bloom")
    part.unlink()
    assert "is listed, and missing" in refused("exported", *OPTIONS, "bloom")


@pytest.mark.usefixtures("folder")
def test_reports_of_other_parameters_are_named_and_not_counted(capsys):
    Path("later.toml").write_text(registry_toml().replace("epsilon = 1.0", "epsilon = 2.0"))
    shown = []
    for source in (("--store", "store.db"), ("exported",)):
        assert main(["decode", *source, "--registry", "later.toml", "--metric", "colour", "--json", "--quiet"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]
    assert [other["reports"] for other in shown[1]["other_parameters"]] == [540]
