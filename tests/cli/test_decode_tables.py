"""decode of a metric of several variables: what is printed, what is written, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from support.registry_texts import registry_of
from support.running import within
from support.store_samples import received_batch

DAYS = (20_700, 20_701)
CRASHES = (
    '{kind = "table", names = ["version", "crash"], of = ['
    '{kind = "categories", names = ["1.0", "2.0"], other = "another version"}, '
    '{kind = "categories", names = ["no", "yes"]}]}'
)
THREE = (
    '{kind = "table", names = ["version", "crash", "size"], of = ['
    '{kind = "categories", names = ["1.0", "2.0"]}, {kind = "categories", names = ["no", "yes"]}, '
    '{kind = "integers", min = 1, max = 3}]}'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A store of two tables: version 2.0 crashes three times as often."""
    path: Path = tmp_path_factory.mktemp("tables")
    metrics = {
        "crashes": {"domain": CRASHES, "oracle": '"oue"', "parameters": "{epsilon = 2.0}"},
        "three": {"domain": THREE, "oracle": '"grr"', "parameters": "{epsilon = 3.0}"},
        "either": {
            "domain": THREE.replace('names = ["version"', 'tables = "all pairs", names = ["version"', 1),
            "oracle": '"divided"',
            "parameters": '{oracle = "oue", epsilon = 2.0}',
        },
    }
    (path / "metrics.toml").write_text(registry_of(metrics, expires="2040-01-01"))
    registry = load_registry(path / "metrics.toml")
    drawn = np.random.default_rng(1)
    shares = np.array([0.45, 0.05, 0.34, 0.13, 0.029, 0.001])
    held = {"crashes": drawn.choice(6, 60_000, p=shares), "three": drawn.integers(12, size=60_000)}
    held["either"] = held["three"]
    with open_store(str(path / "reports.db"), registry, create=True) as store:
        for name, symbols in held.items():
            metric = registry[name]
            size = metric.domain.size or 0
            fleet = SimulatedDevices.holding(metric.mechanism, range(size), symbols, drawn)
            for number, day in enumerate(DAYS):
                sent = fleet.report(number, start=number * 30_000, stop=number * 30_000 + 30_000)
                store.add([received_batch(metric, day, sent)])
    return path


def _decode(folder: Path, *options: str) -> str:
    store = "--store", str(folder / "reports.db"), "--registry", str(folder / "metrics.toml")
    ran = within("decode", *store, *options, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_json_has_everything(folder: Path) -> None:
    read = json.loads(_decode(folder, "--metric", "crashes", "--reports-per-device", "1", "--json"))
    (part,) = read["readings"]
    (table,) = part["tables"]
    assert table["variables"] == ["version", "crash"]
    assert table["independence"]["independence_rejected"]
    assert table["cramers_v"]["low"] < table["cramers_v"]["estimate"] < table["cramers_v"]["high"]
    cells = {(cell["row"], cell["column"]): cell for cell in table["cells"]}
    crashed = cells["2.0", "yes"]
    assert crashed["low"] < 0.13 < crashed["high"]
    assert crashed["share_in_row_low"] < 0.13 / 0.47 < crashed["share_in_row_high"]
    assert [value["value"] for value in table["marginals"]["version"]] == ["1.0", "2.0", "another version"]
    assert sum(cell["reported"] for cell in table["cells"]) == pytest.approx(1.0)


def test_three_variables_are_three_tables(folder: Path) -> None:
    text = _decode(folder, "--metric", "three", "--reports-per-device", "1")
    for pair in ("version and crash", "version and size", "crash and size"):
        assert f"{pair}\n" in text
    assert text.count("no sign that") == 3
    assert text.count("Cramer's V: at most") == 3
    assert text.count("a weaker association would mostly not have been seen") == 3


def test_devices_divided_over_tables(folder: Path) -> None:
    """Each pair from a third of the devices, and each variable's shares from two thirds."""
    read = json.loads(_decode(folder, "--metric", "either", "--reports-per-device", "1", "--json"))
    (part,) = read["readings"]
    assert [table["variables"] for table in part["tables"]] == [
        ["version", "crash"],
        ["version", "size"],
        ["crash", "size"],
    ]
    assert sum(table["reports"] for table in part["tables"]) == 60_000
    assert part["tables"][0]["marginals"]["version"] == part["tables"][1]["marginals"]["version"]
    for value in part["tables"][0]["marginals"]["version"]:
        assert abs(value["share"] - 0.5) < 5 * value["standard_error"]
    text = _decode(folder, "--metric", "either", "--reports-per-device", "1")
    assert "version and size\n" in text
    assert "privacy: divided, epsilon 2" in text


def test_files_and_pictures(folder: Path, tmp_path: Path) -> None:
    _decode(folder, "--metric", "crashes", "-o", str(tmp_path), "--plot", str(tmp_path / "crashes.svg"))
    assert (tmp_path / "tables.csv").read_text().count("\n") == 7
    assert json.loads((tmp_path / "tables.json").read_text())["metric"] == "crashes"
    assert "<svg" in (tmp_path / "crashes.svg").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--steps", "norm-sub"), "crashes is read as a table: --steps does not apply"),
        (("--method", "lasso"), "crashes is read as a table: --method does not apply"),
        (("--metric", "either", "--interval", "reports"), "either: a table is answered by a part of the devices"),
        (("--reports-per-device", "3"), "there are reports in 2 periods"),
    ],
)
def test_options_that_do_not_fit(folder: Path, options: tuple[str, ...], message: str) -> None:
    store = "--store", str(folder / "reports.db"), "--registry", str(folder / "metrics.toml")
    ran = within("decode", *store, "--metric", "crashes", *options, cwd=folder)
    assert ran.returncode == 2
    assert message in ran.stderr
