"""A survey in three lines: a column of any library in, its own labels out."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

import overstory
from overstory.protocol.domains.numbers import Bins
from overstory.protocol.errors import ParameterError
from overstory.trial.population import read_population
from overstory.trial.run import TrialBudget
from overstory.trial.values import collect

ANSWERS = ["yes"] * 600 + ["no"] * 300 + [None] * 100


def test_the_order_of_rows_does_not_show():
    forwards, backwards = (overstory.survey(rows, rng=1) for rows in (ANSWERS, ANSWERS[::-1]))
    assert np.array_equal(forwards.raw_counts, backwards.raw_counts)
    assert forwards.values == backwards.values == ("no", "yes", None)


def test_a_survey_estimates_the_column():
    column = pd.Series(ANSWERS * 30)
    truth = {"yes": 0.6, "no": 0.3, None: 0.1}
    for oracle in ("auto", "oue", "olh", "rappor"):
        result = overstory.survey(column, epsilon=2, oracle=oracle, rng=1)
        for value, share in truth.items():
            row = result[value]
            assert abs(row.frequency - share) < 5 * row.frequency_standard_error, (oracle, value)
        assert result.oracle.epsilon_report <= 2 * (1 + 1e-9)


def test_the_same_as_the_command(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("a\n" + "".join(f"{row}\n" for row in ANSWERS if row))
    population = read_population(str(path), "a")
    shown = collect(population, TrialBudget(1.0), "auto", 5).shown
    result = overstory.survey(pd.Series(ANSWERS), missing="drop", rng=5)
    assert result.values == tuple(shown.values) == population.labels
    assert np.array_equal(result.counts, shown.counts)


def test_a_missing_value_is_randomized_like_any_other_and_said():
    """Whether a value is missing is private: no row may show it by sending nothing."""
    result = overstory.survey(pd.Series(ANSWERS), rng=1)
    assert result.num_reports == 1000
    assert result.oracle.labels == ("no", "yes", None)
    assert any("100 of 1,000 rows hold no value: they report (missing)" in note for note in result.notes)
    dropped = overstory.survey(pd.Series(ANSWERS), missing="drop", rng=1)
    assert (dropped.num_reports, None in dropped) == (900, False)
    assert any("was not protected" in note for note in dropped.notes)


def test_a_text_that_reads_like_a_missing_value_is_another():
    for oracle in ("auto", "rappor"):
        result = overstory.survey(["(missing)"] * 5000 + [None] * 10_000, epsilon=4, oracle=oracle, rng=1)
        assert round(result["(missing)"].frequency, 1) == 0.3
        assert round(result[None].frequency, 1) == 0.7


def test_labels_are_the_domain():
    result = overstory.survey(ANSWERS, labels=["yes", "no", "never", None], rng=1)
    assert result.values == ("yes", "no", "never", None)
    assert not any("was read off" in note for note in result.notes)
    assert overstory.survey(ANSWERS, labels=["yes", "no"], missing="drop", rng=1).num_reports == 900
    for labels, problem in (
        (["yes", "no"], "100 of 1,000 rows hold no value. List None"),
        (["yes", None], "'no' is none of the 2 labels: 'yes', None"),
        (["yes"], "at least two"),
    ):
        with pytest.raises(ParameterError, match=problem):
            overstory.survey(ANSWERS, labels=labels)


def test_booleans_are_both_known_beforehand():
    result = overstory.survey(pd.Series([True] * 100), rng=1)
    assert result.values == (False, True)
    assert result.notes == ()
    assert any("was read off" in note for note in overstory.survey([0, 1] * 100, rng=1).notes)


def test_names_are_too_many_and_the_survey_says_that_it_shows_nothing():
    result = overstory.survey([f"name {i}" for i in range(500)], rng=1)
    note = "no value was detected: 500 reports at this epsilon are few for 500 values"
    assert note in result.notes
    assert str(result).endswith(f"note: {note}")


def test_one_value_has_another_to_be_told_from():
    assert overstory.survey([5] * 100, rng=1).values == (5, "(another value)")


def test_numbers_go_into_bins():
    ages = pd.Series([0.42, 30.5, None, 80.0, 99.0])
    result = overstory.survey(ages, bins=(0, 80, 4), rng=1)
    assert result.values == (*Bins(0, 80, 4).labels, None)
    assert "numbers outside the bins, counted in the nearest: 1" in result.notes
    again = overstory.survey(pl.Series([0.42, 30.5, None, 80.0, 99.0]), bins=Bins(0, 80, 4), rng=1)
    assert np.array_equal(result.raw_counts, again.raw_counts)
    with pytest.raises(ParameterError, match=r"row 0 holds 0\.42.*bins=\(0, 99, 20\)"):
        overstory.survey(ages)
    notes = overstory.survey(range(200), rng=1).notes
    assert any("200 different numbers" in note and "bins=(0, 200, 20)" in note for note in notes)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"missing": "ignore"}, "missing = 'ignore': choose one of value, drop"),
        ({"bins": 3}, "bins = 3: give the minimum, the maximum and how many"),
        ({"bins": (0, 1, 2)}, "a column of numbers is expected"),
        ({"bins": (0, 1, 2), "labels": ["a", "b"]}, "bins or labels, not both"),
        ({"oracle": "gr"}, "there is no oracle 'gr'"),
        ({"epsilon": 0}, "epsilon = 0: give a number above 0"),
        ({"epsilon": "1"}, "epsilon = '1': give a number above 0"),
        *(({"rng": rng}, "rng = .*numpy.random.Generator, or None") for rng in ("x", -1, 1.5, True)),
    ],
    ids=str,
)
def test_a_wrong_argument_is_one_clear_error(arguments, problem):
    with pytest.raises(ParameterError, match=problem):
        overstory.survey(ANSWERS, **arguments)


def test_an_empty_column_and_too_many_values_are_refused():
    for column, missing in (([], "value"), ([None], "drop"), (pd.Series([], dtype=object), "value")):
        with pytest.raises(ParameterError, match="nothing to survey"):
            overstory.survey(column, missing=missing)
    with pytest.raises(ParameterError, match=r"10,001 distinct values.*labels="):
        overstory.survey([f"id{i}" for i in range(10_001)])


def test_rng_is_as_numpy_takes_it():
    seeds = (1, np.int64(1), np.uint8(1))
    same = [overstory.survey(ANSWERS, rng=seed).raw_counts.tolist() for seed in seeds]
    assert same[0] == same[1] == same[2]
    drawn = [overstory.survey(ANSWERS, rng=np.random.default_rng(1)).raw_counts.tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]
    fresh = [overstory.survey(ANSWERS, rng=rng).raw_counts.tolist() for rng in (None, None, 2)]
    assert all(one != other for one, other in itertools.combinations([*fresh, same[0], drawn[0]], 2))


def test_what_a_survey_says_of_itself():
    result = overstory.survey(ANSWERS, epsilon=np.float32(1), rng=1)
    assert repr(result).startswith("Survey(1,000 reports, 3 values, ")
    assert repr(result).endswith(f"{result.oracle.name}, epsilon 1)")
    assert {"oracle", "epsilon_report", "steps", "notes"} <= set(result.summary())
    assert result.oracle.name in result._repr_html_()
    low, high = result.interval()
    assert ((low <= result.counts) & (result.counts <= high)).all()


DAYS = pd.date_range("2026-01-05", periods=120).repeat(20)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(DAYS),
        DAYS.to_numpy(),
        DAYS.to_numpy().astype("datetime64[h]"),
        pl.Series(DAYS.to_list()),
        pd.Series(DAYS).dt.tz_localize("America/Lima"),
        [day.date() for day in DAYS],
    ],
    ids=["pandas", "numpy", "numpy of hours", "polars", "with a time zone", "list"],
)
def test_dates_are_counted_by_weeks_or_what_is_asked_for(column):
    result = overstory.survey(column, epsilon=4, rng=1)
    assert result.values == tuple(f"2026-W{week:02}" for week in range(2, 20))
    assert abs(result["2026-W02"].frequency - 7 / 120) < 5 * result["2026-W02"].frequency_standard_error
    assert "dates were counted by week; by= gives another of day, week, month, year" in result.notes
    months = overstory.survey(column, by="month", rng=1)
    assert months.values == ("2026-01", "2026-02", "2026-03", "2026-04", "2026-05")


def test_periods_of_pandas_are_as_they_print_and_missing_dates_are_missing():
    periods = pd.Series([*DAYS, pd.NaT]).dt.to_period("Q")
    assert overstory.survey(periods, rng=1).values == ("2026Q1", "2026Q2", None)
    assert overstory.survey(pd.Series([*DAYS, pd.NaT]), by="year", rng=1).values == ("2026", None)
    assert overstory.survey(pd.Series([pd.NaT, pd.NaT]), rng=1).values == (None, "(another value)")
    with pytest.raises(ParameterError, match="by = 'week': a column of dates is expected, not of string"):
        overstory.survey(ANSWERS, by="week")
    with pytest.raises(ParameterError, match="dates are not counted by 'hour': choose one of day, week, month, year"):
        overstory.survey(DAYS, by="hour")


# What newcomers met

THREE_DAYS = pd.to_datetime(["2026-01-01"] * 50 + ["2026-01-02"] * 900 + ["2026-01-03"] * 400)
LEVELS = pd.Series(pd.Categorical(["low"] * 50 + ["mid"] * 900 + ["high"] * 50, ["low", "mid", "high"], ordered=True))


@pytest.mark.parametrize(
    ("column", "given"),
    [(pd.Series(THREE_DAYS), {}), (LEVELS, {}), (pd.Series([5.0] * 50 + [15.0] * 900), {"bins": (0, 20, 2)})],
)
def test_dates_bins_and_ordered_categories_keep_their_order(column, given):
    result = overstory.survey(column, 3, rng=1, **given)
    assert [row.value for row in result] == [*result.values] == [*result.to_pandas()["value"]]
    assert result.order().tolist() != np.argsort(-result.counts).tolist()


def test_values_that_differ_in_a_blank_are_quoted_and_noted():
    names = ["north"] * 900 + ["north "] * 300 + ["new  york"] * 600
    result = overstory.survey(names, 4, rng=1)
    alike = "the column: 'north ' and 'north' look alike and are counted apart"
    note = f"{alike}; str.strip() and str.casefold() make them one"
    assert note in result.notes
    assert all(text in str(result) for text in ("\nnorth  ", '\n"north "  ', '\n"new  york"  '))
    assert note in overstory.survey_sets([[name] for name in names], 4, rng=1).notes
    assert note.replace("the column", "city") in overstory.survey_table({"city": names, "x": [0, 1] * 900}, 4).notes


def test_advice_in_python_names_no_option_of_the_command_line():
    results = (
        overstory.survey(ANSWERS, rng=1),
        overstory.survey_numbers([*range(100), None], rng=1),
        overstory.survey_sets([["a"], ["a", "b"], None] * 100, rng=1),
        overstory.survey_table({"x": ["a", "b"] * 100, "y": ["c", "d"] * 100}, rng=1),
    )
    for result in results:
        assert result.notes
        assert not [note for note in result.notes if "--" in note or "your file" in note]
    assert "1 of 101 rows hold no value and sent nothing: that they hold none was not protected" in results[1].notes


def test_a_csv_has_the_names_of_the_frame():
    result = overstory.survey(ANSWERS, rng=1)
    header = result.table(form="csv").partition("\n")[0].split(",")
    assert header[0] == "value"
    assert {*header} <= {*result.to_pandas().columns}
