"""What an operator looks at first: the board of all metrics, with what changed and its alarms, and the health page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from pydantic import Field as Parameter

from overstory.analysis.alarms.alarm import BEFORE, HIGHEST_VOLUME, LOWEST_VOLUME
from overstory.collector.store import Store
from overstory.collector.store.operations import NOTE_KINDS, CollectorState, Refusals
from overstory.console.alarms import TONES, MetricHistory, find_alarms, notice, read_histories
from overstory.console.changes import DRAWN, Trend, largest
from overstory.console.screens.page import ASK_AGAIN, WHOLE_RANGE, is_shares, number_field, state_words
from overstory.console.view import Query, ScreenError, View
from overstory.presentation.charts.series import Line, small_multiple
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Form,
    Heading,
    Lines,
    Notice,
    Paragraph,
    Preformatted,
    Row,
    Table,
    Tone,
)
from overstory.presentation.formats import thousands, with_article
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric, Period
from overstory.protocol.metrics.period import DAY
from overstory.protocol.wire.reasons import Reason
from overstory.queries.readings import WORDS, EstimateOptions

if TYPE_CHECKING:
    from overstory.analysis.alarms.alarm import Alarm
    from overstory.collector.store.operations import Note
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric


MOST_ALARMS: Final = 20
MOST_ROWS: Final = 40  # metrics of one page, whose pictures take 5 kB each; the downloads have all
DAYS: Final = Period(DAY)
NOTES_BEFORE: Final = 7  # days before a period whose notes may explain its alarm

Order = Literal["name", "reports", "detected", "alarms", "expiry"]


class OverviewQuery(Query):
    """Which metrics are shown, and by what they are sorted."""

    owner: str = ""
    search: str = ""
    sort: Order = "name"

    def shows(self, metric: Metric) -> bool:
        words = f"{metric.id} {metric.title} {metric.description} {metric.owner}".casefold()
        return self.owner in {"", metric.owner} and all(word in words for word in self.search.casefold().split())


def show_board(data: ConsoleData, query: OverviewQuery) -> View:
    """Show every metric in a row, under the alarms: the first page after the login."""
    histories = read_histories(data, DRAWN)
    shown = [history for history in histories if query.shows(history.metric)]
    ids = {None, *(history.metric.id for history in shown)}
    alarms = [alarm for alarm in find_alarms(data, histories) if alarm.metric in ids]
    board = _Board(data, query, shown, alarms)
    facts = {"alarms": [alarm.to_json() for alarm in alarms]}
    waits = any(row["waits"] for row in board.table.rows)
    return View("Board", tuple(board.blocks()), board.table, facts=facts, refresh=ASK_AGAIN if waits else 0)


@dataclass(frozen=True)
class _Board:
    data: ConsoleData
    query: OverviewQuery
    histories: Sequence[MetricHistory]
    alarms: Sequence[Alarm]

    def blocks(self) -> Iterator[Block]:
        counts = Counter(alarm.severity for alarm in self.alarms)
        words = ", ".join(f"{counts[severity]} {severity}" for severity in ("red", "amber") if counts[severity])
        of = "" if len(self.histories) == len(self.data.registry) else f" of {len(self.data.registry)}"
        metrics = f"{len(self.histories)}{of} metric{'s' if len(self.histories) != 1 else ''}"
        yield Heading(1, f"{metrics}, {f'alarms: {words}' if words else 'no alarms'}")
        if not any(history.reports for history in self.histories):
            yield from self._first_report()
        urgent = [alarm for alarm in self.alarms if alarm.severity != "note"]
        yield from map(self._notice, urgent[:MOST_ALARMS])
        if len(urgent) > MOST_ALARMS:
            yield Paragraph(f"{len(urgent) - MOST_ALARMS} more alarms are in the JSON of this page.")
        if len(self.data.registry) > 1:
            yield self._form()
        shown = replace(self.table, rows=self.table.rows[:MOST_ROWS])
        yield replace(shown, columns=BOARD) if shown.rows else Notice("No metric is like that.", "faint")
        if (left_out := len(self.table.rows) - len(shown.rows)) > 0:
            yield Paragraph(f"{left_out:,} more metrics: search for them, or sort by something else.")
        yield from (self._notice(alarm) for alarm in self.alarms if alarm.severity == "note")
        yield replace(shown, caption="Every number", fold="closed")
        yield Heading(2, "What these numbers rest on")
        yield Lines(
            "Estimates are of the newest period that is over, in percent of its reports, one per device; while there "
            "is none, of the newest one with reports. Until a period is final, late reports may change them, and its "
            "alarms are provisional. Intervals are 95%, of all devices like these.",
            f"The pictures show up to {DRAWN} periods, each with its 95% interval; a dotted line is the last release.",
            "A sentence names a change, or who overtook whom, where noise does not explain it: of all changes that "
            "this board finds, at most 5% are chance, on average, and it names the largest. “Would have been” seen is "
            "what is seen 19 times in 20. Since a release: the newest period against the last one before it.",
            "An alarm is something to look at, no verdict. Steps and drifts are tests at a false discovery rate of 1% "
            "while the same share of devices stays from period to period. A volume, a fit and refusals are past fixed "
            "limits. An expiry is a date of the registry.",
        )

    def _form(self) -> Form:
        owners = sorted({metric.owner for metric in self.data.registry.values()}, key=str.casefold)
        fields = (
            Field("search", "Search", self.query.search),
            Field(
                "owner", "Responsible", self.query.owner, "choice", (("", "everybody"), *((one, one) for one in owners))
            ),
            Field("sort", "Sort by", self.query.sort, "choice", tuple((order, order) for order in get_args(Order))),
        )
        return Form("Which metrics", fields, "Show", "/m/", is_live=True)

    def _notice(self, alarm: Alarm) -> Notice:
        title = "" if alarm.metric is None else self.data.registry[alarm.metric].title
        return notice(self.data, alarm, title, self._notes(alarm))

    def _notes(self, alarm: Alarm) -> Iterator[str]:
        """Yield the notes of the period of a step, a drift or a volume, and of the week before."""
        if alarm.metric is None or alarm.kind not in {"step", "drift", "volume"}:
            return
        period = self.data.registry[alarm.metric].period
        number = period.parse_label(alarm.period)
        first, last = period.start(number) // DAY - NOTES_BEFORE, (period.start(number + 1) - 1) // DAY
        for note in self._every_note:
            if first <= note.day <= last and note.metric in {None, alarm.metric}:
                yield f"{note.kind.capitalize()} of {self.data.words(note.to_json()['day'])}: {note.text}."

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
        rows = sorted((self._row(history) for history in self.histories), key=self._key)
        faint = {number for number, row in enumerate(rows) if row["days"] <= 0}
        return Table("", _numbers(self.data.words), rows, faint)

    def _key(self, row: Row) -> tuple[Any, str]:
        title = str(row["title"]).casefold()
        if self.query.sort == "name":
            return 0, title
        return (row["days"] if self.query.sort == "expiry" else -(row[self.query.sort] or 0)), title

    def _row(self, history: MetricHistory) -> dict[str, Any]:
        metric, period = history.metric, history.shown
        days = (metric.expires - self.data.today).days
        own = [alarm for alarm in self.alarms if alarm.metric == metric.id and alarm.severity != "note"]
        health, state = [f"{alarm.severity}: {alarm.kind}" for alarm in own], "no reports"
        if period is not None:
            state = state_words(self.data, metric, period)
            when = self.data.words(history.label(period))
            health.append(f"{history.reports[period]:,} reports, {when}, {state.partition(';')[0]}")
        return {
            "metric": metric.id,
            "title": metric.title,
            "owner": metric.owner,
            "kind": WORDS[metric.reading],
            "period": None if period is None else history.label(period),
            "state": state,
            "reports": 0 if period is None else history.reports[period],
            **self._learned(history),
            "alarms": len(own),
            "tone": TONES[own[0].severity] if own else "",
            "health": "; ".join(health + [_expires("", days)] * (days <= 0)) or state,
            "expires": metric.expires.isoformat(),
            "days": days,
        }

    def _learned(self, history: MetricHistory) -> dict[str, Any]:
        """Return the newest number, the picture and the sentence of a metric, or what these wait for."""
        metric, row = history.metric, dict.fromkeys(("newest", "told", "detected", "candidates", "trend"))
        row |= {"newest": history.problem, "told": "", "waits": False}
        try:
            estimates = self._estimates(history)
        except ScreenError as error:
            waits = error.status == 202
            return row | {"newest": "being computed" if waits else str(error), "waits": waits}
        if history.shown not in estimates:
            no_list = history.reports and is_shares(metric) and not metric.labels
            return row | ({"newest": "there is no list of candidates"} if no_list else {})
        newest = estimates[history.shown]
        row["newest"] = largest(newest)
        if metric.reading in WHOLE_RANGE:
            return row | {"told": "All periods are searched together: there is nothing to compare."}
        if is_shares(metric):
            row |= {"detected": int(newest.detected().sum()), "candidates": len(newest)}
        notes, number = [note for note in self._every_note if note.metric in {None, metric.id}], len(self.data.registry)
        trend = Trend.of(metric, estimates, notes, number, lambda period: self.data.words(history.label(period)))
        return row | {"told": trend.sentence, "trend": trend}

    @cached_property
    def _every_note(self) -> Sequence[Note]:
        return self.data.store.notes()

    def _estimates(self, history: MetricHistory) -> dict[int, Any]:
        """Return the estimates of the periods that are drawn; those of a search are one."""
        metric, shown, options = history.metric, history.shown, EstimateOptions(interval_kind="population")
        if shown is None:
            return {}
        first = max(shown - DRAWN + 1, 0)
        if is_shares(metric):
            return {period: one for period, one in history.estimates.items() if first <= period <= shown}
        if metric.reading in WHOLE_RANGE:
            return {shown: self.data.read(self.data.counts(metric, None, shown), "total", options).discovered}
        reading = self.data.read(self.data.counts(metric, first, shown), "per-period", options)
        return {part.last: part.estimate for part in reading.parts}


TITLE: Final = Column("title", "Metric", is_left=True, link=lambda row: f"/m/{row['metric']}")
BOARD: Final = (
    TITLE,
    Column("newest", "Now", is_left=True),
    Column(
        "trend", "Over time", lambda _: "", picture=lambda row: row["trend"] and row["trend"].picture(), is_left=True
    ),
    Column("told", "What changed", is_left=True),
    Column("health", "Health", lambda _, words: words, ("tone", "health"), is_left=True, tone=lambda tone: tone),
)
"""The columns of the board."""


def _expires(date: str, days: int) -> str:
    return f"in {days:,} days" if days > 0 else f"ended {date}".rstrip()


def _numbers(words: Callable[[str], str]) -> tuple[Column, ...]:
    """Return the columns of the table below, and of the files."""
    return (
        TITLE,
        Column("owner", "Responsible", is_left=True),
        Column("kind", "What it is", is_left=True),
        Column("alarms", "Alarms", lambda number: thousands(number) if number else "none"),
        Column("newest", "Estimate", is_left=True),
        Column("told", "What changed", is_left=True),
        Column(
            "period",
            "Newest",
            lambda period: words(period) if period else "none",
            is_left=True,
            link=lambda row: f"/m/{row['metric']}/{row['period']}" if row["period"] else "",
        ),
        Column("state", "State", is_left=True),
        Column("reports", "Reports", thousands),
        Column(
            "detected_of",
            "Detected",
            lambda detected, candidates: "" if detected is None else f"{detected:,} of {candidates:,}",
            ("detected", "candidates"),
        ),
        Column("expires", "Expires", lambda date, days: _expires(words(date), days), ("expires", "days"), is_left=True),
    )


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


def show_health(data: ConsoleData, query: HealthQuery) -> View:
    """Show whether the collection is healthy: what an operator looks at first."""
    now, collectors, refusals = data.clock(), data.store.collectors(), data.store.refusals()
    silent = [state for state in collectors if state.silent(now)]
    reports, notes = _reports(data), [note.to_json() for note in reversed(data.store.notes())]
    by_day = _refused_by_day(refusals, int(now // DAY) - query.days + 1)
    by_metric = _refused_by_metric(data, refusals, now - query.days * DAY)
    blocks = (
        Heading(1, f"Health: {len(collectors) - len(silent):,} of {len(collectors):,} collectors answer"),
        *([] if collectors else [Notice("No collector has sent a heartbeat within a week.")]),
        *(Notice(f"Collector {one.id[:8]} has been silent since {data.moment(one.last_seen)}.") for one in silent),
        *_low_volumes(data, reports),
        Heading(2, "Reports", "reports"),
        reports,
        Paragraph("A running period is not compared. A period that is over still takes late reports for a while."),
        *_refusal_blocks(data, query.days, by_day, by_metric),
        *_collector_blocks(data, collectors, silent),
        *_note_blocks(data, notes),
    )
    facts = {
        "notes": notes,
        "refused_by_day": by_day,
        "refused_by_metric": by_metric,
        "collectors": [{**state.to_json(), "silent": state in silent} for state in collectors],
    }
    return View("Health", blocks, reports, facts=facts)


def change_notes(data: ConsoleData, fields: Mapping[str, str]) -> str:
    """Add or remove a note, as a form asks, and return the address that shows it."""
    store = data.store
    if not isinstance(store, Store):
        raise ScreenError(400, "this console only reads its store: it cannot change notes")
    if "note" in fields:
        store.remove_note(fields["note"])
    else:
        try:
            day = DAYS.parse_label(fields.get("day", ""))
        except ParameterError:
            raise ScreenError(400, "day: give a date such as 2026-11-21") from None
        store.add_note(fields.get("text", ""), day, fields.get("kind", "note"), fields.get("metric") or None)
    return "/health#notes"


def _low_volumes(data: ConsoleData, reports: Table) -> Iterator[Block]:
    for row in reports.rows:
        if row["stands_out"]:
            when = with_article(data.words(row["period"]))
            usual = f"the median of the {BEFORE} periods before is {row['median']:,.0f}"
            words = f"{row['title']}: {row['reports']:,} reports in {when}, {usual}."
            yield Notice(words, address=f"/m/{row['metric']}")


def _reports(data: ConsoleData) -> Table:
    columns = (
        Column("title", "Metric", is_left=True, link=lambda row: f"/m/{row['metric']}"),
        Column("period", "Newest that is over", data.words, is_left=True),
        Column("reports", "Reports", _known),
        Column("median", f"Median of the {BEFORE} before", _known),
        Column("share", "Of the median", lambda share: _known(share and 100 * share, "%"), tone=volume_tone),
        Column("running", "Running", _known),
        Column("line", f"{DRAWN} periods", lambda _: "", ("metric",), picture=_line, is_left=True),
    )
    rows = [volume(data, metric) for metric in data.registry.values()]
    return Table("Reports of each metric", columns, rows)


def _refused_by_day(refusals: Refusals, first: int) -> list[dict[str, Any]]:
    rows = [
        {
            "day": DAYS.label(day),
            "reason": reason,
            "refused": count,
            "detail": Reason(reason).detail if reason in set(Reason) else "A reason that this version does not know.",
        }
        for (day, reason), count in refusals.by_day.items()
        if day >= first and count
    ]
    return sorted(rows, key=lambda row: (row["day"], row["refused"]), reverse=True)


def _refused_by_metric(data: ConsoleData, refusals: Refusals, since: float) -> list[dict[str, Any]]:
    rows = []
    for (name, period, reason), count in refusals.by_metric.items():
        metric = data.registry.metrics.get(name)
        if count and metric is not None and metric.period.start(period + 1) > since:
            label = metric.period.label(period)
            rows.append({"metric": name, "period": label, "reason": reason, "refused": count})
    return sorted(rows, key=lambda row: (row["period"], row["metric"], row["refused"]), reverse=True)


def _refusal_blocks(data: ConsoleData, days: int, by_day: Sequence[Row], by_metric: Sequence[Row]) -> Iterator[Block]:
    yield Heading(2, "Refused", "refused")
    field = number_field("days", "Days", days, 1, 400, 1)
    yield Form("Which days", (field,), "Show", "/health", is_live=True)
    if not by_day:
        yield Paragraph(f"Nothing was refused in the last {days} days.")
        return
    yield Paragraph("Reports, batches and requests by day; the metric is not stored with the day.")
    reason, refused = Column("reason", "Reason", is_left=True), Column("refused", "Refused", thousands)
    detail = Column("detail", "What it means", is_left=True)
    yield Table(
        "Refused by day",
        (Column("day", "Day (UTC)", data.words, is_left=True), reason, refused, detail),
        by_day,
    )
    if by_metric:
        named = Column("metric", "Metric", is_left=True), Column("period", "Period", data.words, is_left=True)
        yield Table("Refused by metric, in the metric's own periods", (*named, reason, refused), by_metric)


def _collector_blocks(
    data: ConsoleData, collectors: Sequence[CollectorState], silent: Sequence[CollectorState]
) -> Iterator[Block]:
    yield Heading(2, "Collectors", "collectors")
    columns = (
        Column("id", "Collector", lambda digits: digits[:8], is_left=True, is_code=True),
        Column("state", "State", is_left=True, tone=lambda state: "bad" if state == "silent" else "good"),
        Column("last_seen", "Last seen", is_left=True),
        Column("started", "Started", is_left=True),
        Column("waiting", "Reports waiting", thousands),
        Column("version", "Version", is_left=True),
    )
    rows = [
        asdict(state)
        | {
            "state": "silent" if state in silent else "answers",
            "last_seen": data.moment(state.last_seen),
            "started": data.moment(state.started),
        }
        for state in collectors
    ]
    if rows:
        yield Table("Collectors of the last week", columns, rows)
    yield Paragraph(
        "A collector sends a heartbeat every 15 seconds; one that has been silent for 60 is shown as such, and "
        "leaves the list after a week. Its id is random."
    )


def _note_blocks(data: ConsoleData, notes: Sequence[Row]) -> Iterator[Block]:
    yield Heading(2, "Notes", "notes")
    yield Paragraph(
        "Releases are drawn on the charts. Who wrote a note, and when, is not stored: write no names into it."
    )
    if notes:
        columns = (
            Column("day", "Day", data.words, is_left=True),
            Column("kind", "Kind", is_left=True),
            Column("metric", "Metric", lambda metric: metric or "all", is_left=True),
            Column("text", "Note", is_left=True),
        )
        yield Table("Notes, the newest day first", columns, notes)
    metrics = (("", "all metrics"), *((name, metric.title) for name, metric in data.registry.items()))
    fields = (
        Field("text", "Note"),
        Field("day", "Day (UTC)", data.today.isoformat(), "date"),
        Field("kind", "Kind", "note", "choice", tuple((kind, kind) for kind in NOTE_KINDS)),
        Field("metric", "Metric", "", "choice", metrics),
    )
    yield Form("Add a note", fields, "Add the note", "/health", "post")
    if notes:
        which = tuple((note["id"], f"{data.words(note['day'])}, {note['kind']}: {note['text'][:60]}") for note in notes)
        yield Form("Remove a note", (Field("note", "Note", "", "choice", which),), "Remove it", "/health", "post")


def _line(row: Row) -> Picture | None:
    if not row["line"]:
        return None
    numbers = np.array(row["line"], float)
    caption = f"Reports of {row['title']}, by {row['unit']}"
    line = Line("", numbers, numbers, numbers, np.ones(numbers.size, bool))
    return small_multiple(f"health-{row['metric']}", caption, ("", ""), [line], is_share=False)


def _known(number: float | None, unit: str = "") -> str:
    return "" if number is None else thousands(number) + unit
