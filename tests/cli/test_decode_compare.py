"""decode --compare: two ranges of a store or of a collector, what changed, and what cannot be compared."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overstory.analysis.difference import difference
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from overstory.queries.comparison import compare_ranges, parse_span
from overstory.queries.counts import read_store
from overstory.queries.estimates import read_estimates
from overstory.queries.readings import EstimateOptions
from support.compared_store import MONDAY, SAME, fill, make, write_registry
from support.running import within

STORED = ("--store", "reports-2-1.db", "--registry", "metrics-2.toml", "--metric", "theme")
LATER, EARLIER = "2026-11-19..2026-11-21", "2026-11-16..2026-11-18"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("compared")
    make(path)
    return path


def compare(folder: Path, *more: object, ranges: tuple[str, str] = (LATER, EARLIER), status: int = 0) -> Any:
    ran = within("decode", *STORED, "--compare", *ranges, *more, cwd=folder)
    assert ran.returncode == status, ran.stderr
    assert status == 0 or (ran.stderr.startswith("overstory: error: ") and len(ran.stderr.splitlines()) == 1)
    return ran


def test_text_json_and_csv_have_the_same_numbers_as_the_library(folder: Path) -> None:
    parsed = json.loads(compare(folder, "--json", "--all", "-o", "out").stdout)
    assert parsed == json.loads((folder / "out" / "comparison.json").read_text())
    lines = within("decode", *STORED, "--compare", LATER, EARLIER, "-o", "-", cwd=folder).stdout
    assert lines == (folder / "out" / "comparison.csv").read_text()
    rows = list(csv.DictReader(lines.splitlines()))
    assert [row["value"] for row in rows] == [row["value"] for row in parsed["differences"]]
    for row, other in zip(rows, parsed["differences"], strict=True):
        assert float(row["difference"]) == pytest.approx(other["difference"], rel=1e-9)
        assert other["a"] - other["b"] == pytest.approx(other["difference"])
    registry = load_registry(folder / "metrics-2.toml")
    with open_store(str(folder / "reports-2-1.db"), registry) as store:
        ranges = [
            read_store(store, registry["theme"], *parse_span(registry["theme"], text)) for text in (LATER, EARLIER)
        ]
    parts = [read_estimates(each, "total", EstimateOptions()).parts[0].estimate for each in ranges]
    assert difference(*parts).to_json()["differences"] == parsed["differences"]
    assert parsed["digest"] == registry["theme"].mechanism.digest.hex()
    assert compare_ranges(*ranges).to_json() == parsed


def test_a_spreadsheet_takes_no_value_for_a_formula(folder: Path) -> None:
    ran = within("decode", *STORED, "--compare", LATER, EARLIER, "-o", "-", "--spreadsheet", cwd=folder)
    assert "\n'=high()," in ran.stdout


def test_a_kind_an_alpha_and_an_overlap_are_obeyed(folder: Path) -> None:
    usual, reports, overlapping = (
        json.loads(compare(folder, "--json", *more).stdout)
        for more in ((), ("--interval", "reports", "--alpha", ".01"), ("--overlap", "1", "--reports-per-device", "1"))
    )
    assert (usual["interval"], reports["interval"]) == ("population", "reports")
    assert (usual["alpha"], reports["alpha"], overlapping["overlap"]) == (0.05, 0.01, 1.0)
    error = {
        name: row["standard_error"]
        for name, row in (("usual", usual["differences"][0]), ("reports", reports["differences"][0]))
    }
    assert error["reports"] < error["usual"]
    assert any("100% of the devices of the smaller collection" in note for note in overlapping["notes"])


@pytest.mark.parametrize(
    ("ranges", "more", "message"),
    [
        (("2026-11-16..2026-11-18", "2026-11-18..2026-11-20"), (), "both ranges hold 2026-11-18"),
        (("2026-11-16..", "2026-11-20"), (), "is no range of periods: give FIRST..LAST"),
        (("2026-11-18..2026-11-16", "2026-11-20"), (), "ends before it begins"),
        (("2026-W47", "2026-11-20"), (), "2026-W47"),
        (("2026-12-01", "2026-11-20"), (), "2026-12-01 has no reports of theme"),
        ((LATER, EARLIER), ("--steps", "norm-sub"), "--steps has no effect with --compare"),
        ((LATER, EARLIER), ("--from", "2026-11-16"), "--from has no effect with --compare"),
        ((LATER, EARLIER), ("--overlap", "2"), "overlap is a share of the devices, 0 to 1"),
        ((LATER, EARLIER), ("--reports-per-device", "9"), "9 reports per device"),
    ],
)
def test_what_cannot_be_compared_is_refused(folder: Path, ranges: Any, more: Any, message: str) -> None:
    assert message in compare(folder, *more, ranges=ranges, status=2).stderr


def test_an_overlap_alone_is_refused(folder: Path) -> None:
    ran = within("decode", *STORED, "--overlap", ".5", cwd=folder)
    assert (ran.returncode, "--overlap has no effect without --compare" in ran.stderr) == (2, True)


def test_other_parameters_in_a_range_are_refused_with_both_digests(tmp_path: Path) -> None:
    path = make(tmp_path)
    old, new = write_registry(tmp_path, 1.0), load_registry(tmp_path / "metrics-2.toml")
    with open_store(str(path), old) as store:
        fill(store, old["theme"], {MONDAY + 1: SAME}, 50, seed=9)
    refused = compare(tmp_path, status=2).stderr
    assert "50 reports from 2026-11-17 to 2026-11-17 that were made with the parameters" in refused
    assert all(registry["theme"].mechanism.digest.hex() in refused for registry in (old, new))
    compare(tmp_path, ranges=(LATER, "2026-11-18"))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_200_stores_without_a_change_raise_a_false_alarm_in_at_most_8_percent(tmp_path: Path, epsilon: float) -> None:
    """At a rate of 5%, more than 16 of 200 come by chance in 2% of all seeds; with the noise alone it is nearly all."""
    registry, alarms, by_noise, overall = write_registry(tmp_path, epsilon), 0, 0, 0
    metric = registry["theme"]
    for seed in range(200):
        path = make(tmp_path, epsilon=epsilon, devices=3_000, seed=seed, moved=False)
        with open_store(str(path), registry) as store:
            a, b = (read_store(store, metric, MONDAY + first, MONDAY + first + 2) for first in (3, 0))
        path.unlink()
        options = EstimateOptions(reports_per_device=1.0)
        alarms += compare_ranges(a, b, options).difference.changed().any()
        overall += compare_ranges(a, b, options).difference.overall_p_value <= 0.05
        noise = EstimateOptions(reports_per_device=1.0, interval_kind="reports")
        by_noise += compare_ranges(a, b, noise).difference.changed().any()
    assert max(alarms, overall) <= 16, (alarms, overall)
    assert by_noise > (80 if epsilon == 4.0 else 0)
    assert np.sum([alarms, overall]) > 0
