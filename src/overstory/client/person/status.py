"""The state of a device in plain words: what may be done and why, what waits and for what, what was spent."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.client.budget import Allowance, ledger_of
from overstory.client.consent import NEW, Choice, EffectiveChoice
from overstory.client.outcomes import Fault, StateError
from overstory.client.state.files import StatePaths, read_application
from overstory.client.state.rows import LONGEST_DELAY, Rows
from overstory.client.state.secret_file import read_secret
from overstory.client.state.state import UNCHECKED, State, machine_id
from overstory.client.upload.delivery import ASKED, COPIED, DAY, CollectorHealth, problem_words
from overstory.presentation.formats import date_words, duration, plural
from overstory.presentation.render_text import Layout, unbroken
from overstory.privacy.registry.cost import (
    MetricCost,
    TotalCost,
    headline,
    in_two_sentences,
    metric_cost,
    totals_so_far,
)

if TYPE_CHECKING:
    from overstory.privacy.statements import Claim
    from overstory.protocol.metrics import Metric, MetricRegistry


SCREEN: Final = 12  # lines of a first screen, of 100 places each
NOWHERE: Final = "nobody yet; you are asked again before any are sent"


def metric_line(metric: Metric) -> str:
    """Return a line of what a metric asks for; what is sent without noise is never cut off."""
    clear = "" if metric.groups is None else f" (sent without noise: {metric.groups.by})"
    room = Layout().width - len(clear)
    return textwrap.shorten(f"- {metric.title}: {metric.description}", room, placeholder=" ...") + clear


def asked_by(registry: MetricRegistry) -> str:
    """Say who collects."""
    if registry.operator is not None:
        return f"asked by: {registry.operator.described}"
    owners = [*dict.fromkeys(metric.owner for metric in registry.values())]
    return textwrap.shorten(f"asked by: {', '.join(owners)}", 72, placeholder=" ...")


def one_screen(above: Sequence[str], texts: Sequence[str], below: Sequence[str], more: str, room: int) -> list[str]:
    """Return lines for a screen: of `texts` as many as there is room for, at least one, and how many more there are."""

    def shown(number: int) -> list[str]:
        left = len(texts) - number
        return [*above, *texts[:number], *([f"  and {left} more: {more}"] if left else []), *below]

    fit = (n for n in range(2, len(texts) + 1) if sum(len(Layout().sentence(text)) for text in shown(n)) <= room)
    return shown(max(fit, default=min(1, len(texts))))


def relayed(registry: Mapping[str, Metric]) -> list[str]:
    """Return the metrics whose reports go through a relay."""
    return [name for name, metric in registry.items() if metric.is_oblivious]


def ways(registry: MetricRegistry) -> Iterator[str]:
    """Say which reports go through the relay, and which directly; nothing where the registry names none."""
    names, route = relayed(registry), registry.oblivious
    direct = ", ".join(name for name in registry if name not in names)
    if names and route is not None:
        yield f"reports of {', '.join(names)} go there through the relay {route.described}, and never another way"
        if direct:
            yield f"reports of {direct} go there directly, from your device's address"


def due_words(first: float, last: float) -> str:
    """Say when what waits is due."""
    if last <= 0:
        return "due now"
    within = f"within {duration(last)}"
    if math.ceil(first / 60) == math.ceil(last / 60):
        return f"due {within}"
    return f"the first due {'now' if first <= 0 else f'within {duration(first)}'}, all {within}"


def due_in(times: Sequence[float], now: float) -> tuple[float, float] | None:
    """Return in how many seconds the first and the last of some times come; None where there are none."""
    # What is due later than any delay allows has seen another clock: it is sent at once.
    waits = [max(due - now, 0.0) if due <= now + LONGEST_DELAY else 0.0 for due in times]
    return (min(waits), max(waits)) if waits else None


def refusals(health: Mapping[str, CollectorHealth]) -> str | None:
    """Say what the collector refuses, or what answers in its place, and since when."""
    alike: dict[tuple[str, int], list[str]] = {}
    for name, health_there in health.items():
        alike.setdefault((health_there.problem, health_there.since), []).append(name)
    problems = ((since, problem_words(why, ", ".join(names))) for (why, since), names in alike.items())
    sentences = [f"{text} since {datetime.fromtimestamp(since * DAY, UTC).date()}" for since, text in problems if text]
    return "; ".join(sentences) or None


COPY_SENT: Final = (
    "this state was restored from a backup, or copied: a report of its own had been counted before it left; what was "
    "reported cost at least what is said here"
)
"""The caveat of a state of which a copy has sent a report too."""
DROPPED: Final = "dropped: "
_CHOSE: Final = {Choice.ON: "you agreed on {} to", Choice.LOCAL: "you chose on {} to keep on this device"}
_LOST: Final = {
    "made-room": "to make room for newer reports",
    "withdrawn": "consent was withdrawn",
    "spent": "the budget was used up",
}


@dataclass(frozen=True)
class Status:
    """What there is to know of one application on this device."""

    effective: EffectiveChoice  # what may be done now, and its cause
    # metrics that the person has not been asked about as they are, with what is new or has changed
    missing: Mapping[str, tuple[str, ...]]
    folder: Path  # where the state lies, or would
    pending: int = 0  # reports that are in memory alone, not yet on the disk
    # reports in the outbox by state: waiting, sent, dropped, local
    outbox: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # what happened so far, by word
    # in how many seconds the first of the reports that wait is due, and the last; None when none waits. Each is sent by
    # the first flush after that
    due: tuple[float, float] | None = None
    # why the state cannot be used, the last thing that went wrong, or what the collector refuses, or what answers in
    # its place, and since which day; None when all is well
    problem: str | None = None
    # by metric, the period in which a report was last sent; no finer time is kept
    last_success: Mapping[str, str] = field(default_factory=dict)
    failures: int = 0  # how often in a row the collector has failed
    clock: str | None = None  # what is wrong with the clock; None when nothing is known to be
    spent: tuple[MetricCost, ...] = ()  # what the reports of each metric have cost so far
    # what a person should know that is no trouble: reports that travel in the clear, a machine without an id
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()  # what `spent` does not know, a sentence each
    totals: tuple[TotalCost, ...] = ()  # what the metrics have cost together
    server: str | None = None  # the collector that reports may go to; None where the choice names none
    relay_failures: int = 0  # how often in a row the relay has failed, by the metric for which it failed most
    registry: MetricRegistry | None = None  # the metrics; None where none are known
    # when this device is asked next, as a period's label by metric, where it is before the metric's end; None where
    # nothing has a panel, or there is no secret yet
    next_answers: Mapping[str, str] | None = None

    @property
    def headline(self) -> Claim | None:
        """What may be learned about the person in any year; None where there is no metric."""
        return headline(self.registry) if self.registry else None

    @property
    def dropped(self) -> dict[str, int]:
        """Reports that were made and never reached the collector, by reason."""
        refused = {word.removeprefix(DROPPED): n for word, n in self.counts.items() if word.startswith(DROPPED)}
        return refused | {text: self.counts[word] for word, text in _LOST.items() if word in self.counts}

    @property
    def together(self) -> tuple[TotalCost, ...]:
        """The totals, but for one of a single metric, which its own lines state."""
        alone = {(spent.metric,) for spent in self.spent}
        return tuple(total for total in self.totals if total.metrics not in alone)

    def row(self) -> tuple[str, str, str, str]:
        """Return a row of a table of several applications: what is done, what waits, what was sent, and why."""
        waiting, sent = self.outbox.get("waiting", 0) + self.pending, self.counts.get("sent", 0)
        return str(self.effective.choice), str(waiting), str(sent), self.effective.cause

    def troubles(self) -> Iterator[str]:
        """Say what a person has to decide, and what went wrong, a line at a time."""
        yield from self._asks_again()
        yield from self._problems()

    def first_words(self, more: str = "--details") -> list[str]:
        """Say the most important of it: a screen of lines where nothing is wrong; `more` is where the rest is."""
        registry, choice = self.registry, self.effective.choice
        where = f"; reports go to: {self.server or NOWHERE}" if choice is Choice.ON else ""
        below = [
            *([f"{asked_by(registry)}{where}"] if registry else ()),
            *self._asks_again(),
            next(self._queue()),
            *self._faults(),
            *(f"note: {note}" for note in self.notes),
            f"{'' if choice is Choice.OFF else 'to stop: `off`; '}the rest: {more}",
        ]
        above = [f"{choice}: {self.effective.cause}", *(in_two_sentences(registry) if registry else ())]
        return one_screen(above, [metric_line(each) for each in (registry or {}).values()], below, more, SCREEN - 1)

    def words(self) -> Iterator[str]:
        """Say it to a person, a line at a time."""
        if self.headline is not None:
            yield self.headline.sentence
        yield f"{self.effective.choice}: {self.effective.cause}"
        consent = self.effective.consent
        if consent is not None and consent.choice is not Choice.OFF:
            yield f"{_CHOSE[consent.choice].format(consent.date)}: {', '.join(consent.metrics) or 'nothing'}"
            yield f"reports go to: {self.server or NOWHERE}"
        yield from () if self.registry is None else ways(self.registry)
        yield from self._asks_again()
        yield f"state: {self.folder}"
        yield from self._queue()
        yield from self._faults()
        for note in self.notes:
            yield f"note: {note}"

    def _faults(self) -> Iterator[str]:
        yield from self.caveats
        if self.failures:
            yield f"the collector has failed {self.failures}x in a row; what waits is tried again later"
        if self.relay_failures:
            yield f"the relay has failed {self.relay_failures}x in a row; what waits is tried again later"
        yield from self._problems()

    def _problems(self) -> Iterator[str]:
        yield from (f"problem: {problem}" for problem in (self.clock, self.problem) if problem is not None)

    def _asks_again(self) -> Iterator[str]:
        if not self.effective.asked:
            return
        new = [name for name, reasons in self.missing.items() if reasons == (NEW,)]
        if new:
            yield f"not asked about yet, so not recorded: {', '.join(new)}"
        for name, reasons in self.missing.items():
            if name not in new:
                yield f"asked about again, so not recorded until you choose: {name} ({'; '.join(reasons)})"

    def _queue(self) -> Iterator[str]:
        waiting, local = (self.outbox.get(name, 0) for name in ("waiting", "local"))
        when = f", {due_words(*self.due)};" if self.due is not None else ","
        sent = self.counts.get("sent", 0)
        yield f"waiting: {waiting + self.pending}{when} sent: {sent}, kept on this device: {local}"
        if self.last_success:
            last = ", ".join(f"{date_words(period)} ({metric})" for metric, period in self.last_success.items())
            yield f"last sent in: {last}"
        if self.next_answers is not None:
            asked = ", ".join(f"{date_words(period)} ({metric})" for metric, period in self.next_answers.items())
            yield f"of its panel, this device is asked next in: {asked or 'no period before the end'}"
        if self.dropped:
            yield f"dropped: {', '.join(f'{number} ({reason})' for reason, number in self.dropped.items())}"

    def costs(self) -> Iterator[str]:
        """Say what the reports have cost, a line at a time: each metric, and all of them together."""
        for spent in self.spent:
            answers = f" from {plural(spent.distinct, 'noisy answer')}" if spent.distinct else ""
            yield f"{spent.metric}: {plural(spent.made, 'report')}{answers}"
            if not spent.planned:
                yield from unbroken(spent.pairs())
        for total in self.together:
            yield f"together, {total.about}:"
            yield from unbroken(total.pairs())

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        consent, relay = self.effective.consent, None if self.registry is None else self.registry.oblivious
        return {
            "choice": str(self.effective.choice),
            "cause": self.effective.cause,
            "consent": None
            if consent is None
            else {
                "choice": str(consent.choice),
                "date": consent.date,
                "registry": consent.registry,
                "metrics": list(consent.metrics),
            },
            "not_asked": list(self.missing),
            "asked_again": {name: list(reasons) for name, reasons in self.missing.items()},
            "server": self.server,
            **({} if relay is None else {"relay": relay.to_json() | {"failures": self.relay_failures}}),
            "folder": str(self.folder),
            "waiting": self.outbox.get("waiting", 0) + self.pending,
            "due_in_seconds": None if self.due is None else [math.ceil(seconds) for seconds in self.due],
            "local": self.outbox.get("local", 0),
            "sent": self.counts.get("sent", 0),
            "dropped": self.dropped,
            "last_success": dict(self.last_success),
            "headline": None if self.headline is None else self.headline.to_json(),
            "next_answers": None if self.next_answers is None else dict(self.next_answers),
            "collector_failures": self.failures,
            "clock": self.clock,
            "problem": self.problem,
            "notes": list(self.notes),
            "caveats": list(self.caveats),
            "budget": [spent.to_json() for spent in self.spent],
            "totals": [total.to_json() for total in self.totals],
        }


def read_status(
    paths: StatePaths,
    registry: MetricRegistry,
    effective: EffectiveChoice,
    *,
    now: float,
    pending: int = 0,
    dues: Sequence[float] = (),
    problem: str | None = None,
    server: str | None = None,
) -> Status:
    """Return the status of a state, which is only read; a running program gives what it alone knows."""
    state, consent = State(paths), effective.consent
    status = Status(
        effective,
        dict.fromkeys(registry, (NEW,))
        if consent is None
        else consent.missing(registry, server or read_application(paths).server),
        paths.folder,
        pending,
        due=due_in(dues, now),
        problem=problem,
        clock=None if consent is None else _before_consent(consent.date, now),
        server=None if consent is None else consent.server,
        registry=registry,
    )
    if not state.exists:
        return status
    if machine_id() is None:
        status = replace(status, notes=(UNCHECKED,))
    try:
        state.check_machine()
    except StateError as error:
        status = replace(status, problem=str(error) if error.fault is Fault.ELSEWHERE else problem)
    try:
        with state.snapshot() as rows:
            status = replace(status, next_answers=_next_answers(paths, rows, registry, now))
            return _completed(status, rows, registry, dues, now, server)
    except StateError as error:
        return replace(status, problem=status.problem or str(error))


def _completed(
    status: Status, rows: Rows, registry: MetricRegistry, dues: Sequence[float], now: float, server: str | None
) -> Status:
    """Add what a state says; what another address than the collector's did is left out."""
    rows.read(registry)
    ledger, sent = ledger_of(rows, registry), [(name, rows.recall(f"sent {name}")) for name in registry]
    waiting, other = rows.outbox.dues(), server is not None and rows.recall(ASKED) not in {None, server}
    names = ("", *sorted({metric for metric, _ in waiting}))
    health = {name: CollectorHealth() if other else CollectorHealth.of(rows, name) for name in names}
    # What the collector has against a metric is a problem; without one, it is the relay that failed.
    failing = [health[name].failures for name in relayed(registry) if name in health and not health[name].problem]
    times = [*dues, *(max(due, health[""].until(due), health[name].until(due)) for name, due in waiting)]
    return replace(
        status,
        outbox={str(name): number for name, number in rows.outbox.tally().items()},
        counts=rows.counts(),
        due=due_in(times, now),
        problem=status.problem or refusals(health),
        last_success={name: registry[name].period.label(int(number)) for name, number in sent if number is not None},
        failures=health[""].failures,
        clock=status.clock or _ahead(rows, registry, now),
        spent=tuple(metric_cost(metric, so_far=ledger, budget=registry.budget) for metric in registry.values()),
        caveats=() if rows.recall(COPIED) is None else (COPY_SENT,),
        totals=totals_so_far(ledger),
        relay_failures=max(failing, default=0),
    )


def _next_answers(paths: StatePaths, rows: Rows, registry: MetricRegistry, now: float) -> dict[str, str] | None:
    """Return by metric when the places of this device's secret ask it next, in the order of the times."""
    asked = [(each, each.panel) for each in registry.values() if each.panel is not None and not each.expired(now)]
    if not asked:
        return None
    from overstory.protocol.metrics import panel

    secret = read_secret(paths.secret)
    key = None if secret is None else secret.key(panel.ASKED)
    if key is None:
        return None
    places, found = panel.Places(key, registry), []
    for metric, its_panel in asked:
        first, last = metric.period.number(now), metric.period.number(metric.expires_at - 1)
        first += first in rows.claims(metric.id).by(metric.period).reported
        cycle = its_panel.periods(metric.period)
        # Where a metric has ended, what it was answered counts for the cycle of the next one, too.
        for period in places.asked(metric, first, min(first + 2 * cycle - 1, last)):
            allowance = Allowance(registry, rows, metric.period.start(period))
            if allowance.allows(metric) and not allowance.answered(metric):
                found.append((metric.period.start(period), metric.id, metric.period.label(period)))
                break
    return {name: label for _, name, label in sorted(found)}


def _before_consent(chosen: str, now: float) -> str | None:
    today = datetime.fromtimestamp(now, UTC).date()
    if date.fromisoformat(chosen) <= today:
        return None
    return f"the clock says {today}, before the choice of {chosen}: it was set back, or was ahead then"


def _ahead(rows: Rows, registry: Mapping[str, Metric], now: float) -> str | None:
    """Say that reports were made in a period that has not begun, if any were: the clock was ahead, or was set back."""
    for name, metric in registry.items():
        last = max(rows.claims(name).by(metric.period).reported, default=None)
        if last is not None and metric.period.start(last) > now:
            says, made = (date_words(metric.period.label(one)) for one in (metric.period.number(now), last))
            return f"the clock says {says}, and {name} was reported for {made}: it was set back"
    return None
