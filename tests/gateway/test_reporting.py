"""The whole gateway on a state of its own: what leaves, what is spent, what a restart remembers, what stops it."""

import contextlib
import itertools
import time
from datetime import UTC, date, datetime

import pytest

from overstory.client.state.files import StatePaths
from overstory.client.state.rows import RowState
from overstory.client.state.state import State
from overstory.client.upload.delivery import ASKED, Collector, CollectorHealth
from overstory.client.upload.http import Request, Response
from overstory.gateway.gateway import AT_ONCE, Gateway, GatewayError, Lines, Settings, replay
from overstory.gateway.readings import Reading
from overstory.privacy import epsilon_at, terms_of
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import decode_uploads
from support import gateway_samples as samples
from support.collector_doubles import CountingCollector, refusal
from support.devices import DAY, rows_of
from support.gateway_samples import (
    at,
    bits,
    collector_in,
    collectors,
    device_of,
    fed,
    metric,
    reading,
    registry_text,
    run,
    uploads,
    year,
)
from support.registry_texts import registry_of


def test_the_window_s_budget_is_kept_across_restarts(tmp_path):
    built = metric().mechanism
    for periods in (25, 60):
        spent = run(tmp_path, year(periods))["privacy"]
        assert (spent["reports"], spent["distinct_values"]) == (periods, 0)
        assert spent["windows"] == periods / 10
        assert spent["epsilon_window"] == pytest.approx(1.0, abs=1e-6)
        assert spent["epsilon_any"] == pytest.approx(periods * built.epsilon_report, rel=1e-9)
        assert spent["epsilon_at_delta"] == epsilon_at(terms_of(built), periods, 1e-6) < spent["epsilon_any"]


def test_a_second_run_of_the_same_file_reports_nothing(tmp_path):
    run(tmp_path, year(30))
    again = run(tmp_path, year(30))
    assert len(collectors[tmp_path].requests) == 1
    assert again["readings"]["already"] == 30
    assert again["reports"] == {}
    more = run(tmp_path, year(33))
    assert more["reports"] == {"recorded": 3}
    assert [upload.period - samples.FIRST for upload in uploads(tmp_path)] == list(range(33))


def paneled(folder, days, panel='panel = {cycle = "month"}\n'):
    grr = {"oracle": '"grr"', "parameters": "{epsilon = 2.0}"}
    entry = grr | {"domain": samples.BINS, "period": '"day"', "window": "10"}
    registry = parse_registry(panel + registry_of({"daily": entry}, expires="2040-01-01"))
    with contextlib.ExitStack() as opened:
        gateway = Gateway(registry, Settings("daily", folder / "state", agree="on"), collector_in(folder), environ={})
        opened.callback(gateway.close)
        replay(gateway, (Reading(day, samples.START + day * DAY, 0.5) for day in range(days)), Lines("file"))
        return gateway.summary()


def test_a_meter_in_a_panel_reports_when_it_is_asked_and_stores_nothing_of_other_periods(tmp_path):
    summary = paneled(tmp_path, 200)
    periods = [upload.period for upload in uploads(tmp_path)]
    assert {later - earlier for earlier, later in itertools.pairwise(periods)} == {32}  # 31 days, whichever two
    assert summary["reports"] == {"recorded": len(periods), "unasked": 200 - len(periods)}
    assert len(periods) in {6, 7}
    assert (summary["handed_over"], summary["waiting"], summary["dropped"]) == (len(periods), 0, {})
    spent = summary["privacy"]
    assert (spent["reports"], spent["epsilon_window"]) == (len(periods), pytest.approx(20.0))
    assert spent["epsilon_year"] == pytest.approx(24.0)
    assert spent["headline"].startswith("Epsilon 24: whatever you hold and however it changes, in any year: 12")
    with State(StatePaths(tmp_path / "state")).snapshot() as rows:
        assert len(rows.outbox.rows()) == rows.responses("daily")[0].reports == len(periods)
        assert sorted(rows.claims("daily").reported) == periods
    again = paneled(tmp_path, 200)["reports"]
    rest = (
        samples.START // DAY + 199 - periods[-1]
    )  # the periods after the last answer are read again, and asked as little
    assert again == ({"unasked": rest} if rest else {})
    assert [upload.period for upload in uploads(tmp_path)] == periods


def test_a_registry_whose_panel_was_ended_reports_every_period_again(tmp_path):
    paneled(tmp_path, 40)
    before = uploads(tmp_path)[-1].period
    assert paneled(tmp_path, 45, panel="")["reports"] == {"recorded": samples.START // DAY + 44 - before}


def test_no_reading_is_in_the_state_or_in_what_leaves(tmp_path):
    run(tmp_path, b"time,value\n1735689600,0.5123456789\n", "fixed")
    kept = b"".join([*(path.read_bytes() for path in (tmp_path / "state").iterdir()), *collectors[tmp_path].bodies])
    assert b"0.5123456789" not in kept
    assert b"5123456" not in kept


@pytest.mark.parametrize("name", ["energy", "fixed", "capped", "count", "mode", "narrow"])
@pytest.mark.parametrize("cell", ["Null", "inf", "", "off", "7", "1e999", "é", None])
def test_there_is_one_report_of_each_period_whatever_is_read(tmp_path, name, cell):
    lines = [f"{at(i):.0f},{'on' if name == 'mode' else 1}" for i in range(20)]
    lines[7] = f"{at(7):.0f}" if cell is None else f"{at(7):.0f},{cell}"
    summary = run(tmp_path, "\n".join(["time,value", *lines]).encode(), name)
    assert [upload.period - samples.FIRST for upload in uploads(tmp_path)] == list(range(20))
    assert (sum(summary["reports"].values()), summary["readings"]["missing"]) == (20, 0)


def test_what_is_no_number_is_reported_as_nothing_and_counted_as_a_bad_line(tmp_path):
    summary = run(tmp_path, year(3).replace(b",0.75", b",Null"), "fixed")
    assert summary["lines"]["bad_lines"] == [{"line": 3, "field": "value", "detail": "'Null' is no finite number"}]
    device = device_of(tmp_path, "fixed")
    assert bits(uploads(tmp_path)[1]) == device.nothing()
    assert run(tmp_path, year(3).replace(b",0.75", b",Null"), "fixed")["reports"] == {}, "nor is it reported again"


def test_the_pick_reaches_the_reports_and_a_period_without_a_reading_has_none(tmp_path):
    text = b"time,value\n1735689600,0.5\n1735689700,0.6\n1735695000,0.1\n"
    summary = run(tmp_path, text, "fixed", pick="sum")
    first, last = uploads(tmp_path)
    assert (last.period - first.period, summary["readings"]["missing"]) == (3, 2)
    device = device_of(tmp_path, "fixed")
    assert [bits(one) for one in (first, last)] == [device.permanent(metric("fixed").encode(v)) for v in (1.1, 0.1)]


def gateway(folder, collector=None, environ=None, **choices):
    return Gateway(samples.REGISTRY, Settings("energy", folder / "state", **choices), collector, environ=environ or {})


def test_nothing_is_reported_before_somebody_agrees(tmp_path):
    with pytest.raises(GatewayError, match="nobody has agreed"):
        gateway(tmp_path)
    assert not (tmp_path / "state").exists()


def test_what_forbids_reporting_is_named(tmp_path):
    for name in ("DO_NOT_TRACK", "OVERSTORY"):
        with pytest.raises(GatewayError, match=name):
            gateway(tmp_path, environ={name: "1" if name == "DO_NOT_TRACK" else "off"}, agree="on")
    gateway(tmp_path, environ={"CI": "true", "GITHUB_ACTIONS": "true"}, agree="local").close()


def test_reports_must_go_somewhere_unless_they_are_to_stay(tmp_path):
    with pytest.raises(GatewayError, match="--server"):
        gateway(tmp_path, agree="on")
    kept = gateway(tmp_path, agree="local")
    fed(kept, 3)
    summary = kept.summary()
    kept.close()
    assert (summary["handed_over"], summary["waiting"], summary["privacy"]["reports"]) == (0, 0, 0)
    with State(kept.client.paths).snapshot() as rows:
        assert rows.outbox.tally()[RowState.LOCAL] == 3


def test_consent_has_the_day_on_which_it_was_given(tmp_path):
    before = datetime.now(UTC).date()
    agreed = gateway(tmp_path, agree="local").client.effective.consent
    assert before <= date.fromisoformat(agreed.date) <= datetime.now(UTC).date()


def test_a_registry_that_changed_asks_again(tmp_path):
    run(tmp_path, year(3))
    changed = parse_registry(registry_text().replace("epsilon = 1.0, window", "epsilon = 2.0, window"))
    with pytest.raises(GatewayError, match=r"nobody has agreed to energy as it is .*: what its reports mean"):
        Gateway(changed, Settings("energy", tmp_path / "state"), collector_in(tmp_path), environ={})


def send(folder, transport, periods, most_uploads=AT_ONCE):
    to = Collector("http://c.example", transport, most_uploads=most_uploads, uniform=lambda: 0.5)
    sending = gateway(folder, to, agree="on")
    fed(sending, periods)
    summary = sending.summary()
    sending.close()
    return summary


def test_many_periods_travel_in_one_request(tmp_path):
    collector = CountingCollector()
    summary = send(tmp_path, collector, 1200, most_uploads=300)
    assert summary["handed_over"] == len(collector.counted) == 1200
    sizes = [len(decode_uploads(body, 9999)) for body in collector.bodies]
    assert (max(sizes), len(sizes) <= 6) == (300, True)
    assert {upload.period for upload in collector.counted.values()} == set(range(samples.FIRST, samples.FIRST + 1200))


def too_large(uploads):
    return Response(413, {}, b"{}") if len(uploads) > 7 else None


def one_is_bad(uploads):
    return refusal(Reason.DAMAGED) if any(upload.period == samples.FIRST + 13 for upload in uploads) else None


def each_is_closed(uploads):
    results = [{"batch": u.batch.hex(), "accepted": 0, "reason": "period-closed", "rejected": []} for u in uploads]
    return refusal(Reason.PERIOD_CLOSED, results)


@pytest.mark.parametrize(
    ("refuse", "periods", "dropped"),
    [
        (too_large, 50, {}),
        (one_is_bad, 50, {"damaged": 1}),  # and no other with it
        (each_is_closed, 5, {"period-closed": 5}),
        (lambda _: None, 3, {}),  # reports of 2025, though the machine's clock says another year
    ],
)
def test_a_request_that_is_refused_drops_only_the_uploads_that_are_meant(tmp_path, refuse, periods, dropped):
    collector = CountingCollector(lambda request: refuse(decode_uploads(request.body, 9999)))
    summary, left = send(tmp_path, collector, periods), periods - sum(dropped.values())
    assert (summary["handed_over"], len(collector.counted), summary["dropped"]) == (left, left, dropped)


def test_a_collector_that_fails_is_left_alone_and_gets_everything_once_later(tmp_path):
    collector = CountingCollector(lambda _: Response(503, {"retry-after": "60"}, b""))
    first = send(tmp_path, collector, 20)
    assert (first["handed_over"], first["waiting"], first["trouble"]) == (0, 20, "http-503")
    assert len(collector.requests) == 1
    collector.answer = lambda _: None
    assert send(tmp_path, collector, 400)["waiting"] == 0
    assert sorted(u.period - samples.FIRST for u in collector.counted.values()) == list(range(400))


@pytest.mark.parametrize(("clock", "lease"), [("real", 180), ("readings", 0)])  # 120, a round, and its last request
def test_by_the_clock_of_readings_no_report_waits_for_a_lease_to_end(tmp_path, clock, lease):
    waits = []

    def refused(_):
        (row,) = rows_of(sending.client)
        waits.append(row.due - (time.time() if clock == "real" else samples.metric().period.start(row.period + 1) - 1))
        return Response(None, error="no connection")

    to = Collector("http://c.example", refused, most_uploads=AT_ONCE)
    sending = gateway(tmp_path, to, agree="on", clock=clock, spread=0.0)
    sending.take(Reading(1, time.time() - samples.HALF_HOUR, 0.5))
    sending.finish()
    assert waits == [pytest.approx(lease, abs=20)]


def test_a_slow_collector_gets_all_of_it_round_after_round(tmp_path, monkeypatch):
    monkeypatch.setattr("overstory.gateway.gateway.ROUND", 0.3)
    collector = CountingCollector()

    def slow(request):
        if request.timeout < 0.2:
            return Response(None, error="timeout")
        time.sleep(0.2)
        return collector(request)

    sending = gateway(tmp_path, Collector("http://c.example", slow, most_uploads=2), agree="on", spread=0.0)
    for period in range(12):
        sending.take(reading(period, 0.5))
    sending.finish()
    assert sending.summary()["waiting"] == 0
    assert len(collector.counted) == 12


def rows_after_each(folder, name, values):
    device = Gateway(samples.REGISTRY, Settings(name, folder / "state", agree="local"), None, environ={})
    state, written = State(device.client.paths), []
    for period, value in enumerate(values):
        device.take(reading(period, value))
        device.flush()
        with state.snapshot() as rows:
            written.append(sum(rows.outbox.tally().values()))
    device.close()
    return written


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("capped", [[0.1] * 7, [0.1] * 3 + [0.5] * 4, [0.1, 0.5, 0.9, 1.3, 1.7, 0.3, 0.7]]),
        ("narrow", [[0.1] * 7, [0.1] * 3 + [7.0] * 4, [7.0] * 7]),
    ],
)
def test_what_is_written_down_says_nothing_of_the_values(tmp_path, name, held):
    written = [rows_after_each(tmp_path / str(number), name, values) for number, values in enumerate(held)]
    assert written[0] == list(range(7))  # the period of the last reading is not over
    assert all(one == written[0] for one in written)


def test_a_reading_with_a_time_far_ahead_ends_no_metric(tmp_path):
    device = gateway(tmp_path, agree="local")
    for period in range(3):
        device.take(reading(period, 0.5))
    device.take(reading(20 * 365 * 48, 0.5))  # twenty years on: past the metric's end
    device.finish()
    device.close()
    with State(device.client.paths).snapshot() as rows:
        assert rows.outbox.tally()[RowState.LOCAL] >= 3
    again = gateway(tmp_path, agree="local")
    assert again.client.status().problem is None
    again.close()


@pytest.mark.parametrize(
    ("answer", "changed", "left"),
    [
        (CountingCollector(), {"most_uploads": 5}, 5),
        (CountingCollector(), {"most_bytes": 1}, 1),
        (lambda _: Response(413), {}, 20),
        (lambda _: Response(400), {"most_uploads": 8}, 8),
    ],
)
def test_consent_is_asked_for_before_every_request_of_a_round(tmp_path, answer, changed, left):
    asked: list[Request] = []

    def transport(request):
        asked.append(request)
        sending.client.consent("off")
        return answer(request)

    to = Collector("http://c.example", transport, **({"most_uploads": AT_ONCE} | changed))
    sending = Gateway(samples.REGISTRY, Settings("energy", tmp_path / "state", agree="on"), to, environ={})
    fed(sending, 20)
    assert [len(decode_uploads(request.body, 99)) for request in asked] == [left]
    found = rows_of(sending.client)
    assert {(row.state, row.answer) for row in found} == {(RowState.DROPPED, "consent withdrawn")}
    sent = {upload.batch for upload in decode_uploads(asked[0].body, 99)}
    assert all(row.attempts for row in found if row.batch in sent), "it may have arrived"
    sending.client.consent("on")
    sending.flush()
    assert len(asked) == 1


def waits(state, metric, period):
    with state.transaction() as rows:
        rows.outbox.add(bytes(16), metric, period, b"bytes", account=bytes(16), due=0.0, state=RowState.WAITING)
        rows.remember(ASKED, "http://c.example")
        CollectorHealth(4, 0.0).save(rows)


@pytest.mark.parametrize(
    ("metric", "period", "became"),
    [
        ("gone", samples.FIRST, (RowState.DROPPED, "unknown-metric", 0)),
        ("energy", samples.FIRST - 10_000, (RowState.DROPPED, "period-closed", 0)),
        ("energy", samples.FIRST + 10_000, (RowState.WAITING, "period-future", 0)),
    ],
)
def test_what_is_decided_without_asking_was_not_tried_and_makes_no_collector_well(tmp_path, metric, period, became):
    device = Gateway(samples.REGISTRY, Settings("energy", tmp_path / "state", agree="local"), environ={})
    state = State(device.client.paths)
    waits(state, metric, period)
    Collector("http://c.example", CountingCollector(), clock=lambda: at(0)).send_due(state, samples.REGISTRY)
    (row,) = rows_of(device.client)
    assert (row.state, row.answer, row.attempts) == became
    with state.snapshot() as rows:
        assert CollectorHealth.of(rows) == CollectorHealth(4, 0.0)
