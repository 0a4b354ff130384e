"""What a collector stores about itself: refusals outlive it, its heartbeat is there, and neither names a sender."""

import random
import time
from typing import Any

import pytest

from overstory.collector.ingest import Decision, Ingest, Result
from overstory.collector.store import StoreError, open_store
from overstory.collector.store.operations import CollectorState
from overstory.collector.telemetry import StateReporter, Telemetry
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import Period, parse_registry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_upload
from support.collector_in_process import NOW, REGISTRY, TODAY, batch_id, packed
from support.collector_processes import CollectorProcess
from support.devices import Clock
from support.misfortunes import until
from support.served import Wire, post

WEEKLY = REGISTRY.replace('period = "day"', 'period = "week"')
METRICS = parse_registry(WEEKLY)


class Rows:
    def __init__(self):
        self.written: list[tuple[CollectorState | None, dict[Any, int]]] = []
        self.fails = False

    def report_state(self, state, refused):
        if self.fails:
            raise StoreError("the disk is full")
        self.written.append((state, dict(refused)))


@pytest.fixture
def parts():
    telemetry, rows, clock = Telemetry(), Rows(), Clock(NOW)
    return telemetry, rows, clock, StateReporter(telemetry, rows, lambda: METRICS, clock)


def refuse(telemetry, metric, reason):
    telemetry.decided(Decision(results=[Result(bytes(16), metric, reason=reason)]))


def test_a_refusal_is_stored_by_day_and_by_the_metrics_period_and_never_by_both(parts):
    telemetry, rows, _, reporter = parts
    refuse(telemetry, "bloom", Reason.PERIOD_CLOSED)
    telemetry.reject(Reason.NO_TOKEN, count=2)
    reporter.report()
    assert rows.written[0][1] == {
        (None, TODAY, "period-closed"): 1,
        (None, TODAY, "no-token"): 2,
        ("bloom", Period.parse("week").number(NOW), "period-closed"): 1,
    }


def test_the_period_is_that_of_the_refusal_and_not_what_a_sender_names():
    """Otherwise a sender would decide how many rows there are."""
    telemetry, rows, ingest = Telemetry(), Rows(), Ingest(METRICS)
    raw = packed(METRICS["bloom"], [Report(0, 0)])
    for period in (1, 7, 99, 2_000_000):
        body = encode_upload(Upload(batch_id(), "bloom", period, raw))
        telemetry.decided(ingest.decide(body, MEDIA_TYPE, NOW))
    StateReporter(telemetry, rows, lambda: METRICS, Clock(NOW)).report()
    week = METRICS["bloom"].period.number(NOW)
    of_metric = {key: count for key, count in rows.written[0][1].items() if key[0] is not None}
    assert of_metric == {("bloom", week, "period-closed"): 3, ("bloom", week, "period-future"): 1}


def test_a_metric_that_no_registry_lists_is_not_written_down():
    telemetry, rows, ingest = Telemetry(), Rows(), Ingest(METRICS)
    body = encode_upload(Upload(batch_id(), "alice.smith", TODAY, packed(METRICS["bloom"], [Report(0, 0)])))
    telemetry.decided(ingest.decide(body, MEDIA_TYPE, NOW))
    StateReporter(telemetry, rows, lambda: METRICS, Clock(NOW)).report()
    assert rows.written[0][1] == {(None, TODAY, "unknown-metric"): 1}


def test_what_a_failing_store_did_not_take_comes_with_the_next(parts):
    telemetry, rows, clock, reporter = parts
    reporter.report()
    refuse(telemetry, "bloom", Reason.BITS)
    rows.fails = True
    with pytest.raises(StoreError):
        reporter.report()
    rows.fails, clock.now = False, NOW + 5
    refuse(telemetry, "bloom", Reason.BITS)
    reporter.report()
    reporter.report()
    assert [refused.get((None, TODAY, "bits"), 0) for _, refused in rows.written] == [0, 2]


def test_a_sign_of_life_comes_every_quarter_minute_and_after_a_clock_was_set_back(parts):
    _, rows, clock, reporter = parts
    seen = []
    for moment in (0, 5, 10, 15, 20, -3600, -3595):
        clock.now = NOW + moment
        reporter.report()
        seen.append(len(rows.written))
    assert seen == [1, 1, 1, 2, 2, 3, 3]
    states = [state for state, _ in rows.written]
    assert len({state.id for state in states}) == 1


# --- with real processes --------------------------------------------------------------------------------------------
def collector(folder, url):
    (folder / "metrics.toml").write_text(WEEKLY)
    return CollectorProcess(folder / "metrics.toml", url)


def spoiled_uploads():
    bloom, rng = METRICS["bloom"], random.Random(7)
    week = bloom.period.number(time.time())
    raw, wrong_cohort = packed(bloom, [Report(0, 0)]), packed(bloom, [Report(4000, 0)])
    bodies = [encode_upload(Upload(batch_id(), "bloom", week - 90, raw)) for _ in range(500)]
    bodies += [encode_upload(Upload(batch_id(), "bloom", week, wrong_cohort)) for _ in range(300)]
    bodies += [b"OVUP" + rng.randbytes(60) for _ in range(200)]
    return bodies


@pytest.mark.slow
def test_refusals_survive_a_collector_that_is_killed_and_the_last_ones_one_that_stops(tmp_path):
    url = str(tmp_path / "store.db")
    days = set()
    with collector(tmp_path, url) as process:
        with Wire(process.address) as wire:
            days.add(int(time.time()) // 86_400)
            statuses = {wire.send(post(body)).answer()[0] for body in spoiled_uploads()}
            days.add(int(time.time()) // 86_400)
        assert statuses == {400, 410}
        with open_store(url) as store:
            until(lambda: sum(store.refusals().by_day.values()) == 1000)
        process.kill()
        process.start()
        with open_store(url) as store:
            until(lambda: len(store.collectors()) == 2)
            refusals = store.refusals()
        with Wire(process.address) as wire:
            assert {wire.send(post(b"OVUP")).answer()[0] for _ in range(3)} == {400}
        assert process.stop() == 0
    with open_store(url) as store:  # the last ones are stored at the end
        assert sum(store.refusals().by_day.values()) == 1003
    by_reason = {"period-closed": 500, "cohort": 300, "damaged": 200}
    assert {day for day, _ in refusals.by_day} <= days
    assert {
        reason: sum(n for (_, of), n in refusals.by_day.items() if of == reason) for reason in by_reason
    } == by_reason
    assert {reason: sum(n for (*_, of), n in refusals.by_metric.items() if of == reason) for reason in by_reason} == {
        "period-closed": 500,
        "cohort": 300,
        "damaged": 0,
    }
