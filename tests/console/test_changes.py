"""The sentences of the board: who overtook whom, what changed, what would have been seen, how often they are wrong."""

import datetime as dt
import math
import re
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from overstory import Estimate
from overstory.analysis.numeric.quantities import NumberEstimate, Quantity
from overstory.analysis.selection import people_variance
from overstory.collector.store.operations import Note
from overstory.console.changes import ALPHA, Point, Trend, largest
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
    errors = REPORTS * np.broadcast_to(error, len(shares))
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
            (
                "dark overtook light in the week of 2 November, +30 points since 3.1. light −30 points since 3.1. "
                f"No change {BEFORE} {QUIET}"
            ),
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
    size = math.ceil(10 * change_that_is_seen()) / 10
    assert trend(*map(week, shares), **asked).sentence == sentence.format(f"{size:.2g}")


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        (1, " 1 of 3 values cannot be compared."),
        (3, "seen. 3 of 3 values cannot be compared."),
        (0, "would have been."),
    ],
)
def test_values_that_cannot_be_compared_are_left_out_of_what_would_have_been_seen(unknown, words):
    errors = np.array([0.005, 0.005, 0.005])
    errors[:unknown] = np.inf
    said = trend(week(LIGHT, errors), week(LIGHT, errors)).sentence
    assert said.endswith(words)
    assert ("would have been" in said) == (unknown < 3)


def test_what_would_have_been_seen_is_rounded_up():
    point = Point.of(week(LIGHT))
    sizes = {
        0.03101: "3.2 points",
        0.031: "3.1 points",
        0.0996: "10 points",
        0.99501: "100 points",
        1e-5: "0.001 points",
    }
    assert {size: point.size_at_least(size) for size in sizes} == sizes
    assert replace(point, is_share=False).size_at_least(56_001.0) == "57,000"


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


BOARDS, ERROR = 400, 0.02
MARGIN = 3 * np.sqrt(ALPHA / BOARDS)


def drawn(shares, rng):
    shares = np.array(shares)
    return week(rng.normal(shares, np.sqrt(ERROR**2 + shares * (1 - shares) / REPORTS)), ERROR)


def change_of(points):
    """Return the shares of EVEN after dark took so many points from light; contrast stays."""
    return EVEN[0] - points / 100, EVEN[1] + points / 100, EVEN[2]


def stated(metrics):
    """Return the change, in points, that the sentence of a board of so many metrics says would have been seen."""
    quiet = trend(week(EVEN, ERROR), week(EVEN, ERROR), metrics=metrics).sentence
    return float(re.search(r"a change of ([\d.]+) points", quiet)[1])


def false_share(metrics, changing, assumed):
    """Return the mean share of false ones among all that boards find on which `changing` of the metrics change."""
    rng, shares, after = np.random.default_rng(20261128), [], change_of(stated(metrics))
    for _ in range(BOARDS):
        false = found = 0
        for number in range(metrics):
            ends = EVEN, EVEN, after if number < changing else EVEN
            made = trend(*(drawn(each, rng) for each in ends), notes=RELEASE, metrics=assumed)
            changed = np.array([both.changed() for both in made.changes.values()])
            overtook = made.overtaking is not None  # nobody leads in EVEN
            assert any(mark in made.sentence for mark in ("overtook", "+", "−")) == (changed.any() or overtook)
            found += changed.sum() + overtook
            false += (changed[:, 2:] if number < changing else changed).sum() + overtook
        shares.append(false / max(found, 1))
    return np.mean(shares)


@pytest.mark.parametrize(("metrics", "changing"), [(1, 0), (8, 0), (6, 2)])
def test_of_what_a_board_finds_one_in_twenty_is_chance_at_most(metrics, changing):
    assert false_share(metrics, changing, metrics) <= ALPHA + MARGIN


def test_without_the_correction_for_many_metrics_the_test_above_fails():
    assert false_share(8, 0, 1) > ALPHA + MARGIN


@pytest.mark.parametrize(("part", "is_seen"), [(1.0, True), (0.7, False)])
def test_a_change_that_would_have_been_seen_is_seen_19_times_in_20(part, is_seen):
    rng, metrics, draws = np.random.default_rng(20261130), 6, 2_000
    after = change_of(part * stated(metrics))
    seen = sum(
        trend(drawn(EVEN, rng), drawn(after, rng), metrics=metrics).changes[BEFORE].changed()[1] for _ in range(draws)
    )
    assert (seen / draws >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)) == is_seen
