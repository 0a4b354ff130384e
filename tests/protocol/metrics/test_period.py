"""Periods: numbers and labels are one to one, in order, without gaps, and the calendar's."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Period

NAMES = ("minute", "15 minutes", "30 minutes", "hour", "6 hours", "12 hours", "day", "week")
PERIODS = st.sampled_from(NAMES).map(Period.parse)
TIMES = st.floats(0, 253_402_300_799, allow_nan=False)
DAY = 86_400


@given(PERIODS, TIMES)
def test_a_time_lies_in_its_period(period, time):
    number = period.number(time)
    assert period.start(number) <= time < period.start(number + 1)
    assert period.start(number + 1) - period.start(number) == period.seconds


@given(PERIODS, st.data())
def test_labels_and_numbers_are_one_to_one(period, draw):
    number = draw.draw(st.integers(period.numbers[0], period.numbers[-1]))
    assert period.parse_label(period.label(number)) == number
    if number > period.numbers[0]:
        assert period.label(number - 1) < period.label(number)


@given(st.datetimes(dt.datetime(1970, 1, 5), dt.datetime(9999, 12, 26)))  # noqa: DTZ001 - made aware below
def test_the_calendar_agrees(when):
    aware = when.replace(tzinfo=dt.UTC)
    day, week, hour = map(Period.parse, ("day", "week", "hour"))
    assert day.label(day.number(aware.timestamp())) == aware.date().isoformat()
    year, number, weekday = aware.isocalendar()
    of_week = week.number(aware.timestamp())
    assert week.label(of_week) == f"{year}-W{number:02}"
    assert (week.start(of_week) // DAY + 3) % 7 == 0  # 1 January 1970 was a Thursday
    assert week.start(of_week) == aware.timestamp() // DAY * DAY - (weekday - 1) * DAY
    assert hour.label(hour.number(aware.timestamp())) == aware.strftime("%Y-%m-%dT%H:00Z")


@pytest.mark.parametrize(
    ("given", "name"), [*zip(NAMES, NAMES, strict=True), ("60 minutes", "hour"), ("24 hours", "day"), ("1 day", "day")]
)
def test_one_length_has_one_name_that_is_read_back(given, name):
    assert str(Period.parse(given)) == name


NO_PERIODS = ["", "daily", "7 minutes", "2 days", "days", "30 minute", "1 hours", "0 minutes", "-1 day", "5 hours"]


@pytest.mark.parametrize("wrong", [*NO_PERIODS, "month", 30, None, " day", "day ", "Day", "３ hours"])
def test_what_is_no_period_is_refused(wrong):
    with pytest.raises(ParameterError, match=r"period|divide"):
        Period.parse(wrong)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("day", ["2026-11-31", "2026-11-21T00:00Z", "20261121", "1969-12-31", 20778]),
        ("week", ["2026-W54", "2026-W47-1", "1970-W01"]),  # the last began in 1969
        ("hour", ["2026-11-21T09:30Z", "2026-11-21T24:00Z"]),
        ("30 minutes", ["2026-11-21T09:30", "2026-11-21T09:30Z\n"]),
    ],
)
def test_what_is_no_label_is_refused(name, labels):
    for label in labels:
        with pytest.raises(ParameterError, match=f"is no {name}: give one such as 2026"):
            Period.parse(name).parse_label(label)


@pytest.mark.parametrize("number", [-1, 1 << 31, -(1 << 31), 10**12, 3.0, 10.0**12])
@pytest.mark.parametrize("name", ["30 minutes", "day", "week"])
def test_a_number_outside_of_the_calendar_has_no_label(name, number):
    period = Period.parse(name)
    if isinstance(number, float) or number not in period.numbers:
        with pytest.raises(ParameterError, match="outside of the years"):
            period.label(number)
    else:
        assert period.parse_label(period.label(number)) == number


@pytest.mark.parametrize("seconds", [0, 59, 90, 7 * 60, 2 * DAY, 8 * DAY, True, 60.0])
def test_lengths_that_are_none(seconds):
    with pytest.raises(ParameterError):
        Period(seconds)
