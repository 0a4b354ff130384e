"""The sentences of the board: who overtook whom, what changed, what would have been seen, how often they are wrong."""

import datetime as dt
from statistics import NormalDist

import numpy as np
import pytest

from overstory import Estimate
from overstory.analysis.numeric.quantities import NumberEstimate, Quantity
from overstory.analysis.selection import people_variance
from overstory.collector.store.operations import Note
from overstory.console.changes import ALPHA, Trend, largest
from overstory.presentation.formats import date_words
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.period import DAY
from support.registry_texts import registry_of

REGISTRY = parse_registry(registry_of({"theme": {"period": '"week"'}, "daily": {"period": '"day"'}}))
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC).timestamp()
NAMES = ("light", "dark", "contrast")
REPORTS = 10_000


def week(shares, error=0.005):
    counts = REPORTS * np.array(shares)
    errors = np.full(len(shares), REPORTS * error)
    return Estimate(
        values=NAMES[: len(shares)], counts=counts, raw_counts=counts, standard_errors=errors, num_reports=REPORTS
    )


def mean(value):
    row = Quantity("mean", "", value, 0.1, value - 0.2, value + 0.2)
    return NumberEstimate("mean", REPORTS, (row,))


def trend(*estimates, name="theme", notes=(), metrics=1, skip=0):
    metric = REGISTRY[name]
    newest = metric.period.number(NOW) - 1
    periods = [newest - skip * (back > 0) - back for back in range(len(estimates) - 1, -1, -1)]
    made = [Note("0", None, int(day), "release", text) for day, text in notes]
    found = dict(zip(periods, estimates, strict=True))
    return Trend.of(metric, found, made, metrics, lambda period: date_words(metric.period.label(period), 2026))


def day_of(weeks_ago):
    return REGISTRY["theme"].period.start(REGISTRY["theme"].period.number(NOW) - weeks_ago) // DAY


LIGHT, EVEN, DARK = (0.6, 0.3, 0.1), (0.45, 0.45, 0.1), (0.3, 0.6, 0.1)
BEFORE = "against the week before"
QUIET = "that could be seen; a change of {} points or more would have been."
RELEASE = [(day_of(2), "Version 3.1 is out")]


@pytest.mark.parametrize(
    ("shares", "asked", "sentence"),
    [
        (
            [LIGHT, LIGHT, DARK],
            {},
            "dark overtook light in the week of 9 November. light −30 points, dark +30 points against the week before.",
        ),
        (
            [LIGHT, DARK, DARK],
            {"notes": RELEASE},
            f"dark overtook light in the week of 2 November, +30 points since 3.1. No change {BEFORE} {QUIET}",
        ),
        (
            [LIGHT, EVEN, DARK],
            {},
            (
                "dark overtook light between the week of 26 October and the week of 9 November. "
                f"light −15 points, dark +15 points {BEFORE}."
            ),
        ),
        ([LIGHT, LIGHT], {}, f"No change against the week before {QUIET}"),
        ([LIGHT, LIGHT, LIGHT], {"notes": RELEASE}, f"No change against the week before or since 3.1 {QUIET}"),
        ([LIGHT, LIGHT], {"notes": [(day_of(1), "the new one")]}, f"No change since “the new one” {QUIET}"),
        ([LIGHT, LIGHT], {"notes": [(day_of(0), "3.2")]}, f"No change against the week before {QUIET}"),
        ([LIGHT, LIGHT], {"skip": 2}, f"No change against the week of 19 October {QUIET}"),
        ([LIGHT], {}, "One week has reports: there is nothing to compare it with yet."),
        ([], {}, ""),
        ([EVEN, DARK], {}, "light −15 points, dark +15 points against the week before."),
        ([LIGHT, EVEN], {}, "dark +15 points, light −15 points against the week before."),
        (
            [LIGHT, DARK],
            {"name": "daily"},
            "dark overtook light on 20 November. light −30 points, dark +30 points against the day before.",
        ),
    ],
)
def test_a_sentence_says_what_surely_changed_and_else_what_would_have_been_seen(shares, asked, sentence):
    assert trend(*map(week, shares), **asked).sentence == sentence.format(f"{change_that_is_seen():.2g}")


def change_that_is_seen():
    """Return, in points, the change that 19 of 20 tests of three values at this level see."""
    counts = REPORTS * np.array(LIGHT)
    people = people_variance(counts, REPORTS, 1.0)
    error = np.sqrt((0.005 * REPORTS) ** 2 + people) / REPORTS
    needed = NormalDist().inv_cdf(1 - ALPHA / 3 / 2 / 3) + NormalDist().inv_cdf(0.95)
    return 100 * needed * np.sqrt(2) * error.max()


def test_a_mean_has_no_points():
    assert trend(mean(3.0), mean(5.0)).sentence == "mean +2 against the week before."
    quiet = trend(mean(3.0), mean(3.1))
    assert quiet.sentence.startswith("No change against the week before that could be seen; a change of 0.")
    assert largest(mean(3.1)) == "mean 3.1 (2.904 to 3.296)"
    assert quiet.picture().caption == "Mean of T, 2 November to 9 November"


def test_a_picture_has_the_largest_shares_a_gap_and_none_where_there_is_noise_alone():
    made = trend(week(LIGHT), week(DARK), skip=1, notes=RELEASE)
    svg = made.picture().svg
    assert [svg.index(f'data-name="{name}"') for name in ("dark", "light", "contrast")]
    assert svg.count("data-line=") == 0, "each of two weeks is by itself: the one between them has no reports"
    assert ">3.1</text>" in svg
    assert trend(week(LIGHT, error=0.3), week(DARK, error=0.3)).picture() is None


@pytest.mark.parametrize("metrics", [1, 20])
def test_a_board_of_nothing_but_noise_names_a_change_in_one_of_twenty_at_most(metrics):
    assert named(metrics, metrics) <= ALPHA + 3 * np.sqrt(ALPHA / BOARDS)


def test_without_the_correction_for_many_metrics_the_test_above_fails():
    assert named(20, 1) > ALPHA + 3 * np.sqrt(ALPHA / BOARDS)


BOARDS = 400


def named(metrics, assumed):
    rng, error = np.random.default_rng(20261128), 0.02
    shares = np.array(EVEN)
    noise = np.sqrt(error**2 + shares * (1 - shares) / REPORTS)
    boards = 0
    for _ in range(BOARDS):
        told = (
            trend(*(week(rng.normal(shares, noise), error) for _ in range(3)), notes=RELEASE, metrics=assumed).sentence
            for _ in range(metrics)
        )
        boards += any("overtook" in sentence or "+" in sentence or "−" in sentence for sentence in told)
    return boards / BOARDS
