"""``collect --separator`` and ``survey_sets``: a column with several answers in a row, next to the truth."""

import csv
import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binom

import overstory
from overstory.cli.main import main
from overstory.protocol.errors import ParameterError
from overstory.trial.item_sets import SetPeople, collect_sets, count_sets
from overstory.trial.run import TrialBudget

LANGUAGES = {"Python": 0.6, "C": 0.3, "Rust": 0.2, "SQL": 0.45, "Haskell": 0.05}


def answers(count, seed=1):
    draws = random.Random(seed)
    return [[name for name, share in LANGUAGES.items() if draws.random() < share] for _ in range(count)]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("answers") / "people.csv"
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["who", "languages"])
        writer.writerows([n, " ; ".join(held)] for n, held in enumerate(answers(6000)))
    return path


def test_the_column_is_read_as_sets(file):
    people = count_sets(str(file), "languages", ";")
    held = answers(6000)
    assert people.items == tuple(sorted(LANGUAGES))
    assert people.missing == sum(not items for items in held)
    assert len(people) + people.missing == 6000
    assert people.holders.tolist() == [sum(name in items for items in held) for name in people.items]
    assert people.sizes.tolist() == [sum(len(items) == size for items in held if items) for size in range(6)]


@pytest.mark.parametrize("oracle", ["auto", "padding-and-sampling", "item-bits"])
def test_the_command_learns_the_items_and_the_mean_size(file, tmp_path, capsys, oracle):
    given = ["collect", str(file), "--column", "languages", "--separator", ";", "--epsilon", "4", "--seed", "3"]
    assert main([*given, "--oracle", oracle, "-o", str(tmp_path / "out"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "--separator &#x27;;&#x27;" in Path(answer.pop("page")).read_text("utf-8")
    assert answer == json.loads((tmp_path / "out" / "collect.json").read_text())
    assert answer["inside"] >= 3
    assert answer["epsilon_report"] <= 4
    assert len(answer["estimates"]) == answer["items"] == 5
    assert abs(answer["mean_size"]["mean"] - answer["true_mean_size"]) < 0.5
    for row in answer["estimates"]:
        assert abs(row["frequency"] - row["true_share"]) < 6 * row["standard_error"] / answer["rows"] + 0.02
    people = count_sets(str(file), "languages", ";")
    with (tmp_path / "out" / "learned.csv").open() as text:
        assert {row["string"]: int(row["truth"]) for row in csv.DictReader(text)} == dict(
            zip(sorted(LANGUAGES), people.counted(answer["mean_size"]["most"]).round(), strict=True)
        )


def test_what_the_terminal_shows(file, tmp_path, capsys):
    given = ["collect", str(file), "--column", "languages", "--separator", ";", "--epsilon", "3"]
    assert main([*given, "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    for words in ("Items of a row: ", "Instead: item-bits would have", "one report    epsilon 3: odds move", "truth"):
        assert words in printed
    assert "rows have no value and sent nothing" in printed
    assert main([*given, "--most", "2", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("string,estimate,")


def test_equal_seeds_give_equal_results_and_a_smaller_most_counts_less(file):
    people = count_sets(str(file), "languages", ";")
    first, again = (collect_sets(people, TrialBudget(6.0), "item-bits", 7) for _ in range(2))
    assert first.to_json() == again.to_json()
    cut = collect_sets(people, TrialBudget(6.0), "item-bits", 7, most=1)
    assert cut.estimate.mean_size.mean < 1.1
    assert any("near 1: many sets may be larger" in note for note in cut.to_json()["notes"])


# Of 4,000 rows 2% have five items, and 8% none: sets of five are longer than the padding length that has least error.
LARGE = SetPeople(
    tuple("abcde"), ((0,), (0, 1), (1, 2), (0, 1, 2, 3, 4), ()), np.array([1600, 1200, 800, 80, 320]), missing=0
)


def test_the_truth_next_to_an_interval_counts_large_sets_as_the_interval_does():
    learned = collect_sets(LARGE, TrialBudget(2.0), seed=1)
    most = learned.estimate.mean_size.most
    assert most < 5
    truth = {row["value"]: row["true_share"] for row in learned.rows()}
    assert truth["a"] == pytest.approx((2800 + 80 * most / 5) / 4000)
    assert learned.to_json()["true_mean_size"] == pytest.approx((1600 + 2 * 2000 + most * 80) / 4000)
    (said,) = (note for note in learned.to_json()["notes"] if "of the rows have more" in note)
    assert said.startswith(f"2.00% of the rows have more than {most} items")
    assert f"up to {2 * (5 - most) / 5:.2f} points higher, and a row has 1.50 items" in said


@pytest.mark.parametrize("most", [1, 3, 5])
def test_as_many_items_count_as_was_asked_for(most):
    learned = collect_sets(LARGE, TrialBudget(2.0), seed=1, most=most)
    assert learned.estimate.mean_size.most == most
    assert any("of the rows have more" in note for note in learned.to_json()["notes"]) == (most < 5)
    assert not any("padding length was chosen" in note for note in learned.to_json()["notes"])


@pytest.mark.slow
def test_intervals_hold_the_truth_that_is_shown_where_sets_are_too_large():
    """150 collections; by a binomial test of an item's coverage below .94 a false alarm has a chance of 1e-6."""
    hits = np.zeros(6)
    for seed in range(150):
        learned = collect_sets(LARGE, TrialBudget(2.0), seed=seed)
        size = learned.estimate.mean_size.interval()
        inside = [row["low"] <= row["true_share"] * 4000 <= row["high"] for row in sorted_rows(learned)]
        hits += [*inside, size[0] <= learned.true_size <= size[1]]
    assert binom.cdf(hits, 150, 0.94).min() > 1e-6


def sorted_rows(learned):
    return sorted(learned.rows(), key=lambda row: row["value"])


@pytest.mark.parametrize(
    "column",
    [
        lambda rows: rows,
        lambda rows: [set(row) for row in rows],
        lambda rows: [";".join(row) for row in rows],
        pa.array,
        pl.Series,
        pd.Series,
        lambda rows: pa.chunked_array([rows[:100], rows[100:]]),
    ],
    ids=["lists", "sets", "texts", "arrow", "polars", "pandas", "chunks"],
)
def test_equal_columns_of_every_library_give_equal_surveys(column):
    rows = answers(500)
    expected = overstory.survey_sets(rows, epsilon=3, rng=5).to_json()
    assert overstory.survey_sets(column(rows), epsilon=3, rng=5).to_json() == expected
    assert expected["missing"] == 0


def test_missing_values_send_nothing_and_an_empty_list_is_a_set():
    learned = overstory.survey_sets([["a"], [], None, ["a", "b"], float("nan")] * 50, epsilon=2, rng=1)
    assert (len(learned.people), learned.people.missing) == (150, 100)
    assert learned.people.sizes.tolist() == [50, 50, 50]


@pytest.mark.parametrize("column", [["a", "a"], [], [3, 4], [["a"], 5]])
def test_a_column_that_is_none_of_sets_is_refused(column):
    with pytest.raises(ParameterError):
        overstory.survey_sets(column)


def test_nobody_needs_to_hold_an_item():
    people = SetPeople(("a", "b"), ((),), np.array([2000]))
    learned = collect_sets(people, TrialBudget(2.0), seed=1)
    assert abs(learned.estimate.mean_size.mean) < 6 * learned.estimate.mean_size.standard_error
    assert not learned.estimate.detected().any()
