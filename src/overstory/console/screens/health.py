"""Is the collection healthy? Reports against their median, refusals, collectors, and notes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field as Parameter

from overstory.analysis.alarms.alarm import BEFORE, HIGHEST_VOLUME, LOWEST_VOLUME
from overstory.collector.store import Store
from overstory.collector.store.operations import NOTE_KINDS, CollectorState, Refusals
from overstory.console.changes import DRAWN
from overstory.console.screens.page import number_field
from overstory.console.view import Query, Screen, ScreenError, View
from overstory.presentation.charts.drawing import plain_number
from overstory.presentation.charts.series import Line, small_multiple
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Form,
    Heading,
    Notice,
    Paragraph,
    Row,
    Table,
    Tone,
)
from overstory.presentation.formats import thousands, with_article
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric, Period
from overstory.protocol.metrics.period import DAY
from overstory.protocol.wire.reasons import Reason

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture


def volume(data: ConsoleData, metric: Metric) -> dict[str, Any]:
    """Return a metric's row: its newest period that is over, the median before (None: too young), and its line."""
    now, period = data.clock(), metric.period
    current = period.number(now)
    newest, first = current - 1, current - 1 - BEFORE
    by_period = data.reports(metric, first + 1 - DRAWN, current + 1)
    began = min(by_period, default=current)
    usual = None if began > first else median(by_period.get(number, 0) for number in range(first, newest))
    reports = by_period.get(newest, 0)
    share = reports / usual if usual else None
    return {
        "metric": metric.id,
        "title": metric.title,
        "period": period.label(newest),
        "reports": reports,
        "median": usual,
        "share": share,
        "running": by_period.get(current, 0),
        "stands_out": volume_tone(share) == "bad" and not metric.expired(period.start(newest)),
        "unit": str(period),
        "line": [by_period.get(number, 0) for number in range(max(began, current - DRAWN), current)],
    }


def volume_tone(share: float | None) -> Tone:
    """Return whether a share of the median stands out."""
    return "bad" if share is not None and not LOWEST_VOLUME <= share <= HIGHEST_VOLUME else ""


class HealthQuery(Query):
    """How many days of refusals are shown."""

    days: int = Parameter(14, ge=1, le=400)


class HealthScreen(Screen):
    """What an operator looks at first."""

    name = "Health"
    path = "/health"
    query = HealthQuery

    def view(self, data: ConsoleData, query: HealthQuery, **path: str) -> View:  # noqa: ARG002 - every screen takes it
        health = _Health(data, data.clock(), query.days)
        blocks = (
            Heading(1, health.headline),
            *health.alarms(),
            *health.of_reports(),
            *health.of_refusals(),
            *health.of_collectors(),
            *health.of_notes(),
        )
        return View("Health", blocks, health.reports, facts=health.facts())

    def act(self, data: ConsoleData, fields: Mapping[str, str], **path: str) -> str:  # noqa: ARG002
        store = data.store
        if not isinstance(store, Store):
            raise ScreenError(400, "this console only reads its store: it cannot change notes")
        if "note" in fields:
            store.remove_note(fields["note"])
        else:
            try:
                day = Period(DAY).parse_label(fields.get("day", ""))
            except ParameterError:
                raise ScreenError(400, "day: give a date such as 2026-11-21") from None
            store.add_note(fields.get("text", ""), day, fields.get("kind", "note"), fields.get("metric") or None)
        return "/health#notes"


@dataclass(frozen=True)
class _Health:
    """What the store says at one moment."""

    data: ConsoleData
    now: float
    days: int

    @cached_property
    def collectors(self) -> list[CollectorState]:
        return self.data.store.collectors()

    @cached_property
    def refusals(self) -> Refusals:
        return self.data.store.refusals()

    def moment(self, unix_time: int) -> str:
        return self.data.words(f"{dt.datetime.fromtimestamp(unix_time, dt.UTC):%Y-%m-%dT%H:%M}")

    @property
    def silent(self) -> list[CollectorState]:
        return [state for state in self.collectors if state.silent(self.now)]

    @property
    def headline(self) -> str:
        answering = len(self.collectors) - len(self.silent)
        return f"Health: {answering:,} of {len(self.collectors):,} collectors answer"

    def alarms(self) -> Iterator[Block]:
        if not self.collectors:
            yield Notice("No collector has sent a heartbeat within a week.")
        for state in self.silent:
            yield Notice(f"Collector {_short(state.id)} has been silent since {self.moment(state.last_seen)}.")
        for row in self.reports.rows:
            if row["stands_out"]:
                when = with_article(self.data.words(row["period"]))
                usual = f"the median of the {BEFORE} periods before is {row['median']:,.0f}"
                words = f"{row['title']}: {row['reports']:,} reports in {when}, {usual}."
                yield Notice(words, address=f"/m/{row['metric']}")

    @cached_property
    def reports(self) -> Table:
        columns = (
            Column("title", "Metric", is_left=True, link=lambda row: f"/m/{row['metric']}"),
            Column("period", "Newest that is over", self.data.words, is_left=True),
            Column("reports", "Reports", _known),
            Column("median", f"Median of the {BEFORE} before", _known),
            Column("share", "Of the median", lambda share: _known(share and 100 * share, "%"), tone=volume_tone),
            Column("running", "Running", _known),
            Column("line", f"{DRAWN} periods", lambda _: "", ("metric",), picture=_line, is_left=True),
        )
        rows = [volume(self.data, metric) for metric in self.data.registry.values()]
        return Table("Reports of each metric", columns, rows)

    def of_reports(self) -> Iterator[Block]:
        yield Heading(2, "Reports", "reports")
        yield self.reports
        yield Paragraph("A running period is not compared. A period that is over still takes late reports for a while.")

    @property
    def by_day(self) -> list[dict[str, Any]]:
        first = int(self.now // DAY) - self.days + 1
        rows = [
            {
                "day": _day(day),
                "reason": reason,
                "refused": count,
                "detail": Reason(reason).detail
                if reason in set(Reason)
                else "A reason that this version does not know.",
            }
            for (day, reason), count in self.refusals.by_day.items()
            if day >= first and count
        ]
        return sorted(rows, key=lambda row: (row["day"], row["refused"]), reverse=True)

    @property
    def by_metric(self) -> list[dict[str, Any]]:
        rows = []
        for (name, period, reason), count in self.refusals.by_metric.items():
            metric = self.data.registry.metrics.get(name)
            if count and metric is not None and metric.period.start(period + 1) > self.now - self.days * DAY:
                label = metric.period.label(period)
                rows.append({"metric": name, "period": label, "reason": reason, "refused": count})
        return sorted(rows, key=lambda row: (row["period"], row["metric"], row["refused"]), reverse=True)

    def of_refusals(self) -> Iterator[Block]:
        yield Heading(2, "Refused", "refused")
        days = number_field("days", "Days", self.days, 1, 400, 1)
        yield Form("Which days", (days,), "Show", "/health", is_live=True)
        if not self.by_day:
            yield Paragraph(f"Nothing was refused in the last {self.days} days.")
            return
        yield Paragraph("Reports, batches and requests by day; the metric is not stored with the day.")
        reason, refused = Column("reason", "Reason", is_left=True), Column("refused", "Refused", thousands)
        detail = Column("detail", "What it means", is_left=True)
        yield Table(
            "Refused by day",
            (Column("day", "Day (UTC)", self.data.words, is_left=True), reason, refused, detail),
            self.by_day,
        )
        if self.by_metric:
            named = Column("metric", "Metric", is_left=True), Column("period", "Period", self.data.words, is_left=True)
            yield Table("Refused by metric, in the metric's own periods", (*named, reason, refused), self.by_metric)

    def of_collectors(self) -> Iterator[Block]:
        yield Heading(2, "Collectors", "collectors")
        columns = (
            Column("id", "Collector", _short, is_left=True, is_code=True),
            Column("state", "State", is_left=True, tone=lambda state: "bad" if state == "silent" else "good"),
            Column("last_seen", "Last seen", is_left=True),
            Column("started", "Started", is_left=True),
            Column("waiting", "Reports waiting", thousands),
            Column("version", "Version", is_left=True),
        )
        rows = [
            asdict(state)
            | {
                "state": "silent" if state.silent(self.now) else "answers",
                "last_seen": self.moment(state.last_seen),
                "started": self.moment(state.started),
            }
            for state in self.collectors
        ]
        if rows:
            yield Table("Collectors of the last week", columns, rows)
        yield Paragraph(
            "A collector sends a heartbeat every 15 seconds; one that has been silent for 60 is shown as such, and "
            "leaves the list after a week. Its id is random."
        )

    @cached_property
    def notes(self) -> list[dict[str, Any]]:
        return [note.to_json() for note in reversed(self.data.store.notes())]

    def of_notes(self) -> Iterator[Block]:
        yield Heading(2, "Notes", "notes")
        yield Paragraph(
            "Releases are drawn on the charts. Who wrote a note, and when, is not stored: write no names into it."
        )
        if self.notes:
            columns = (
                Column("day", "Day", self.data.words, is_left=True),
                Column("kind", "Kind", is_left=True),
                Column("metric", "Metric", lambda metric: metric or "all", is_left=True),
                Column("text", "Note", is_left=True),
            )
            yield Table("Notes, the newest day first", columns, self.notes)
        metrics = (("", "all metrics"), *((name, metric.title) for name, metric in self.data.registry.items()))
        fields = (
            Field("text", "Note"),
            Field("day", "Day (UTC)", _day(int(self.now // DAY)), "date"),
            Field("kind", "Kind", "note", "choice", tuple((kind, kind) for kind in NOTE_KINDS)),
            Field("metric", "Metric", "", "choice", metrics),
        )
        yield Form("Add a note", fields, "Add the note", "/health", "post")
        if self.notes:
            which = tuple(
                (note["id"], f"{self.data.words(note['day'])}, {note['kind']}: {note['text'][:60]}")
                for note in self.notes
            )
            yield Form("Remove a note", (Field("note", "Note", "", "choice", which),), "Remove it", "/health", "post")

    def facts(self) -> Mapping[str, Any]:
        return {
            "notes": self.notes,
            "refused_by_day": self.by_day,
            "refused_by_metric": self.by_metric,
            "collectors": [{**state.to_json(), "silent": state.silent(self.now)} for state in self.collectors],
        }


def _line(row: Row) -> Picture | None:
    if not row["line"]:
        return None
    numbers = np.array(row["line"], float)
    caption = f"Reports of {row['title']}, by {row['unit']}"
    line = Line("", numbers, numbers, numbers, np.ones(numbers.size, bool))
    return small_multiple(f"health-{row['metric']}", caption, ("", ""), [line], number=plain_number)


def _known(number: float | None, unit: str = "") -> str:
    return "" if number is None else thousands(number) + unit


def _short(digits: str) -> str:
    return digits[:8]


def _day(day: int) -> str:
    return Period(DAY).label(day)
