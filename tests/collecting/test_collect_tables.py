"""collect of two columns: pairs are counted in one pass, reported, and learned next to the truth."""

import csv
import json
import random

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
from overstory.trial.numbers import LEARNED, Numbers, collect_numbers, survey_numbers
from overstory.trial.run import TrialBudget
from overstory.trial.tables import Pairs, collect_pairs, count_pairs
from support.running import within

ALARM = 1e-6
SHARES = np.array([[0.45, 0.05], [0.30, 0.10], [0.07, 0.03]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file of versions, crashes (60 rows without) and seconds, with a thousand different numbers."""
    path = tmp_path_factory.mktemp("pairs")
    drawn = np.random.default_rng(1)
    cells = drawn.choice(6, 30_000, p=SHARES.ravel())
    with (path / "crashes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["version", "crash", "seconds"])
        for row, cell in enumerate(cells.tolist()):
            crash = "" if row % 500 == 0 else ("no", "yes")[cell % 2]
            writer.writerow([f"{cell // 2 + 1}.0", crash, row % 1_000 / 10])
    return path


def test_pairs_are_counted_in_one_pass(folder):
    path = str(folder / "crashes.csv")
    pairs = count_pairs(path, ["version", "crash"])
    with (folder / "crashes.csv").open(newline="") as file:
        rows = [(row["version"], row["crash"]) for row in csv.DictReader(file)]
    assert pairs.labels == (("1.0", "2.0", "3.0"), ("no", "yes"))
    assert pairs.missing == 60 == sum(not crash for _, crash in rows)
    for (i, version), (j, crash) in _cells(pairs):
        assert pairs.counts[i, j] == rows.count((version, crash))


def _cells(pairs):
    return [((i, x), (j, y)) for i, x in enumerate(pairs.labels[0]) for j, y in enumerate(pairs.labels[1])]


def test_many_numbers_are_counted_in_bins(folder):
    pairs = count_pairs(str(folder / "crashes.csv"), ["version", "seconds"])
    assert len(pairs.labels[1]) <= 10
    assert int(pairs.counts.sum()) == 30_000
    assert "seconds: 1,000 different numbers were counted in" in pairs.notes[1]


def test_the_text_says_what_was_learned(folder):
    ran = within("collect", "crashes.csv", "--column", "version", "--column", "crash", "--epsilon", "2", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "crash in each version" in ran.stdout
    assert "version and crash depend on each other" in ran.stdout
    assert "Truth: Cramer's V of these rows is 0.2" in ran.stdout
    assert "60 of 30,000 rows hold no value in one of the columns and sent nothing" in ran.stdout
    assert "Page: out/collect/collect.html" in ran.stdout
    page = (folder / "out/collect/collect.html").read_text()
    assert "<svg" in page
    assert "overstory collect crashes.csv --column version --column crash --epsilon 2<" in page
    lines = list(csv.DictReader((folder / "out/collect/learned.csv").read_text().splitlines()))
    assert len(lines) == 6
    assert sum(float(line["reported"]) for line in lines) == pytest.approx(1.0)
    written = json.loads((folder / "out/collect/collect.json").read_text())
    assert written["columns"] == ["version", "crash"]
    assert written["independence"]["independence_rejected"]


def test_intervals_hold_the_truth_of_the_rows():
    """At least 95% of the intervals (they count the sampling of people too); wrong once in a million, seeds fixed."""
    pairs = Pairs(("x", "y"), (("a", "b", "c"), ("no", "yes")), np.round(SHARES * 20_000).astype(np.int64))
    inside = 0
    for seed in range(60):
        trial = collect_pairs(pairs, TrialBudget(2.0), "grr", seed)
        low, high = trial.estimate.interval()
        inside += int(np.count_nonzero((low <= trial.truth) & (trial.truth <= high)))
    assert binom.cdf(inside, 360, 0.95) > ALARM


def test_two_columns_of_a_data_frame():
    answers = {"os": ["a", "a", "b", None] * 3_000, "crash": [False, False, False, True] * 3_000}
    learned = overstory.survey_table(answers, epsilon=3, rng=1)
    assert len(learned.people.labels[0]) == 3
    assert learned.summary.tested.rejected
    same = overstory.survey_table(pd.DataFrame(answers), epsilon=3, rng=1)
    np.testing.assert_array_equal(same.estimate.shares, learned.estimate.shares)
    assert same.true_v == pytest.approx(1.0)
    with pytest.raises(ParameterError, match="3 columns: give two"):
        overstory.survey_table({**answers, "more": [1] * 12_000})
    with pytest.raises(ParameterError, match="two of one length"):
        overstory.survey_table({"a": [1, 2], "b": [1]})
    with pytest.raises(ParameterError, match="nothing can depend on it"):
        overstory.survey_table({"a": ["x", "x"], "b": ["x", "y"]})


# A column of numbers: the estimates beside the truth, on the command line and in Python
NUMBERS = np.random.default_rng(1).beta(2, 5, 20_000) * 2


@pytest.mark.parametrize("learned", LEARNED)
def test_numbers_are_learned_beside_the_truth(learned):
    trial = overstory.survey_numbers([*NUMBERS, None, 9], epsilon=2, learn=learned, minimum=0, maximum=2, rng=1)
    rows = list(trial.rows())
    assert (trial.people.missing, trial.estimate.num_reports) == (1, 20_001)
    assert trial.facts()["intervals_that_hold_the_truth"] == sum(row["holds"] for row in rows) >= 0.7 * len(rows)
    assert rows[0]["kind"] != "mean" or rows[0]["truth"] == pytest.approx(NUMBERS.mean(), abs=1e-3)
    assert "1 numbers lie outside the range and count as the nearest end" in trial.notes


def test_a_range_is_chosen_and_what_holds_no_numbers_is_refused():
    chosen = overstory.survey_numbers(NUMBERS, rng=1)
    assert chosen.notes[0].startswith("the range was chosen by the numbers themselves")
    assert 0 <= chosen.mechanism.parameters["minimum"] <= 0.1
    with pytest.raises(ParameterError, match="holds no numbers"):
        survey_numbers(np.array([np.nan]))
    with pytest.raises(ParameterError, match="choose one of mean, distribution"):
        survey_numbers(NUMBERS, learn="median")


def test_large_columns_are_counted_in_chunks():
    numbers, seen = np.full(150_000, 0.5), []
    trial = collect_numbers(Numbers(numbers), TrialBudget(), minimum=0, maximum=1, advance=seen.append)
    assert seen == [1 << 17, 150_000 - (1 << 17)]
    assert trial.estimate.num_reports == 150_000


# ``collect --separator`` and ``survey_sets``: a column with several answers in a row, next to the truth
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
    assert people.labels == tuple(sorted(LANGUAGES))
    assert people.missing == sum(not items for items in held)
    assert len(people) + people.missing == 6000
    assert people.holders.tolist() == [sum(name in items for items in held) for name in people.labels]
    assert people.sizes.tolist() == [sum(len(items) == size for items in held if items) for size in range(6)]


def test_what_the_terminal_shows(file, tmp_path, capsys):
    given = ["collect", str(file), "--column", "languages", "--separator", ";", "--epsilon", "3"]
    assert main([*given, "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    for words in ("Items of a row: ", "Instead: item-bits would have", "one report    epsilon 3: odds move", "truth"):
        assert words in printed
    assert "rows hold no value and sent nothing" in printed
    assert main([*given, "--most", "2", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("string,estimate,")


@pytest.mark.parametrize("oracle", ["auto", "padding-and-sampling", "item-bits"])
def test_items_and_the_mean_size_are_learned_beside_the_truth(file, oracle):
    learned = collect_sets(count_sets(str(file), "languages", ";"), TrialBudget(4.0), oracle, 3)
    assert learned.inside >= 3
    assert learned.kind.epsilon_report <= 4
    assert abs(learned.estimate.mean_size.mean - learned.true_size) < 0.5
    for row in learned.rows():
        error = row["standard_error"] / len(learned.people)
        assert abs(row["frequency"] - row["true_frequency"]) < 6 * error + 0.02


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
    truth = {row["value"]: row["true_frequency"] for row in learned.rows()}
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
        inside = [row["low"] <= row["true_frequency"] * 4000 <= row["high"] for row in sorted_rows(learned)]
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
