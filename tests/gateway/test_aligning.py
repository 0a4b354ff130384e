"""One value a period: what is picked, late, missing, repeated; never a period twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.gateway.readings import MOST_FILLED, Alignment
from overstory.protocol.errors import ParameterError
from support.gateway_samples import FIRST, HALF_HOUR, at, metric, reading


def dues(alignment, *readings, finish=True):
    found = [due for one in readings for due in alignment.feed(one)]
    found += list(alignment.finish()) if finish else []
    return [(due.period - FIRST, due.value) for due in found]


@pytest.mark.parametrize(("pick", "value"), [("last", 0.2), ("mean", 0.5), ("sum", 1.5)])
def test_what_is_picked_of_several(pick, value):
    alignment = Alignment(metric(), pick=pick)
    found = dues(alignment, reading(0, 0.4, 10), reading(0, 0.2, 30), reading(0, 0.9, 20), reading(1, 1.0))
    assert found == [(0, pytest.approx(value)), (1, 1.0)]
    assert alignment.seen.used == 4


def test_a_period_is_over_when_a_later_one_begins():
    alignment = Alignment(metric())
    assert dues(alignment, reading(0, 1.0, HALF_HOUR - 0.001), finish=False) == []
    assert alignment.ends == at(1)
    assert dues(alignment, reading(1, 2.0), finish=False) == [(0, 1.0)]
    assert [due.value for due in alignment.pass_time(at(2))] == [2.0]
    assert alignment.ends is None
    assert list(alignment.finish()) == []


def test_late_and_duplicate_readings_are_counted_and_change_nothing():
    alignment = Alignment(metric(), pick="sum")
    found = dues(alignment, reading(0, 1.0), reading(1, 2.0), reading(0, 9.0, 5), reading(1, 9.0), reading(1, 3.0, 5))
    assert found == [(0, 1.0), (1, 5.0)]
    assert (alignment.seen.late, alignment.seen.duplicate, alignment.seen.used) == (1, 1, 3)
    passed = Alignment(metric())
    list(passed.feed(reading(0, 1.0)))
    assert [due.period - FIRST for due in passed.pass_time(at(1, 60))] == [0]
    assert dues(passed, reading(0, 2.0, 50)) == []
    assert passed.seen.late == 1


@pytest.mark.parametrize("pick", ["last", "mean", "sum"])
def test_a_reading_without_a_value_is_of_its_period_and_hides_no_other(pick):
    alignment = Alignment(metric(), pick=pick, missing="repeat")
    readings = [reading(0, 0.5), reading(0, None, 10), reading(1, None), reading(2, None, 5), reading(2, 1.5, 5)]
    assert dues(alignment, *readings, reading(4, 2.0)) == [(0, 0.5), (1, None), (2, 1.5), (3, 1.5), (4, 2.0)]
    assert (alignment.seen.used, alignment.seen.duplicate, alignment.seen.missing) == (3, 0, 1)
    only = Alignment(metric(), pick=pick, missing="repeat")
    assert dues(only, reading(0, 0.5), reading(1, None), reading(3, None)) == [(0, 0.5), (1, None), (2, 0.5), (3, None)]


@pytest.mark.parametrize(
    ("missing", "found", "filled"),
    [
        ("skip", [(0, 1.5), (3, 2.0)], 0),
        ("repeat", [(0, 1.5), (1, 1.5), (2, 1.5), (3, 2.0)], 2),
        ("zero", [(0, 1.5), (1, 0), (2, 0), (3, 2.0)], 2),
    ],
)
def test_missing_periods(missing, found, filled):
    alignment = Alignment(metric(), missing=missing)
    assert dues(alignment, reading(0, 1.5), reading(3, 2.0)) == found
    assert (alignment.seen.missing, alignment.seen.filled) == (2, filled)


def test_time_passing_fills_what_no_reading_will():
    alignment = Alignment(metric(), missing="repeat")
    dues(alignment, reading(0, 1.5), finish=False)
    assert [(d.period - FIRST, d.value) for d in alignment.pass_time(at(3, 1))] == [(0, 1.5), (1, 1.5), (2, 1.5)]
    assert list(alignment.pass_time(at(3, 2))) == []
    assert list(Alignment(metric(), missing="zero").pass_time(at(3))) == []


def test_a_gap_that_is_an_outage_is_not_filled_without_end():
    alignment = Alignment(metric(), missing="zero")
    found = dues(alignment, reading(0, 1.0), reading(10**7, 1.0))
    assert len(found) == MOST_FILLED + 2
    assert (alignment.seen.missing, alignment.seen.filled) == (10**7 - 1, MOST_FILLED)


def test_what_an_earlier_run_reported_is_not_reported_again():
    alignment = Alignment(metric(), missing="repeat", done=FIRST + 1)
    readings = [reading(p, p / 10) for p in range(4)]
    assert dues(alignment, *readings) == [(2, 0.2), (3, pytest.approx(0.3))]
    assert (alignment.seen.already, alignment.seen.used, alignment.seen.missing) == (2, 2, 0)
    across = Alignment(metric(), missing="repeat", done=FIRST + 1)
    assert dues(across, reading(1, 0.7), reading(4, 0.9)) == [(2, 0.7), (3, 0.7), (4, 0.9)]
    stream = Alignment(metric(), missing="repeat", done=FIRST + 1)
    assert dues(stream, reading(4, 0.9)) == [(4, 0.9)], "no value is kept to be repeated after a restart"
    assert (stream.seen.missing, stream.seen.filled) == (2, 0)


@pytest.mark.parametrize(
    ("name", "choices", "says"),
    [
        ("energy", {"pick": "first"}, "choose one of last, mean, sum"),
        ("energy", {"missing": "guess"}, "choose one of skip, repeat, zero"),
        ("mode", {"pick": "sum"}, "only the last"),
        ("mode", {"missing": "zero"}, "no zero"),
        ("count", {"pick": "mean"}, "whole numbers"),
    ],
)
def test_choices_must_fit_the_domain(name, choices, says):
    with pytest.raises(ParameterError, match=says):
        Alignment(metric(name), **choices)


@pytest.mark.parametrize("pick", ["sum", "mean"])
def test_numbers_past_the_largest_are_outside_of_every_domain(pick):
    ((_, value),) = dues(Alignment(metric(), pick=pick), reading(0, 1e308), reading(0, 1e308, 1))
    assert math.isinf(value)
    with pytest.raises(ParameterError):
        metric().encode(value)


def test_whole_numbers_stay_whole():
    found = dues(Alignment(metric("count"), pick="sum"), reading(0, 2), reading(0, 3, 1))
    assert found == [(0, 5)]
    assert isinstance(found[0][1], int)


STREAMS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, HALF_HOUR - 1), st.integers(0, 20)), max_size=60)


@given(
    STREAMS, st.sampled_from(["last", "sum", "mean"]), st.sampled_from(["skip", "repeat", "zero"]), st.integers(-1, 6)
)
def test_whatever_comes_each_period_is_reported_once_and_each_reading_counted_once(stream, pick, missing, done):
    alignment = Alignment(metric(), pick=pick, missing=missing, done=None if done < 0 else FIRST + done)
    found = dues(alignment, *(reading(p, v / 10, s) for p, s, v in stream))
    periods = [period for period, _ in found]
    assert periods == sorted(set(periods)), "in order, and never one twice"
    assert all(period > done for period in periods)
    seen = alignment.seen
    assert seen.used + seen.late + seen.duplicate + seen.already == len(stream)
    assert all(math.isfinite(value) for _, value in found)
    if missing != "skip" and found and done < 0:
        assert periods == list(range(periods[0], periods[-1] + 1)), "no gap is left"
