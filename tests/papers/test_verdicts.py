"""A verdict is computed from what was published and what was found, and cannot be written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.analysis.selection import clopper_pearson
from overstory.protocol.errors import ParameterError
from papers.comparison import (
    AGREES,
    DIFFERS,
    LEVEL,
    NEW,
    Comparison,
    Published,
    about,
    at_least,
    at_most,
    exact,
    printed,
    proportion,
    simulated,
    stated,
)


@pytest.mark.parametrize(
    ("text", "ours", "verdict"),
    [
        ("1.0743", 1.07429, AGREES),
        ("1.0743", 1.07436, DIFFERS),
        ("2,810", 2810.4, AGREES),
        ("2,810", 2811, DIFFERS),
        ("1.39e-24", 1.393e-24, AGREES),
        ("1.39e-24", 1.396e-24, DIFFERS),
        ("0.5", 0.549, AGREES),
        ("47", 47, AGREES),
    ],
)
def test_a_printed_number_stands_for_what_rounds_to_it(text, ours, verdict):
    assert exact("x", ours, printed(text, "here")).verdict == verdict


@pytest.mark.parametrize(
    ("published", "low", "high", "verdict"),
    [
        (about(100, "here"), 109, 120, AGREES),
        (about(100, "here"), 111, 120, DIFFERS),
        (at_least(35, "here"), 20, 36, AGREES),
        (at_least(35, "here"), 20, 34, DIFFERS),
        (at_least(35, "here"), 90, 99, AGREES),
        (at_most(35, "here"), 34, 99, AGREES),
        (at_most(35, "here"), 36, 99, DIFFERS),
        (at_most(35, "here"), 1, 2, AGREES),
        (None, 1, 2, NEW),
    ],
)
def test_intervals_against_numbers_and_bounds(published, low, high, verdict):
    assert Comparison("x", (low + high) / 2, low, high, published=published).verdict == verdict


def test_words_agree_with_the_same_words_only():
    assert stated("best h", "2", Published("2", "figure 2")).verdict == AGREES
    assert stated("best h", "1", Published("2", "figure 2")).verdict == DIFFERS
    assert stated("best h", "1").verdict == NEW


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=20), st.integers(1, 10))
def test_the_spread_of_runs_covers_their_mean_and_shrinks_with_averaging(runs, averaged):
    one, many = simulated("x", runs), simulated("x", runs, averaged=averaged + 1)
    assert one.low <= one.ours <= one.high
    assert many.high - many.low <= (one.high - one.low) * (1 + 1e-9) + 1e-9


def test_a_further_run_falls_into_the_interval_as_often_as_is_said():
    import numpy as np
    from scipy.stats import binom

    rng, tries = np.random.default_rng(1), 2000
    hits = 0
    for _ in range(tries):
        *runs, further = rng.normal(10, 3, 6)
        hits += simulated("x", runs, Published(further, "a further run")).verdict == AGREES
    assert binom.cdf(hits, tries, 0.99) > 1e-6
    assert binom.sf(hits - 1, tries, 0.99) > 1e-6


@pytest.mark.parametrize("chance", [0.001, 0.03, 0.5, 0.97])
@pytest.mark.parametrize("level", [0.9, LEVEL])
def test_a_chance_lies_in_its_interval_at_least_as_often_as_is_said(chance, level):
    from scipy.stats import binom

    ends = [(hits, *clopper_pearson(hits, 60, level)) for hits in range(61)]
    assert binom.pmf([hits for hits, low, high in ends if low <= chance <= high], 60, chance).sum() >= level
    assert all(high - low < 0.4 for _, low, high in ends)


def test_a_proportion_agrees_with_a_chance_in_its_interval():
    assert proportion("x", 90, 100, Published(0.9, "here")).verdict == AGREES
    assert proportion("x", 70, 100, Published(0.9, "here")).verdict == DIFFERS


def test_what_differs_without_a_reason_is_unexplained():
    assert exact("x", 2, printed("1", "here")).unexplained
    assert not exact("x", 2, printed("1", "here"), because="it rounds otherwise").unexplained
    assert not exact("x", 1, printed("1", "here")).unexplained


@pytest.mark.parametrize(
    "values",
    [
        ("many", 1.0, 2.0, None),
        (3.0, 1.0, 2.0, None),
        (float("nan"), 1.0, 2.0, None),
        (1.0, None, None, None),
        (1.0, 1.0, 1.0, Published("many", "here")),
        ("many", None, None, Published(1.0, "here")),
    ],
)
def test_what_cannot_be_compared_is_refused(values):
    ours, low, high, published = values
    with pytest.raises(ParameterError):
        Comparison("x", ours, low, high, published=published)


@pytest.mark.parametrize("known", [exact("x", 2, about(3, "t"), unit="reports", because="so"), stated("x", "a")])
def test_json_gives_the_comparison_back(known):
    assert Comparison.from_json(json.loads(json.dumps(known.to_json()))) == known


def test_a_changed_verdict_in_json_is_not_believed():
    written = exact("x", 2, printed("1", "here"), because="so").to_json() | {"verdict": AGREES}
    assert Comparison.from_json(written).verdict == DIFFERS


@pytest.mark.parametrize("bad", [{"value": float("inf")}, {"value": 1.0, "sense": "about"}])
def test_a_published_number_is_finite_and_its_sense_known(bad):
    with pytest.raises(ParameterError):
        Published(where="here", **bad)
