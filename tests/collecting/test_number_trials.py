"""A column of numbers: the estimates beside the truth, on the command line and in Python."""

import csv
import json

import numpy as np
import pytest

import overstory
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric import Duchi, Hybrid, Interval, Piecewise, SquareWave
from overstory.trial.numbers import LEARNED, Numbers, collect_numbers, mean_error, measure_means, survey_numbers
from support.running import within

NUMBERS = np.random.default_rng(1).beta(2, 5, 20_000) * 2


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    path = tmp_path_factory.mktemp("homes") / "homes.csv"
    path.write_text("kwh,who\n" + "".join(f"{number:.6f},a\n" for number in NUMBERS) + ",b\nNaN,c\n,d\n9,e\n")
    return path


def collected(path, *options):
    done = within("collect", path, "--column", "kwh", *options, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("learned", LEARNED)
def test_a_column_is_collected_and_shown_beside_the_truth(homes, learned, tmp_path):
    asked = ("--numeric", learned, "--range", 0, 2, "--epsilon", 2, "-o", tmp_path)
    trial = json.loads(collected(homes, *asked, "--json"))
    assert trial["estimate"] == learned
    assert trial["reports"] == 20_001
    assert trial["missing"] == 3
    rows = trial["estimates"]
    assert trial["intervals_that_hold_the_truth"] == sum(row["holds"] for row in rows) >= 0.7 * len(rows)
    if rows[0]["kind"] == "mean":
        assert rows[0]["truth"] == pytest.approx(NUMBERS.mean(), abs=1e-3)
    assert "1 numbers lie outside the range and count as the nearest end" in trial["notes"]
    with (tmp_path / "learned.csv").open() as text:
        assert [row["kind"] for row in csv.DictReader(text)] == [row["kind"] for row in rows]
    assert f"intervals of 95% hold the truth\n{3} rows without a number send nothing" in collected(homes, *asked)


def test_the_mean_is_the_default_and_a_seed_repeats_itself(homes, tmp_path):
    asked = ("--numeric", "--range", 0, 2, "--seed", 5, "-o", tmp_path, "--json")
    first, second = (json.loads(collected(homes, *asked)) for _ in range(2))
    assert first == second
    assert first["oracle"] == "hybrid"


def test_a_range_that_is_not_given_is_chosen_and_said_to_be(homes, tmp_path):
    trial = json.loads(collected(homes, "--numeric", "-o", tmp_path, "--json"))
    assert trial["notes"][0].startswith("the range was chosen by your own numbers")
    assert 0 <= trial["parameters"]["minimum"] <= 0.1


def test_mechanisms_are_measured_on_a_column(homes):
    asked = ("compare", homes, "--column", "kwh", "--numeric", 0, 2, "--epsilon", 1)
    rows = json.loads(within(*asked, "--json", "--measure", 200, cwd=homes.parent).stdout)["randomizers"]
    assert [row["exact"] for row in rows] == sorted(row["exact"] for row in rows)
    for row in rows:
        # The root of a mean of 200 squares: five of its own standard errors.
        assert abs(row["measured_error"] - row["exact"]) < 5 * row["exact"] / np.sqrt(400)
        assert row["measured_runs"] == 200
    text = within(*asked, "--measure", 2, cwd=homes.parent).stdout
    assert "measured: root mean square error of 2 simulated collections" in text


@pytest.mark.parametrize("kind", [Duchi, Piecewise, Hybrid, SquareWave])
def test_the_exact_error_is_the_average_variance(kind):
    built, numbers = kind(1.0, Interval(0, 2), 64), np.array([0.0, 0.5, 0.75, 2.0])
    places = [built.value_at(built.position(value)) for value in numbers.tolist()]
    if kind is not SquareWave:
        each = [float(built.variance(value)) for value in places]
        assert mean_error(built, np.array([float(p) for p in places])) == pytest.approx(np.sqrt(np.mean(each) / 4))
    error, spread = measure_means(built, np.tile(numbers, 500), rounds=100, rng=3)
    assert abs(error - mean_error(built, np.tile(numbers, 500))) < 5 * spread + 0.02
    assert measure_means(built, numbers, rounds=1, rng=3)[1] is None


def test_numbers_in_python():
    trial = overstory.survey_numbers([*NUMBERS, None], epsilon=2, learn="distribution", minimum=0, maximum=2, rng=1)
    assert isinstance(trial, overstory.NumberTrial)
    assert trial.missing == 1
    assert trial.truth[0] == pytest.approx(NUMBERS.mean())
    with pytest.raises(ParameterError, match="holds no numbers"):
        survey_numbers(np.array([np.nan]))
    with pytest.raises(ParameterError, match="choose one of mean, distribution, ranges"):
        survey_numbers(NUMBERS, learn="median")


def test_large_columns_are_counted_in_chunks():
    numbers, seen = np.full(150_000, 0.5), []
    trial = collect_numbers(Numbers(numbers), "mean", minimum=0, maximum=1, rng=1, advance=seen.append)
    assert seen == [1 << 17, 150_000 - (1 << 17)]
    assert trial.estimate.num_reports == 150_000
