"""The short way: what it takes, the long way takes alike; everything else goes the long way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.collector.ingest import validation
from overstory.collector.ingest.ingest import Ingest
from overstory.collector.ingest.validation import TemplateCache
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.wire.upload import MEDIA_TYPE
from support.collector_in_process import DAY, METRICS, NOW, TODAY, batch_id, packed, sound, upload

NAMES = [name for name in METRICS if name != "ended"]


def warmed() -> Ingest:
    """An ingest that has seen a report of every metric."""
    ingest = Ingest(METRICS)
    for name in NAMES:
        assert ingest.decide(upload(name), MEDIA_TYPE, NOW).num_reports == 1
    return ingest


WARM, COLD = warmed(), Ingest(METRICS)
COLD._templates.remember = lambda *_: None


def alike(body: bytes, now: float) -> None:
    short, long = WARM.decide(body, MEDIA_TYPE, now), COLD.decide(body, MEDIA_TYPE, now)
    assert (short.refused, short.results, short.received) == (long.refused, long.results, long.received)
    assert short.num_reports == long.num_reports


@pytest.mark.parametrize("name", NAMES)
def test_a_second_report_is_recognised_and_taken_alike(name) -> None:
    body = upload(name, raw=packed(METRICS[name], sound(METRICS[name], 1, seed=9)))
    assert WARM._templates.recognise(body, NOW) is not None
    alike(body, NOW)


@pytest.mark.parametrize("name", NAMES)
@given(st.data())
def test_any_alteration_is_decided_alike(name, data) -> None:
    body = bytearray(upload(name, batch=bytes(16)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.sampled_from([0, 0, 0, 1, 5, 40]))
    alike(bytes(body[: len(body) - cut]), NOW)


@pytest.mark.parametrize("name", NAMES)
@given(st.data())
def test_any_report_with_a_right_checksum_is_decided_alike(name, data) -> None:
    metric, shape = METRICS[name], COLD._metrics[name][1]
    cohort = data.draw(st.integers(0, (1 << 8 * shape.cohort_bytes) - 1) | st.integers(0, metric.mechanism.num_cohorts))
    cohort = min(cohort, (1 << 8 * shape.cohort_bytes) - 1)
    bits = data.draw(st.integers(0, (1 << 8 * shape.width) - 1))
    alike(upload(name, raw=packed(metric, [Report(cohort, bits)])), NOW)


@given(st.integers(TODAY - 2, TODAY + 40), st.integers(-2, 2), st.sampled_from([TODAY - 1, TODAY, TODAY + 1]))
def test_time_is_looked_at_every_time(day, second, period) -> None:
    body, then = upload(period=period), (period + 1) * DAY - 10
    WARM.decide(upload(period=period), MEDIA_TYPE, then)
    alike(body, day * DAY + second)


def test_late_reports_of_before_a_metric_expired_are_recognised_until_their_grace_is_over() -> None:
    metric = METRICS["bloom"]
    ends, ingest = metric.expires_at, Ingest(METRICS)
    last = metric.period.number(ends - 1)
    assert ingest.decide(upload(period=last), MEDIA_TYPE, ends - 1).num_reports == 1
    assert ingest._templates.recognise(upload(period=last), ends - 1) is not None
    closes = metric.accept_until(last)
    assert closes > ends
    assert ingest._templates.recognise(upload(period=last), closes - 1) is not None
    assert ingest._templates.recognise(upload(period=last), closes) is None
    ingest.decide(upload(period=last + 1), MEDIA_TYPE, ends)
    assert ingest._templates.recognise(upload(period=last + 1), ends) is None


def test_patterns_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(validation, "MOST", 10)
    ingest = Ingest(METRICS)
    for period in range(TODAY - 25, TODAY):
        ingest.decide(upload(period=period), MEDIA_TYPE, NOW)
        assert len(ingest._templates._by_key) <= 10


def test_nothing_is_recognised_by_who_has_seen_nothing() -> None:
    assert TemplateCache().recognise(upload(batch=batch_id()), NOW) is None
    assert TemplateCache().recognise(b"", NOW) is None
