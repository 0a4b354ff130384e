"""Collects what a person can see of her device: what was recorded, exactly what is sent, and what can be inferred.

True values are not shown because they are not stored: the state holds permanent responses and encoded reports. A
program that knows a value can explain it (`overstory.client.person.explanation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from overstory.client.budget import Spent, planned, spent
from overstory.client.person.explanation import Inference, infer
from overstory.client.person.report_bytes import Part, annotate, bit_string, matches, payload_words, report_in
from overstory.client.state.memo import Response
from overstory.client.state.outbox import OutboxRow, RowState
from overstory.client.state.state import Rows
from overstory.client.upload.retry import RELAYED
from overstory.protocol.errors import WireError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.metrics.period import Period

STATE_TEXTS = {
    RowState.WAITING: "waits to be sent",
    RowState.SENT: "was sent",
    RowState.DROPPED: "was dropped",
    RowState.LOCAL: "stays here: it is never sent",
}
BY_RELAY = "was sent: the relay has it, and passes it on to the collector"


@dataclass(frozen=True)
class ReportView:
    """One report, ready to be shown.

    Attributes
    ----------
    state, detail
        Where it is, and the same in words.
    body, parts
        The bytes that were or will be sent, and what each of them means.
    """

    period: str  # the period it is about, as a label
    state: RowState
    detail: str
    arrived: bool  # whether the collector or its relay has it, or may have it
    response: int | None  # the number of its permanent response, where that is known
    body: bytes
    parts: tuple[Part, ...]
    report: Report | None  # the report in them; None where these are not bytes that this version reads
    bits: str  # its payload, bit 0 first


@dataclass(frozen=True)
class ResponseView:
    """One permanent response: the noisy answer from which all reports of one value are made.

    Attributes
    ----------
    bits, words
        The response, bit 0 first, and in words; empty when other parameters made it.
    reports, kept
        How often it was queued for sending, and how often it was recorded for the person alone.
    """

    number: int  # in order of first report, from 1
    bits: str
    words: str
    reports: int
    kept: int


@dataclass(frozen=True)
class Inferences:
    """What a collector could infer about the value.

    Attributes
    ----------
    newest
        From the newest report alone; words where there is nothing to compute, None where there is no report.
    linked
        From all kept reports of the newest one's permanent response (all of them, where all noise is fresh), by
        somebody who can link them; None if it is one.
    hypothetical
        Whether none of these reports was or will be sent: what would be concluded if they were.
    """

    newest: Inference | str | None = None
    linked: Inference | str | None = None
    hypothetical: bool = False


@dataclass(frozen=True)
class MetricView:
    """One metric on this device, ready to be shown.

    Attributes
    ----------
    responses, reports
        What is stored of each.
    """

    id: str  # its id
    metric: Metric | None  # its entry; None when the registry at hand does not list it
    recorded: tuple[str, ...]  # the periods with a report, as labels, oldest first
    responses: tuple[ResponseView, ...]
    reports: tuple[ReportView, ...]
    inferences: Inferences  # what can be inferred from the reports
    spent: Spent | None  # the privacy spent; None without the entry


def view_metrics(rows: Rows, registry: Mapping[str, Metric]) -> tuple[MetricView, ...]:
    """Return every metric that the registry lists or that this device has reported, in that order."""
    names = dict.fromkeys(registry)
    names |= dict.fromkeys(row.metric for row in rows.outbox.rows())
    names |= dict.fromkeys(response.metric for response in rows.memo.responses())
    return tuple(_shown(rows, name, registry.get(name)) for name in names)


def _shown(rows: Rows, name: str, metric: Metric | None) -> MetricView:
    queue = rows.outbox.rows(name)
    claims = rows.claims(name)
    period = Period(claims.length) if claims.length is not None else None if metric is None else metric.period
    return MetricView(
        id=name,
        metric=metric,
        recorded=tuple(_label(period, number) for number in sorted(claims.reported)),
        responses=tuple(_response(response, metric) for response in rows.memo.responses(name)),
        reports=tuple(_report(row, metric, period) for row in queue),
        inferences=Inferences() if metric is None else infer_all(queue, metric),
        spent=None if metric is None else spent(rows, metric),
    )


def _label(period: Period | None, number: int) -> str:
    return f"period {number}" if period is None else period.label(number)


def _response(response: Response, metric: Metric | None) -> ResponseView:
    if metric is None or response.mechanism != metric.mechanism.digest:
        return ResponseView(response.number + 1, "", "by earlier parameters", response.reports, response.kept)
    if response.erased:
        return ResponseView(response.number + 1, "", "erased: the metric is over", response.reports, response.kept)
    if response.permanent is None:
        reason = "none is kept: the noise of every report is fresh"
        return ResponseView(response.number + 1, "", reason, response.reports, response.kept)
    bits = bit_string(metric.mechanism, response.permanent)
    text = payload_words(metric.mechanism, response.permanent, metric.labels)
    return ResponseView(response.number + 1, bits, text, response.reports, response.kept)


def _report(row: OutboxRow, metric: Metric | None, period: Period | None) -> ReportView:
    parts, report = _read(row, metric)
    mine = metric is not None and matches(row.body, metric)
    return ReportView(
        period=_label(period, row.period),
        state=row.state,
        detail=_detail(row),
        arrived=row.state is RowState.SENT or row.attempts > 0,
        response=None if row.response is None else row.response + 1,
        body=row.body,
        parts=parts,
        report=report,
        bits=bit_string(metric.mechanism, report.bits) if mine and metric and report else "",
    )


def _read(row: OutboxRow, metric: Metric | None) -> tuple[tuple[Part, ...], Report | None]:
    try:
        return annotate(row.body, metric), report_in(row.body)[1]
    except WireError as error:
        return (Part("bytes", row.body, f"not read here: {error}"),), None


def _detail(row: OutboxRow) -> str:
    text = BY_RELAY if row.answer == RELAYED else STATE_TEXTS[row.state]
    if row.state in {RowState.DROPPED, RowState.WAITING} and row.answer:
        text += f" ({row.answer})"
    if row.state is not RowState.SENT and row.attempts:
        text += f"; tried {row.attempts}x, so it may have arrived"
    return text


def infer_all(queue: Sequence[OutboxRow], metric: Metric) -> Inferences:
    """Return what a collector with a uniform prior could infer from a metric's stored reports."""
    usable = [row for row in queue if matches(row.body, metric)]
    sent = [row for row in usable if row.state in {RowState.WAITING, RowState.SENT} or row.attempts]
    seen = sent or usable
    if not seen:
        return Inferences()
    newest = seen[-1]
    fresh = metric.mechanism.fresh  # then reports of different values cannot be told apart
    alike = [row for row in seen if fresh or (row.response is not None and row.response == newest.response)]
    alone = infer(metric, [report_in(newest.body)[1]])
    linked = infer(metric, [report_in(row.body)[1] for row in alike]) if len(alike) > 1 else None
    return Inferences(alone, linked, hypothetical=not sent)


def view_without_state(registry: Mapping[str, Metric]) -> tuple[MetricView, ...]:
    """Return the registry's metrics where nothing was recorded or the state cannot be read."""
    return tuple(
        MetricView(name, metric, (), (), (), Inferences(), planned(metric)) for name, metric in registry.items()
    )
