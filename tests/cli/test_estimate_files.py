"""Files and JSON of estimates: one dialect and one shape for every command that prints them; Google's files read."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from support.registry_texts import plain_registry
from support.running import done
from support.store_samples import received_batch


def test_decode_reads_googles_files_and_says_what_it_did(tmp_path: Path) -> None:
    """The notes reach the table, the JSON and metrics.json."""
    (tmp_path / "params.csv").write_text('"k","h","m","p","q","f"\n12,2,3,0.25,0.75,0\n')
    (tmp_path / "map.csv").write_text('"V_1",1,5,13,24,26,36\n"V_2",12,14,20,30,31,\n"V_1",3,4,17,18,25,26\n')
    counts = [[1000, *([250] * 12)] for _ in range(6)]
    for row, positions in zip(counts, ((1, 5), (1, 12), (2, 12)) * 2, strict=True):
        for bit in positions:
            row[bit] = 750
    (tmp_path / "counts.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in counts))
    files = ("--params", "params.csv", "--counts", "counts.csv", "--map", "map.csv", "-o", "out")
    said = json.loads(done(tmp_path, "decode", *files, "--json").stdout)
    assert said["reports"] == 6000
    assert [row["value"] for row in said["estimates"] if row["detected"]] == ["V_1"]
    assert said["estimates"][0]["raw_count"] == pytest.approx(6000, rel=0.01)
    for words in ("6 rows are 2 for each of 3 cohorts", "1 row with an earlier row's candidate left out"):
        assert sum(words in note for note in said["notes"]) == 1
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["notes"] == said["notes"]


GOOGLES = ["string", "estimate", "std_error", "proportion", "prop_std_error", "prop_low_95", "prop_high_95"]
OURS = [
    *("raw_estimate", "p_value", "q_value", "detected", "interval"),
    *("adjustment", "prop_plain_low_95", "prop_plain_high_95"),
]
KEYS = {
    *("value", "count", "raw_count", "standard_error", "frequency", "frequency_standard_error", "low", "high"),
    *("frequency_low", "frequency_high", "z", "p_value", "q_value", "detected"),
}
REGISTRY = plain_registry(
    "colour", parameters="{epsilon = 2.0}", domain='{kind = "categories", names = ["red", "green", "blue, dark"]}'
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[dict[str, Any]]]]:
    """For every command that estimates: its CSV file, and the estimates of its JSON."""
    folder = tmp_path_factory.mktemp("estimates")
    (folder / "params.csv").write_text("k,h,m,p,q,f\n32,2,4,0.25,0.75,0.25\n")
    trees = ["oak"] * 5 + ["ash, white"] * 3 + ["elm"] * 2
    rows = "".join(f'c{i},{i % 4},"{trees[i % 10]}"\n' for i in range(4000))
    (folder / "values.csv").write_text("client,cohort,value\n" + rows)
    (folder / "trees.txt").write_text("oak\nash, white\nelm\nyew\nfir\n")
    (folder / "metrics.toml").write_text(REGISTRY)
    params = ("--params", "params.csv")
    done(folder, "encode", *params, "--values", "values.csv", "--seed", 1, "-o", "reports.csv")
    done(folder, "sum", *params, "reports.csv", "-o", "counts.csv")
    done(folder, "map", *params, "--candidates", "trees.txt", "-o", "map.csv")
    files = (*params, "--counts", "counts.csv", "--map", "map.csv", "-o", "results")
    of_files = json.loads(done(folder, "decode", *files, "--all", "--json").stdout)["estimates"]
    metric = load_registry(folder / "metrics.toml")["colour"]
    oracle = FrequencyOracle(metric.mechanism)
    sent = oracle.simulate(np.arange(900) % 5 // 3, np.random.default_rng(1))
    with open_store(str(folder / "reports.db"), create=True) as store:
        store.add([received_batch(metric, 20_700, sent)])
    kept = ("--store", "reports.db", "--registry", "metrics.toml", "--metric", "colour", "-o", "kept")
    of_store = json.loads(done(folder, "decode", *kept, "--all", "--json").stdout)["readings"][0]["estimates"]
    column = ("values.csv", "--column", "value", "--candidates", "trees.txt")
    collected = json.loads(done(folder, "collect", *column, "-o", "mine", "--json").stdout)
    found = done(
        folder, "discover", "values.csv", "--column", "value", "--bytes", 10, "--epsilon", 2, "--seed", 1, "--known",
        "trees.txt", "-o", "found.csv", "--json"
    )  # fmt: skip
    return {
        "decode files": (folder / "results" / "results.csv", of_files),
        "decode store": (folder / "kept" / "estimates.csv", of_store),
        "collect": (folder / "mine" / "learned.csv", collected["estimates"]),
        "discover": (folder / "found.csv", json.loads(found.stdout)["estimates"]),
    }


EXTRA = {"decode files": ([], []), "decode store": (["from", "to"], []), "collect": ([], ["truth"]),
         "discover": ([], ["source"])}  # fmt: skip


@pytest.mark.parametrize("command", EXTRA)
def test_one_dialect_and_one_shape(written: dict[str, tuple[Path, list[dict[str, Any]]]], command: str) -> None:
    path, estimates = written[command]
    before, after = EXTRA[command]
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == [*before, *GOOGLES, *OURS, *after]
    by_value = {line["string"]: line for line in lines}
    assert set(by_value) == {row["value"] for row in estimates}
    assert {row["detected"] for row in estimates} == {True, False}
    for row in estimates:
        assert set(row) >= KEYS
        line = by_value[row["value"]]
        assert line["detected"] == ("true" if row["detected"] else "false")
        assert line["interval"] == row["interval"] == "reports"
        pairs = {
            "estimate": "count", "std_error": "standard_error", "proportion": "frequency",
            "prop_std_error": "frequency_standard_error", "prop_low_95": "frequency_low",
            "prop_high_95": "frequency_high", "raw_estimate": "raw_count", "p_value": "p_value", "q_value": "q_value",
        }  # fmt: skip
        for column, key in pairs.items():
            assert float(line[column]) == pytest.approx(row[key], rel=1e-8, abs=1e-12), (column, row)
        assert row["low"] <= row["count"] <= row["high"]
