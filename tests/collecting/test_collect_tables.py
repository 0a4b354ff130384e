"""collect of two columns: pairs are counted in one pass, reported, and learned next to the truth."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import overstory
from overstory.protocol.errors import ParameterError
from overstory.trial.run import TrialBudget
from overstory.trial.tables import Pairs, collect_pairs, count_pairs
from support.running import within as run

ALARM = 1e-6
SHARES = np.array([[0.45, 0.05], [0.30, 0.10], [0.07, 0.03]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A file of versions, crashes (60 rows without) and seconds, with a thousand different numbers."""
    path: Path = tmp_path_factory.mktemp("pairs")
    drawn = np.random.default_rng(1)
    cells = drawn.choice(6, 30_000, p=SHARES.ravel())
    with (path / "crashes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["version", "crash", "seconds"])
        for row, cell in enumerate(cells.tolist()):
            crash = "" if row % 500 == 0 else ("no", "yes")[cell % 2]
            writer.writerow([f"{cell // 2 + 1}.0", crash, row % 1_000 / 10])
    return path


def test_pairs_are_counted_in_one_pass(folder: Path) -> None:
    """As a plain loop over the rows counts them; a row without one of the values is missing."""
    path = str(folder / "crashes.csv")
    pairs = count_pairs(path, ["version", "crash"])
    with (folder / "crashes.csv").open(newline="") as file:
        rows = [(row["version"], row["crash"]) for row in csv.DictReader(file)]
    assert pairs.labels == (("1.0", "2.0", "3.0"), ("no", "yes"))
    assert pairs.missing == 60 == sum(not crash for _, crash in rows)
    for (i, version), (j, crash) in _cells(pairs):
        assert pairs.counts[i, j] == rows.count((version, crash))


def _cells(pairs: Pairs) -> Any:
    return [((i, x), (j, y)) for i, x in enumerate(pairs.labels[0]) for j, y in enumerate(pairs.labels[1])]


def test_many_numbers_are_counted_in_bins(folder: Path) -> None:
    pairs = count_pairs(str(folder / "crashes.csv"), ["version", "seconds"])
    assert len(pairs.labels[1]) <= 10
    assert int(pairs.counts.sum()) == 30_000
    assert "seconds: 1,000 different numbers were counted in" in pairs.notes[1]


def test_the_text_says_what_was_learned(folder: Path) -> None:
    ran = run("collect", "crashes.csv", "--column", "version", "--column", "crash", "--epsilon", "2", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "crash in each version" in ran.stdout
    assert "version and crash depend on each other" in ran.stdout
    assert "Truth: Cramer's V of these rows is 0.2" in ran.stdout
    assert "60 rows have no value in one of the columns" in ran.stdout
    assert "Page: out/collect/collect.html" in ran.stdout
    page = (folder / "out/collect/collect.html").read_text()
    assert "<svg" in page
    assert "overstory collect crashes.csv --column version --column crash --epsilon 2.0" in page
    lines = list(csv.DictReader((folder / "out/collect/learned.csv").read_text().splitlines()))
    assert len(lines) == 6
    assert sum(float(line["reported"]) for line in lines) == pytest.approx(1.0)
    written = json.loads((folder / "out/collect/collect.json").read_text())
    assert written["columns"] == ["version", "crash"]
    assert written["independence"]["independence_rejected"]


def test_rows_are_compared_with_the_largest(folder: Path) -> None:
    options = "--column", "version", "--column", "crash", "--epsilon", "2", "-o", "page"
    ran = run("collect", "crashes.csv", *options, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    page = (folder / "page/collect.html").read_text()
    assert "crash in each version, less that in version = 1.0" in page
    assert "differs" in page


def test_intervals_hold_the_truth_of_the_rows() -> None:
    """At least 95% of the intervals (they count the sampling of people too); wrong once in a million, seeds fixed."""
    pairs = Pairs(("x", "y"), (("a", "b", "c"), ("no", "yes")), np.round(SHARES * 20_000).astype(np.int64))
    inside = 0
    for seed in range(60):
        trial = collect_pairs(pairs, TrialBudget(2.0), "grr", seed)
        low, high = trial.summary.table.interval()
        inside += int(np.count_nonzero((low <= trial.truth) & (trial.truth <= high)))
    assert binom.cdf(inside, 360, 0.95) > ALARM


def test_two_columns_of_a_data_frame() -> None:
    answers = {"os": ["a", "a", "b", None] * 3_000, "crash": [False, False, False, True] * 3_000}
    learned = overstory.survey_table(answers, epsilon=3, rng=1)
    assert len(learned.pairs.labels[0]) == 3
    assert learned.summary.tested is not None
    assert learned.summary.tested.rejected
    same = overstory.survey_table(pd.DataFrame(answers), epsilon=3, rng=1)
    np.testing.assert_array_equal(same.summary.table.shares, learned.summary.table.shares)
    assert same.true_v == pytest.approx(1.0)
    with pytest.raises(ParameterError, match="3 columns: give two"):
        overstory.survey_table({**answers, "more": [1] * 12_000})
    with pytest.raises(ParameterError, match="two of one length"):
        overstory.survey_table({"a": [1, 2], "b": [1]})
    with pytest.raises(ParameterError, match="nothing can depend on it"):
        overstory.survey_table({"a": ["x", "x"], "b": ["x", "y"]})
