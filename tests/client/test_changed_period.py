"""A metric whose periods get another length under one id: devices neither fall silent nor report a time twice."""

from itertools import permutations

import pytest

from overstory.client import Outcome
from overstory.client.person.view import view_metrics
from overstory.protocol.metrics.period import Period
from support.devices import BINS, Clock, device, registry

HOUR = 3600
LENGTHS = ("30 minutes", "hour", "6 hours", "day", "week")


def of(period):
    return registry(m=BINS.replace('"day"', f'"{period}"'))


def with_reports(folder, clock, period, number=3, **settings):
    client = device(folder, clock=clock, registry=of(period), **settings)
    for _ in range(number):
        assert client.record("m", 4) is Outcome.RECORDED
        clock.now += Period.parse(period).seconds
    clock.now -= Period.parse(period).seconds  # still within the last period reported
    client.close()


def first_outcomes(folder, clock, period, most=10):
    """What becomes of a record in each period from now on, until one is recorded."""
    client = device(folder, clock=clock, registry=of(period), choice=None)
    client.consent("on")
    outcomes = []
    while Outcome.RECORDED not in outcomes and len(outcomes) < most:
        outcomes.append(client.record("m", 4))
        clock.now += Period.parse(period).seconds
    client.close()
    return outcomes


@pytest.mark.parametrize(("before", "after"), list(permutations(LENGTHS, 2)))
def test_the_first_report_is_of_the_first_period_after_the_last_that_had_one(tmp_path, before, after, clock):
    with_reports(tmp_path, clock, before)
    old, new = Period.parse(before), Period.parse(after)
    reported_until = old.start(old.number(clock.now) + 1)
    start, most = clock.now, 2 + old.seconds // new.seconds
    outcomes = first_outcomes(tmp_path, clock, after, most)
    assert outcomes[-1] is Outcome.RECORDED, outcomes
    assert set(outcomes[:-1]) <= {Outcome.PAST}
    recorded = new.number(start) + len(outcomes) - 1
    assert new.start(recorded) >= reported_until > new.start(recorded - 1)


def test_going_back_to_the_length_before_does_not_report_a_time_twice(tmp_path, clock):
    with_reports(tmp_path, clock, "hour")
    assert first_outcomes(tmp_path, clock, "day")[-1] is Outcome.RECORDED  # of tomorrow, as a whole
    clock.now -= 24 * HOUR
    outcomes = first_outcomes(tmp_path, clock, "hour", 50)
    assert outcomes[-1] is Outcome.RECORDED
    clock.now -= HOUR
    assert Period.parse("day").number(clock.now) > Period.parse("day").number(Clock().now) + 1


def test_what_waits_by_the_number_of_another_length_is_not_sent_and_is_shown_at_its_time(tmp_path, clock):
    with_reports(tmp_path, clock, "hour")
    client = device(tmp_path, clock=clock, registry=of("week"), choice="on")
    (metric,) = shown_of(client)
    assert metric.recorded == ("2026-11-21T12:00Z", "2026-11-21T13:00Z", "2026-11-21T14:00Z")
    clock.tomorrow(7)
    assert client.record("m", 4) is Outcome.RECORDED
    client.flush()
    (metric,) = shown_of(client)
    assert metric.recorded == ("2026-W48",)
    dropped = [report for report in metric.reports if report["state"] == "dropped"]
    assert len(dropped) == 3
    assert {report["period"] for report in dropped} == {"2026-W47"}
    assert client.status().outbox["waiting"] == 1


def shown_of(client):
    with client._state().snapshot() as rows:
        return view_metrics(rows, client.registry)
