"""What a person can see of her own device: what was recorded, exactly what is sent, and what that tells.

True values are not here, because they are nowhere: the state holds permanent responses and encoded reports. A program
that knows the value may have it explained (`overstory.client.person.explanation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from overstory.client.budget import Spent, planned, spent
from overstory.client.person.explanation import Inference, infer
from overstory.client.person.report_bytes import Part, dissect, drawn, made_by, payload_words, report_in
from overstory.client.state.memo import Response
from overstory.client.state.outbox import OutboxRow, RowState
from overstory.client.state.state import Rows
from overstory.privacy.payload_terms import terms_of
from overstory.protocol.errors import WireError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.metrics.metric import Metric, Period

SAID = {
    RowState.WAITING: "waits to be sent",
    RowState.SENT: "was sent",
    RowState.DROPPED: "was dropped",
    RowState.LOCAL: "stays here: it is never sent",
}


@dataclass(frozen=True)
class ShownReport:
    """One report.

    Attributes
    ----------
    state, said
        Where it is, and the same in words.
    body, parts
        The bytes that were or will be sent, and what each of them means.
    """

    period: str  # the period it is about, as a label
    state: RowState
    said: str
    arrived: bool  # whether the collector has it, or may have it
    response: int | None  # the number of its permanent response, where that is known
    body: bytes
    parts: tuple[Part, ...]
    report: Report | None  # the report in them; None where these are not bytes that this version reads
    bits: str  # its payload, bit 0 first


@dataclass(frozen=True)
class ShownResponse:
    """One permanent response: what the device answers whenever the value is this one, whatever it is.

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
class Told:
    """What could be concluded.

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
class ShownMetric:
    """One metric on this device.

    Attributes
    ----------
    responses, reports
        What is kept of each.
    """

    id: str  # its id
    metric: Metric | None  # its entry; None when the registry at hand does not list it
    recorded: tuple[str, ...]  # the periods with a report, as labels, oldest first
    responses: tuple[ShownResponse, ...]
    reports: tuple[ShownReport, ...]
    told: Told  # what the reports tell
    spent: Spent | None  # what they cost; None without the entry


def shown_metrics(rows: Rows, registry: Mapping[str, Metric]) -> tuple[ShownMetric, ...]:
    """Return every metric that the registry lists or that this device has reported, in that order."""
    known = dict.fromkeys(registry)
    known |= dict.fromkeys(row.metric for row in rows.outbox.rows())
    known |= dict.fromkeys(response.metric for response in rows.memo.responses())
    return tuple(_shown(rows, name, registry.get(name)) for name in known)


def _shown(rows: Rows, name: str, metric: Metric | None) -> ShownMetric:
    queue = rows.outbox.rows(name)
    claims = rows.claims(name)
    period = Period(claims.length) if claims.length is not None else None if metric is None else metric.period
    return ShownMetric(
        id=name,
        metric=metric,
        recorded=tuple(_label(period, number) for number in sorted(claims.reported)),
        responses=tuple(_response(response, metric) for response in rows.memo.responses(name)),
        reports=tuple(_report(row, metric, period) for row in queue),
        told=Told() if metric is None else told(queue, metric),
        spent=None if metric is None else spent(rows, metric),
    )


def _label(period: Period | None, number: int) -> str:
    return f"period {number}" if period is None else period.label(number)


def _response(response: Response, metric: Metric | None) -> ShownResponse:
    if metric is None or response.mechanism != metric.mechanism.digest:
        return ShownResponse(response.number + 1, "", "by earlier parameters", response.reports, response.kept)
    if response.erased:
        return ShownResponse(response.number + 1, "", "erased: the metric is over", response.reports, response.kept)
    if response.permanent is None:
        said = "none is kept: the noise of every report is fresh"
        return ShownResponse(response.number + 1, "", said, response.reports, response.kept)
    bits = drawn(metric.mechanism, response.permanent)
    words = payload_words(metric.mechanism, response.permanent, metric.labels)
    return ShownResponse(response.number + 1, bits, words, response.reports, response.kept)


def _report(row: OutboxRow, metric: Metric | None, period: Period | None) -> ShownReport:
    parts, report = _read(row, metric)
    mine = metric is not None and made_by(row.body, metric)
    return ShownReport(
        period=_label(period, row.period),
        state=row.state,
        said=_said(row),
        arrived=row.state is RowState.SENT or row.attempts > 0,
        response=None if row.response is None else row.response + 1,
        body=row.body,
        parts=parts,
        report=report,
        bits=drawn(metric.mechanism, report.bits) if mine and metric and report else "",
    )


def _read(row: OutboxRow, metric: Metric | None) -> tuple[tuple[Part, ...], Report | None]:
    try:
        return dissect(row.body, metric), report_in(row.body)[1]
    except WireError as error:
        return (Part("bytes", row.body, f"not read here: {error}"),), None


def _said(row: OutboxRow) -> str:
    words = SAID[row.state]
    if row.state in {RowState.DROPPED, RowState.WAITING} and row.answer:
        words += f" ({row.answer})"
    if row.state is not RowState.SENT and row.attempts:
        words += f"; tried {row.attempts}x, so it may have arrived"
    return words


def told(queue: Sequence[OutboxRow], metric: Metric) -> Told:
    """Return what the kept reports of a metric tell a collector that believed any value alike beforehand."""
    usable = [row for row in queue if made_by(row.body, metric)]
    sent = [row for row in usable if row.state in {RowState.WAITING, RowState.SENT} or row.attempts]
    seen = sent or usable
    if not seen:
        return Told()
    newest = seen[-1]
    fresh = terms_of(metric.mechanism).fresh  # then nothing sets the reports of one value apart
    alike = [row for row in seen if fresh or (row.response is not None and row.response == newest.response)]
    one = infer(metric, [report_in(newest.body)[1]])
    linked = infer(metric, [report_in(row.body)[1] for row in alike]) if len(alike) > 1 else None
    return Told(one, linked, hypothetical=not sent)


def shown_without_state(registry: Mapping[str, Metric]) -> tuple[ShownMetric, ...]:
    """Return what can be shown of the registry's metrics where nothing was recorded, or nothing can be read."""
    return tuple(ShownMetric(name, metric, (), (), (), Told(), planned(metric)) for name, metric in registry.items())
