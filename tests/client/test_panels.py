"""A device in panels: one answer in any year, whatever happens to the registry, with noise of its own each time."""

import math

import pytest

from overstory.client import Outcome
from overstory.client.person.view import infer
from overstory.client.state.rows import RowState
from overstory.client.state.state import State
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import PersonBudget, parse_registry
from support.devices import DAY, ENTRY, HEAD, NOON, Clock, device, rows_of

TREE = 'domain = {kind = "categories", names = ["oak", "ash"]}\noracle = "grr"\nparameters = {epsilon = 1.0}\n'
WEEK = 'period = "week"\n'
PANEL = 'panel = {cycle = "year"}\n'


def registry(head=PANEL, expires="2099-01-01", **more):
    ends = expires if isinstance(expires, dict) else dict.fromkeys(more, expires)
    entries = (ENTRY.format(name=name, rest=TREE + WEEK + own, expires=ends[name]) for name, own in more.items())
    return parse_registry(HEAD.format(version="1") + head + "".join(entries))


def answers(client, of, weeks, value="oak"):
    """Record everything every week, and return when each metric had a report, in days."""
    found = []
    for _ in range(weeks):
        for name in of:
            outcome = client.record(name, value)
            assert outcome in {Outcome.RECORDED, Outcome.UNASKED, Outcome.ALREADY, Outcome.EXPIRED, Outcome.SPENT}
            if outcome is Outcome.RECORDED:
                found.append((name, int(client._clock.now - NOON) // DAY))
        client.flush()
        client._clock.tomorrow(7)
    return found


def test_no_permanent_response_of_a_panel_is_kept(tmp_path):
    of = registry(one="")
    client = device(tmp_path, registry=of)
    answers(client, of, 54)
    with State(client.paths).snapshot() as rows:
        (response,) = rows.responses("one")
    assert response.permanent is None


def test_an_answer_that_stays_with_the_person_is_none_of_the_cycles_answers(tmp_path):
    """By `local`, a device is asked at its place all the same; what it kept does not count against its year."""
    of = registry("", one=PANEL)
    client = device(tmp_path, registry=of, choice="local")
    kept = answers(client, of, 54)
    client.consent("on")
    sent = answers(client, of, 54)
    assert len(kept) == len(sent) == 1
    assert sent[0][1] - kept[0][1] == 54 * 7
    assert [row.state for row in rows_of(client)] == [RowState.LOCAL, RowState.WAITING]
    with State(client.paths).snapshot() as rows:
        assert sum(reports for _, _, reports in rows.reports_since(0.0)) == 1


def test_what_linked_answers_tell_multiplies():
    of = registry(one="", two='panel = "none"')
    oak, ash = Report(0, 0), Report(0, 1)
    for reports, odds in (([oak], 1), ([oak, oak], 2), ([oak, ash], 0)):
        (first, second) = infer(of["one"], reports).likeliest
        assert math.log(first["probability"] / second["probability"]) == pytest.approx(odds)
    assert "nothing consistent" in infer(of["two"], [oak, ash])


def test_a_report_that_waited_in_memory_is_counted_in_the_year_of_its_period(tmp_path):
    """Two processes: what one reports while the other's report waits is of the same year, whenever that is written."""
    rest = TREE.replace('"grr"', '"opt-wb"').replace("1.0", "1.0, window = 1") + 'period = "day"\n'
    entries = "".join(ENTRY.format(name=name, rest=rest, expires="2099-01-01") for name in ("one", "two"))
    of = parse_registry(HEAD.format(version="1") + 'budget = {epsilon = 2.0, per = "year"}\n' + entries)
    clock = Clock()
    first, second = device(tmp_path, registry=of, clock=clock), device(tmp_path, registry=of, clock=clock, choice=None)
    assert first.record("one", "oak") is Outcome.RECORDED
    first.flush()
    clock.tomorrow(364)
    assert second.record("one", "oak") is Outcome.RECORDED
    assert first.record("two", "oak") is Outcome.RECORDED
    first.flush()
    clock.tomorrow(4)
    second.flush()
    assert [row.metric for row in rows_of(first)] == ["one", "two"]


def test_a_report_of_a_longer_period_takes_no_answer_of_a_shorter_one(tmp_path):
    """The week of one report began six days before the day of the other: each is of its own year."""
    weekly = TREE.replace('"grr"', '"opt-wb"').replace("1.0", "0.01, window = 1") + WEEK + 'panel = "none"\n'
    rests = {"one": weekly, "two": TREE + 'period = "day"\n'}
    entries = "".join(ENTRY.format(name=name, rest=rest, expires="2099-01-01") for name, rest in rests.items())
    of = parse_registry(HEAD.format(version="1") + PANEL + entries)
    for number in range(3):  # a place on a Monday, where both begin alike, would show nothing
        client, found = device(tmp_path / str(number), registry=of), []
        days = {NOON + day * DAY for day in range(0, 367 * 2, 5)}
        for _ in range(367 * 2):
            if client._clock.now in days:
                client.record("one", "oak")
            found.append(client.record("two", "oak"))
            client.flush()
            client._clock.tomorrow()
        assert found.count(Outcome.RECORDED) == 2
        assert [row.metric for row in rows_of(client)].count("two") == 2


def test_a_yearly_budget_is_a_larger_one_than_one_for_ever():
    ever, year = PersonBudget(2.5), PersonBudget(2.5, per="year")
    assert year.allows_more_than(ever)
    assert not ever.allows_more_than(year)
    assert type(year).from_json(year.to_json()) == year
