"""All metrics at a glance, under the alarms: what is newest, how sure, whether it fits, and until when."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from overstory.analysis.decoding.decoder import Decoded
from overstory.console.alarms import TONES, MetricHistory, find_alarms, read_histories
from overstory.console.screens.page import is_shares, not_listed, reading_words, state_words
from overstory.console.view import Query, Screen, View
from overstory.presentation.charts.numbers import sparkline
from overstory.presentation.document import (
    Block,
    Column,
    Heading,
    Lines,
    Links,
    Notice,
    Paragraph,
    Preformatted,
    Row,
    Table,
)
from overstory.presentation.formats import finite, percent, thousands
from overstory.protocol.metrics.period import DAY

if TYPE_CHECKING:
    from overstory.analysis.alarms.alarm import Alarm
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture

DRAWN: Final = 26
"""Periods of a metric's small line."""
MOST_ALARMS: Final = 20
NOTES_BEFORE: Final = 7
"""Days before a period whose notes may explain its alarm."""

Order = Literal["title", "reports", "detected", "alarms", "expires"]
ORDERS: Final[Mapping[Order, str]] = {
    "title": "Name",
    "reports": "Reports",
    "detected": "Detected",
    "alarms": "Alarms",
    "expires": "Expiry",
}


class OverviewQuery(Query):
    """By what the metrics are sorted."""

    sort: Order = "title"


class OverviewScreen(Screen):
    """The first page after the login."""

    name = "Overview"
    path = "/m/"
    query = OverviewQuery

    def view(self, data: ConsoleData, query: OverviewQuery, **path: str) -> View:  # noqa: ARG002 - every screen takes it
        histories = read_histories(data)
        overview = _Overview(data, query, histories, find_alarms(data, histories))
        facts = {"alarms": [alarm.to_json() for alarm in overview.alarms]}
        return View("Overview", tuple(overview.blocks()), overview.table, facts=facts)


@dataclass(frozen=True)
class _Overview:
    data: ConsoleData
    query: OverviewQuery
    histories: Sequence[MetricHistory]
    alarms: Sequence[Alarm]

    def blocks(self) -> Iterator[Block]:
        counts = Counter(alarm.severity for alarm in self.alarms)
        words = [f"{counts[severity]} {severity}" for severity in ("red", "amber") if counts[severity]]
        alarms = f"alarms: {', '.join(words)}" if words else "no alarms"
        yield Heading(1, f"{len(self.histories)} metric{'s' if len(self.histories) != 1 else ''}, {alarms}")
        yield from self._notices()
        if not any(history.reports for history in self.histories):
            yield from self._first_report()
        chosen = OverviewQuery(sort=self.query.sort)
        places = tuple((words, chosen.address("/m/", sort=order)) for order, words in ORDERS.items())
        yield Links("Sort by", places, ORDERS[self.query.sort])
        yield self.table
        yield Heading(2, "What these numbers rest on")
        yield Lines(
            "Estimates are of the newest period that is over, in percent of its reports, one per device; while there "
            "is none, of the newest one with reports. Until a period is final, late reports may change them, and its "
            "alarms are provisional. Intervals are 95%, of all devices like these.",
            f"The small lines show the reports of up to {DRAWN} periods, the newest of which may still be running.",
            "“Not listed” are the reports whose string is in no list of candidates; only lists have this.",
            "An alarm is something to look at, no verdict. Steps and drifts are tests at a false discovery rate of 1% "
            "while the same share of devices stays from period to period. A volume, a fit and refusals are past fixed "
            "limits. An expiry is a date of the registry.",
        )

    def _notices(self) -> Iterator[Block]:
        for alarm in self.alarms[:MOST_ALARMS]:
            metric = "" if alarm.metric is None else f", {self.data.registry[alarm.metric].title}"
            text = f"{alarm.severity_words}: {alarm.kind}{metric}, {alarm.period}. {alarm.text}"
            yield Notice(" ".join([text, *self._notes(alarm)]), TONES[alarm.severity])
        if len(self.alarms) > MOST_ALARMS:
            yield Paragraph(f"{len(self.alarms) - MOST_ALARMS} more alarms are in the JSON of this page.")

    def _notes(self, alarm: Alarm) -> Iterator[str]:
        """Yield the notes of the period of a step, a drift or a volume, and of the week before."""
        if alarm.metric is None or alarm.kind not in {"step", "drift", "volume"}:
            return
        period = self.data.registry[alarm.metric].period
        number = period.parse_label(alarm.period)
        first, last = period.start(number) // DAY - NOTES_BEFORE, (period.start(number + 1) - 1) // DAY
        for note in self.data.store.notes(alarm.metric):
            if first <= note.day <= last:
                day = dt.datetime.fromtimestamp(note.day * DAY, dt.UTC).date()
                yield f"{note.kind.capitalize()} of {day}: {note.text}."

    def _first_report(self) -> Iterator[Block]:
        metric = next(iter(self.data.registry), "METRIC")
        yield Notice("There are no reports yet. These lines send the first ones, of simulated devices:", "")
        yield Preformatted(
            f"overstory store tokens {self.data.store.url} --add write --application my-app > write-token\n"
            f"overstory serve --registry metrics.toml --store {self.data.store.url} --port 8000 &\n"
            'OVERSTORY_WRITE_TOKEN="$(cat write-token)" \\\n'
            "    overstory simulate --registry metrics.toml --devices 500 --store http://127.0.0.1:8000"
        )
        yield Paragraph("And in a program, once a person has agreed:")
        yield Preformatted(
            "from overstory.client import Client\n\n"
            'with Client("my-app", registry="metrics.toml", server="http://127.0.0.1:8000", token="...") as client:\n'
            f'    client.record("{metric}", value)'
        )

    @cached_property
    def table(self) -> Table:
        columns = (
            Column("title", "Metric", is_left=True, link=lambda row: f"/m/{row['metric']}"),
            Column(
                "alarms",
                "Alarms",
                lambda number: thousands(number) if number else "none",
                tone=lambda number: "bad" if number else "",
            ),
            Column("detected_of", "Detected", _detected, ("detected", "candidates")),
            Column("unlisted", "Not listed", _unlisted, ("unlisted", "unlisted_error")),
            Column("newest", "Estimate", is_left=True),
            Column("period", "Newest", lambda period: period or "none", is_left=True, link=_period_address),
            Column("state", "State", is_left=True),
            Column("reports", "Reports", thousands),
            Column("line", "Reports by period", lambda _: "", ("metric",), picture=self._line),
            Column("fit", "Fit", is_left=True, tone=lambda fit: "bad" if fit == "past limits" else ""),
            Column("expires", "Expires", _expires, ("expires", "days"), is_left=True),
        )
        rows = sorted((self._row(history) for history in self.histories), key=self._key)
        faint = {number for number, row in enumerate(rows) if row["days"] <= 0}
        return Table("", columns, rows, faint)

    def _key(self, row: Row) -> tuple[Any, str]:
        title = str(row["title"]).casefold()
        if self.query.sort == "title":
            return 0, title
        return (row["days"] if self.query.sort == "expires" else -(row[self.query.sort] or 0)), title

    def _row(self, history: MetricHistory) -> dict[str, Any]:
        metric, period = history.metric, history.shown
        days = (metric.expires - dt.datetime.fromtimestamp(self.data.clock(), dt.UTC).date()).days
        fits = [alarm for alarm in self.alarms if alarm.metric == metric.id and alarm.kind == "fit"]
        own = [alarm for alarm in self.alarms if alarm.metric == metric.id and alarm.severity != "note"]
        return {
            "metric": metric.id,
            "title": metric.title,
            "period": None if period is None else history.label(period),
            "state": "no reports" if period is None else state_words(self.data, metric, period),
            "reports": 0 if period is None else history.reports[period],
            **_estimated(history),
            "fit": "past limits" if fits else "within limits" if isinstance(history.newest_estimate, Decoded) else "",
            "alarms": len(own),
            "expires": metric.expires.isoformat(),
            "days": days,
        }

    def _line(self, row: Row) -> Picture | None:
        history = next(history for history in self.histories if history.metric.id == row["metric"])
        if not history.reports:
            return None
        last = max(history.reports)
        first = max(last - DRAWN + 1, min(history.reports))
        numbers = np.array([history.reports.get(period, 0) for period in range(first, last + 1)], np.float64)
        caption = f"Reports of {history.metric.title}, {history.label(first)} to {history.label(last)}"
        return sparkline(f"overview-{history.metric.id}", caption, numbers)


def _estimated(history: MetricHistory) -> dict[str, Any]:
    estimate = history.newest_estimate
    row: dict[str, Any] = {"newest": "", "detected": None, "candidates": None, "unlisted": None, "unlisted_error": None}
    if estimate is None:
        if not is_shares(history.metric):
            return row | {"newest": reading_words(history.metric) if history.reports else ""}
        no_list = not history.metric.labels and history.reports
        return row | {"newest": history.problem or ("there is no list of candidates" if no_list else "")}
    first = estimate.rows(1)[0]
    interval = f"({percent(first['frequency_low'])} to {percent(first['frequency_high'])})"
    words = f"{first['value']} {percent(first['frequency'])} {interval}" if first["detected"] else "nothing detected"
    row |= {"newest": words, "detected": int(estimate.detected().sum()), "candidates": len(estimate)}
    if isinstance(estimate, Decoded) and estimate.num_reports:
        row["unlisted"], row["unlisted_error"] = (finite(float(number)) for number in not_listed(estimate))
    return row


def _period_address(row: Row) -> str:
    return "" if row["period"] is None else f"/m/{row['metric']}/{row['period']}"


def _detected(detected: int | None, candidates: int | None) -> str:
    return "" if detected is None else f"{detected:,} of {candidates:,}"


def _unlisted(share: float | None, error: float | None) -> str:
    return "" if share is None else f"{share:.1%}" if error is None else f"{share:.1%} ± {1.96 * error:.1%}"


def _expires(date: str, days: int) -> str:
    return f"in {days:,} days" if days > 0 else f"ended {date}"
