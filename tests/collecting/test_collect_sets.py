"""``collect --separator`` and ``survey_sets``: a column with several answers in a row, next to the truth."""

import csv
import json
import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

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
    assert answer == json.loads((tmp_path / "out" / "collect.json").read_text())
    assert answer["inside"] >= 3
    assert answer["epsilon_report"] <= 4
    assert len(answer["estimates"]) == answer["items"] == 5
    assert abs(answer["mean_size"]["mean"] - answer["true_mean_size"]) < 0.5
    for row in answer["estimates"]:
        assert abs(row["frequency"] - row["true_share"]) < 6 * row["standard_error"] / answer["rows"] + 0.02
    with (tmp_path / "out" / "learned.csv").open() as text:
        assert {row["string"]: int(row["truth"]) for row in csv.DictReader(text)} == dict(
            zip(sorted(LANGUAGES), count_sets(str(file), "languages", ";").holders.tolist(), strict=True)
        )


def test_what_the_terminal_shows(file, tmp_path, capsys):
    given = ["collect", str(file), "--column", "languages", "--separator", ";", "--epsilon", "3"]
    assert main([*given, "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    for words in ("Items of a row: ", "Instead: item-bits would have", "epsilon 3.0000 for the set", "truth"):
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


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--separator", ""], "give the text between two items"),
        (["--separator", ";", "--oracle", "grr"], "there is no mechanism 'grr' for sets"),
        (["--separator", ";", "--bins", "0", "1", "2"], "--bins is for one value in a row"),
        (["--separator", ";", "--reports-per-device", "3"], "sets are reported in one round"),
        (["--separator", ";", "--most", "9"], "most = 9"),
        (["--most", "3"], "give --separator too"),
        (["--separator", "|||", "--column", "who"], "--column"),
    ],
)
def test_what_does_not_fit_is_named(file, tmp_path, capsys, more, words):
    assert main(["collect", str(file), "--column", "languages", *more, "-o", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("column", [["a", "a"], [], [3, 4], [["a"], 5]])
def test_a_column_that_is_none_of_sets_is_refused(column):
    with pytest.raises(ParameterError):
        overstory.survey_sets(column)


def test_nobody_needs_to_hold_an_item():
    people = SetPeople(("a", "b"), ((),), np.array([2000]))
    learned = collect_sets(people, TrialBudget(2.0), seed=1)
    assert abs(learned.estimate.mean_size.mean) < 6 * learned.estimate.mean_size.standard_error
    assert not learned.estimate.detected().any()
