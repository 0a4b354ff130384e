"""Years of a device's life in panels, and what its own reports tell: the exact worst over all histories of values.

A life is lived by the client's session on a state in memory: weeks, each recorded at any hour of it; registries that
come, in which metrics come, go and end, and panels begin, end and change; a clock that is set ahead and back; a state
that is put back. A year has four weeks here (`short_years`), so that a life has many.

What a report was drawn from is not believed but watched: the key that its randomizer was given. Reports of one account
and key share their noise as their mechanism memoizes it, or not; those of different keys share none. The losses of
independent draws add up exactly, so the truth of a year is the sum of the worst of each, over all values that there
are. The same life is lived with other values as well: when a device reports must be the same, and a panel's answer may
depend on the value of its own period alone.
"""

import json
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any
from unittest import mock

from overstory.client import session
from overstory.client.outcomes import MADE
from overstory.client.session import Session
from overstory.client.state.secret_file import DeviceSecret
from overstory.privacy.registry.yearly import yearly
from overstory.protocol.metrics import Metric, parse_registry
from overstory.protocol.metrics.panel import CYCLES
from overstory.protocol.metrics.period import WEEK
from overstory.protocol.wire.upload import decode_batch, decode_uploads
from overstory.trial.fleet import Fleet, MemoryState
from referee.model import Named, account_losses
from support.devices import DAY, NOON
from support.registry_texts import registry_of

SHORT = {"month": 14 * DAY, "quarter": 21 * DAY, "year": 28 * DAY}
VALUES = ("a", "b", "c")
START = NOON // WEEK * WEEK + 4 * DAY  # a Monday
MOST_ALIKE = 4  # reports of one permanent key in a year whose histories are enumerated: 81


@contextmanager
def short_years():
    """Let a year have four weeks, a quarter three and a month two."""
    with (
        mock.patch.dict(CYCLES, SHORT),
        mock.patch("overstory.privacy.registry.yearly.YEAR", SHORT["year"]),
        mock.patch("overstory.client.budget.YEAR", SHORT["year"]),
        mock.patch("overstory.client.state.rows.YEAR", SHORT["year"]),
    ):
        yield


# --- registries -------------------------------------------------------------------------------------------------------

ONCE = "{epsilon = 1.0}"
TWO_ROUNDS = {"oracle": '"l-grr"', "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}"}
FRESH = {"oracle": '"opt-wb"', "parameters": "{epsilon = 0.5, window = 1}"}
YEARLY, MONTHLY = 'panel = {cycle = "year"}', 'panel = {cycle = "month"}'

REGISTRIES = {
    "one": (YEARLY, {"tree": {}}),
    "two": (YEARLY, {"tree": {}, "leaf": {"oracle": '"oue"'}}),
    "three": (YEARLY, {"tree": {}, "leaf": {"oracle": '"oue"'}, "root": {"parameters": "{epsilon = 0.5}"}}),
    "other": (YEARLY, {"leaf": {"oracle": '"oue"'}, "root": {"parameters": "{epsilon = 0.5}"}}),
    "memoized": (YEARLY, {"tree": TWO_ROUNDS, "leaf": TWO_ROUNDS}),
    "ending": (YEARLY, {"tree": {"expires": "2026-12-20"}, "leaf": {"oracle": '"oue"'}}),
    "monthly": (MONTHLY, {"tree": {}, "leaf": {"oracle": '"oue"'}}),
    "twice": ('panel = {cycle = "year", answers = 2}', {"tree": {}, "leaf": {"oracle": '"oue"'}}),
    "own": (YEARLY, {"tree": {"panel": '{cycle = "quarter", answers = 2}'}, "leaf": {}, "root": {}}),
    "none": (YEARLY, {"tree": {"panel": '"none"'} | FRESH, "leaf": {}}),
    "no panel": ("", {"tree": FRESH, "leaf": FRESH}),
    "budget": ('budget = {epsilon = 1.25, per = "year"}', {"tree": FRESH, "leaf": FRESH}),
    "both": (f'{YEARLY}\nbudget = {{epsilon = 2.0, per = "year"}}', {"tree": {"panel": '"none"'} | FRESH, "leaf": {}}),
    "linked": ("budget = {epsilon = 3.0}", {"tree": TWO_ROUNDS}),
}
"""What is said of all metrics, and every metric's own keys, by name."""


@cache
def registry(name):
    """Return a registry by its name; within `short_years`, which decides on a year's reports."""
    head, metrics = REGISTRIES[name]
    domain = f'{{kind = "categories", names = {json.dumps(VALUES)}}}'
    about = {"domain": domain, "period": '"week"', "parameters": ONCE, "expires": "2099-01-01"}
    first, rest = registry_of(metrics, version=name, **about).split("\n", 1)
    return parse_registry(f"{first}\n{head}\n{rest}")


@cache
def headline(name):
    """Return the epsilon that a person reads first."""
    return yearly(registry(name).values(), registry(name).budget).epsilon


# --- stories ----------------------------------------------------------------------------------------------------------

Event = tuple[Any, ...]


def story(rng, names=tuple(REGISTRIES), *, changing=True):
    """Return a life: `week h`, recorded so many seconds after it begins; `registry r`; `jump n` weeks; `restored`.

    A state that is put back has forgotten what was reported since, so what a device counts no longer bounds its
    reports; its places still do. So a life in which a state is put back keeps its registry, which has a panel alone.
    """
    events = [("registry", rng.choice(names))]
    for _ in range(rng.randrange(12, 30)):
        events.append(("week", rng.choice((0, 1, 3 * DAY, WEEK - 1))))
        what = rng.random()
        if changing and what < 0.2:
            events.append(("registry", rng.choice(names)))
        elif changing and what < 0.28:
            events.append(("jump", rng.choice((-9, -4, -2, -1, 1, 3, 5))))
        elif not changing and what < 0.2:
            events.append(rng.choice((("backup",), ("restored",))))
    return events


# --- a life -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:  # a report that a device has made
    time: float
    name: str  # of the registry in force
    metric: Metric
    period: int
    cohort: int
    key: bytes  # from which its randomizer drew
    value: Any  # what the device held
    body: bytes


class Life:  # a device that holds `values` in turn, from its first week on
    def __init__(self, secret, values):
        self.state = MemoryState(DeviceSecret.of_root(secret))
        self.values, self.weeks, self.week = values, 0, START
        self.now = float(START)
        self.made = []
        self.in_force = []  # since when
        self.backup = None
        self.drawn = b""

    def live(self, events):
        real = session.randomizer_of

        def watched(metric, key):
            randomizer = real(metric, key)
            self.keys[id(randomizer)] = key
            return randomizer

        self.keys = {}
        with mock.patch.object(session, "randomizer_of", watched):
            for event, *given in events:
                getattr(self, f"on_{event}")(*given)
        return self

    def on_registry(self, name):
        self.name = name
        self.in_force.append((self.now, name))
        self.people = Fleet(registry(name), "http://x", mock.Mock())
        self.session = Session(self.state, registry(name), lambda: self.now, spread=0.0)

    def on_jump(self, weeks):
        self.week += weeks * WEEK
        self.now = float(self.week)
        self.on_registry(self.name)

    def on_backup(self):
        self.backup = sqlite3.connect(":memory:")
        self.state._connection.backup(self.backup)

    def on_restored(self):
        if self.backup is not None:
            self.backup.backup(self.state._connection)
            self.on_registry(self.name)

    def on_week(self, later):
        self.now = self.week + later
        value = self.values[self.weeks % len(self.values)]
        for metric in registry(self.name).values():
            if self.session.record(metric, value, self.now, self.people.now()) in MADE:
                (report,) = self.session._pending
                written = self.session.flush(self.people, 0.0)  # type: ignore[arg-type]
                if written["queued"]:
                    self.note(metric, value, report)
        self.weeks, self.week = self.weeks + 1, self.week + WEEK

    def note(self, metric, value, report):
        key = self.keys[id(self.session._recorders[metric.id]._randomizer)]
        (upload,) = decode_uploads(report.body, 1)
        made = Made(
            self.now,
            self.name,
            metric,
            report.period,
            int.from_bytes(decode_batch(upload.reports).cohorts, "little"),
            key,
            value,
            report.body,
        )
        self.made.append(made)


# --- the truth --------------------------------------------------------------------------------------------------------


def told(reports):
    """Return by how much the worst two histories are told apart by these reports: exactly, of independent draws."""
    drawn = {}
    for made in reports:
        of_key = drawn.setdefault((made.metric.account, made.key), {})
        of_key[made.body] = made  # the same bytes again tell nothing more
    return sum(told_of_a_key([*of_key.values()]) for of_key in drawn.values())


def told_of_a_key(reports):
    mechanism, cohort = reports[0].metric.mechanism, reports[0].cohort
    if mechanism.fresh:
        return sum(worst(reports[0].metric.account, mechanism, cohort, 1) for _ in reports)
    return worst(reports[0].metric.account, mechanism, cohort, min(len(reports), MOST_ALIKE))


_worst = {}


def worst(account, mechanism, cohort, reports):
    """Return the worst over all pairs of histories of so many reports that are drawn from one key."""
    name = account, cohort, reports
    if name not in _worst:
        values = range(len(VALUES))
        sequences = tuple(tuple(enumerate(each)) for each in product(values, repeat=reports))
        _worst[name] = float(account_losses(Named(mechanism), cohort, sequences, ever=False).max())
    return _worst[name]


def years(made, number=1):
    """Yield the reports of so many years, beginning with each report, by the device's own clock."""
    for first in made:
        yield [each for each in made if first.time <= each.time < first.time + number * SHORT["year"]]


def promise(reports):
    """Return what a person was told of a year that has these reports.

    Where the last registry has panels or a yearly budget, a device counts what it has reported under others: then it is
    the largest headline that she had in that year. Else a registry speaks of its own reports alone, and they add up.
    """
    names = {each.name for each in reports}
    last = registry(reports[-1].name)
    counts = last.budget is not None or any(metric.panel is not None for metric in last.values())
    return (max if counts else sum)(headline(name) for name in names)


def lies(secret, events):
    """Yield what is not true of a life: a headline below a year's reports, or a report that tells by being there."""
    life = Life(secret, VALUES).live(events)
    answers = [made for made in life.made if made.metric.panel is not None]
    for number, made in ((1, life.made), (3, answers)):
        for reports in years(made, number):
            promised, true = number * promise(reports), told(reports)
            if true > promised + 1e-9:
                yield f"epsilon {promised:.6f} in any {number} years: their reports tell {true:.6f}"
                break
    yield from told_otherwise(life, [Life(secret, values).live(events) for values in ("a", "cb", "bbbac")])


def told_otherwise(life, others):
    """Yield what reports tell by when there are some, and what a panel's answer tells of other periods."""
    places = {(made.name, made.metric.id, made.time): made for made in life.made}
    for other in others:
        if [(made.name, made.metric.id, made.time) for made in other.made] != [*places]:
            yield "whether a report is sent, and when, does not depend on the value: it does"
            return
        for made in other.made:
            same = places[made.name, made.metric.id, made.time]
            if made.metric.panel is not None and made.value == same.value and made.body != same.body:
                yield "an answer depends on what was held in other periods"
                return
