"""Lines into readings: layouts, time zones, clocks that are set, and lines that are none."""

import math
from datetime import UTC, datetime
from io import BytesIO
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.gateway import readings as gateway_readings
from overstory.gateway.gateway import bounded_lines
from overstory.gateway.readings import Alignment, BadLine, Layout, Reading, read_lines, unix_time, zone_named
from overstory.protocol.errors import FormatError, ParameterError
from support.gateway_samples import FIRST, HALF_HOUR, at, items, metric, reading

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
BERLIN = ZoneInfo("Europe/Berlin")


def values(found):
    return [
        one.field if isinstance(one, BadLine) else one.value if one.fault is None else one.fault.detail for one in found
    ]


WRITTEN = ["2026-11-21T12:00:00Z", "2026-11-21T13:00:00+01:00", "2026-11-21 12:00", "2026-11-21 12:00:00.0000000"]


@pytest.mark.parametrize("text", [*WRITTEN, "20261121T120000", str(int(NOON)), f"{NOON:.1f}"])
def test_forms_of_one_time(text):
    assert unix_time(text, UTC) == NOON
    assert unix_time(f"  {text} ", UTC) == NOON


def test_local_times_are_of_the_zone():
    assert unix_time("2026-11-21 13:00", BERLIN) == NOON
    assert unix_time("2026-07-01 14:00", BERLIN) == datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp()
    assert unix_time("2026-11-21 13:00+00:00", BERLIN) == NOON + 3600


def test_the_hour_that_comes_twice_is_read_in_order():
    local = [f"2026-10-25 {h:02}:{m:02}" for h, m in ((1, 30), (2, 0), (2, 30), (2, 0), (2, 30), (3, 0))]
    found, before = [], None
    for text in local:
        before = unix_time(text, BERLIN, before)
        found.append(before)
    assert [later - earlier for earlier, later in pairwise(found)] == [1800] * 5


def test_the_hour_that_is_leapt_over_is_no_time():
    with pytest.raises(ParameterError, match="does not exist in Europe/Berlin"):
        unix_time("2026-03-29 02:30", BERLIN)
    assert unix_time("2026-03-29 03:00", BERLIN) - unix_time("2026-03-29 01:30", BERLIN) == 1800


@pytest.mark.parametrize("raw", ["noon", "", "2026-13-01", "1795262400000", "-5", "1960-01-01", None, True, 1e300, []])
def test_what_is_no_time(raw):
    with pytest.raises(ParameterError):
        unix_time(raw, UTC)


def test_an_unknown_zone():
    with pytest.raises(ParameterError, match="no time zone 'Mars/Olympus'"):
        zone_named("Mars/Olympus")
    assert zone_named("utc") is UTC
    assert zone_named("Europe/Berlin") == BERLIN


def test_csv_by_names_in_any_order():
    text = "\ufeffid,kWh,when\n7,0.5,2026-11-21T12:00Z\n\n7,0.7,2026-11-21T12:30Z\r\n"
    found = items(text, time="when", value="kWh")
    assert found == [Reading(2, NOON, 0.5), Reading(4, NOON + 1800, 0.7)]


def test_csv_by_numbers_with_and_without_a_header():
    rows = f"x,{int(NOON)},0.5\n"
    for header in ("", "a,b,c\n"):
        assert values(items(header + rows, time="2", value="3")) == [0.5]


def test_the_low_carbon_london_layout():
    text = "LCLid,stdorToU,DateTime,KWH/hh (per half hour) \nMAC000002,Std,2012-10-12 00:30:00.0000000, 0.123 \n"
    text += "MAC000002,Std,2012-10-12 01:00:00.0000000,Null\n"
    found = items(text, time="DateTime", value="KWH/hh (per half hour)")
    assert values(found) == [0.123, "'Null' is no finite number"]


def test_json_lines():
    text = '{"time": "2026-11-21T12:00Z", "value": 0.5, "more": 1}\n{"time": 1795264200, "value": "0.7"}\n'
    assert items(text, format="jsonl") == [Reading(1, NOON, 0.5), Reading(2, NOON + 1800, 0.7)]


@pytest.mark.parametrize(("line", "field"), [("noon,1", "time"), ("", "time"), (f'{int(NOON)},"1', None)])
def test_bad_lines_of_csv_are_told_and_passed_over(line, field):
    bad, good = items(f"time,value\n{line or ','}\n{int(NOON)},1\n")
    assert (bad.line, bad.field) == (2, field)
    assert bad.error("file").args
    assert isinstance(good, Reading)


@pytest.mark.parametrize(
    "line", ["[1, 2]", "{", "3", '{"value": 1}', '{"time": "x", "value": 1}', '{"time": null, "value": 1}', "[" * 9999]
)
def test_bad_lines_of_json(line):
    (bad,) = items(line, format="jsonl")
    assert isinstance(bad, BadLine)


NO_NUMBERS = ["", "Null", "1.2.3", "nan", "inf", "-inf", "1e999", "off", "0.5 kWh", "\x00"]


@pytest.mark.parametrize("cell", NO_NUMBERS)
def test_what_is_no_number_is_a_reading_without_a_value(cell):
    (found,) = items(f"time,value\n{int(NOON)},{cell}\n")
    assert (found.time, found.value) == (NOON, None)
    assert "is no finite number" in found.fault.detail


def test_a_line_that_ends_before_the_value_is_a_reading_without_one():
    found = items(f"time,value\n{int(NOON)}\n") + items(f'{{"time": {NOON}}}', format="jsonl")
    assert found == [Reading(n, NOON, None, BadLine(n, "value", "it is missing")) for n in (2, 1)]


def test_a_bad_line_names_the_column_as_it_was_given():
    lines = (f"at,kWh\nnoon,1\n{int(NOON)},much\n", f'{{"kWh": 1}}\n{{"at": {NOON}}}\n')
    for text, format_ in zip(lines, ("csv", "jsonl"), strict=True):
        found = items(text, format=format_, time="at", value="kWh")
        assert [one.field if isinstance(one, BadLine) else one.fault.field for one in found] == ["at", "kWh"]
    (found,) = items(f"{int(NOON)},much\n", time="1", value="2")
    assert found.fault == BadLine(1, "2", "'much' is no finite number")


def test_bytes_that_are_no_text_and_lines_without_end():
    raw = b"time,value\n\xff\xfe\n1," + b" " * 3 * gateway_readings.LONGEST + b"\n" + f"{int(NOON)},1\n".encode()
    lines = list(bounded_lines(BytesIO(raw)))
    assert len(lines) == 4
    assert max(map(len, lines)) <= gateway_readings.LONGEST + 2
    first, second, good = read_lines(lines, Layout(), metric(), "file")
    assert "UTF-8" in first.detail
    assert "bytes" in second.detail
    assert (type(good), good.line) == (Reading, 4)


@pytest.mark.parametrize("before", ["", "\n", "\ufeff", "\ufeff \n\n"])
def test_the_first_line_that_is_not_blank_tells_json_from_csv(before):
    lines = before.count("\n")
    good, bad = items(f'{before} {{"time": {NOON}, "value": 0.5}}\nx\n')
    assert good == Reading(1 + lines, NOON, 0.5)
    assert bad == BadLine(2 + lines, None, "this is no line of JSON")
    brace = f'{before}time,value\n{{"time": 1}}\n{int(NOON)},0.5\n'
    assert [type(one) for one in items(brace)] == [BadLine, Reading]
    with pytest.raises(FormatError, match=r"there is no column 'time' in \{"):
        items(f'{before}{{"time": {NOON}}}\n', format="csv")


def test_values_are_of_the_domain_s_kind():
    text = f"time,value\n{int(NOON)},3\n{int(NOON)},3.0\n{int(NOON)},on\n"
    assert values(items(text, "count")) == [3, "'3.0' is no whole number", "'on' is no whole number"]
    assert values(items(text, "mode")) == ["3", "3.0", "on"]
    found = items('{"time": 1, "value": 3.0}\n{"time": 1, "value": 3.5}', "count", format="jsonl")
    assert values(found) == [3, "3.5 is no whole number"]


def test_a_header_without_the_columns_is_an_error():
    with pytest.raises(FormatError, match="file, line 1: there is no column 'value' in time, kWh"):
        items("time,kWh\n1,2\n")
    with pytest.raises(ParameterError, match="give two names, or two numbers"):
        items("time,kWh\n1,2\n", time="1")
    with pytest.raises(ParameterError, match="numbered from 1"):
        items("1,2\n", time="0", value="1")


@given(st.lists(st.binary(max_size=40), max_size=12), st.sampled_from(["csv", "jsonl", None]))
def test_no_line_stops_it(raw, form):
    found = list(read_lines([b"time,value\n", *raw], Layout(form), metric(), "file"))
    assert len(found) <= len(raw) + 1
    assert all(isinstance(one, Reading | BadLine) for one in found)


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
    alignment = Alignment(metric(), pick=pick)
    readings = [reading(0, 0.5), reading(0, None, 10), reading(1, None), reading(2, None, 5), reading(2, 1.5, 5)]
    assert dues(alignment, *readings, reading(4, 2.0)) == [(0, 0.5), (1, None), (2, 1.5), (4, 2.0)]
    assert (alignment.seen.used, alignment.seen.duplicate, alignment.seen.missing) == (3, 0, 1)


def test_a_period_without_a_reading_is_counted_and_late_once_it_is_over():
    alignment = Alignment(metric())
    assert dues(alignment, reading(0, 1.5), reading(10**7, 2.0), finish=False) == [(0, 1.5)]
    assert alignment.seen.missing == 10**7 - 1
    passed = Alignment(metric(), done=FIRST)
    for _ in range(2):
        assert list(passed.pass_time(at(3, 1))) == []
        assert passed.seen.missing == 2
    assert dues(passed, reading(2, 1.0)) == []
    assert passed.seen.late == 1


def test_what_an_earlier_run_reported_is_not_reported_again():
    alignment = Alignment(metric(), done=FIRST + 1)
    readings = [reading(p, p / 10) for p in range(4)]
    assert dues(alignment, *readings) == [(2, 0.2), (3, pytest.approx(0.3))]
    assert (alignment.seen.already, alignment.seen.used, alignment.seen.missing) == (2, 2, 0)


@pytest.mark.parametrize(
    ("name", "choices", "says"),
    [
        ("energy", {"pick": "first"}, "choose one of last, mean, sum"),
        ("mode", {"pick": "sum"}, "only the last"),
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


@given(STREAMS, st.sampled_from(["last", "sum", "mean"]), st.integers(-1, 6))
def test_whatever_comes_each_period_is_reported_once_and_each_reading_counted_once(stream, pick, done):
    alignment = Alignment(metric(), pick=pick, done=None if done < 0 else FIRST + done)
    found = dues(alignment, *(reading(p, v / 10, s) for p, s, v in stream))
    periods = [period for period, _ in found]
    assert periods == sorted(set(periods)), "in order, and never one twice"
    assert all(period > done for period in periods)
    seen = alignment.seen
    assert seen.used + seen.late + seen.duplicate + seen.already == len(stream)
    assert all(math.isfinite(value) for _, value in found)
