"""Panels: a device is asked seldom, with the whole budget, rather than always, with a share of it.

In every cycle a device gives a few answers, each with a question and a place of its own that follow from its secret by
a keyed hash: uniform, independent of every value and of every other device, and the same in each cycle. So two answers
at one place are a whole cycle apart. A period that a device misses is lost: to answer later instead would make the
sample one of those who were away.

- The question is the metric with the smallest of the hashes of (answer, metric, ticket), where a metric has as many
  tickets as its share says. So a metric that comes takes its share of the devices from all others, and one that goes
  leaves its devices to all others; no other device moves.
- The place is a hash of the answer, and of the metric where the panel is its own, modulo the number of periods in a
  cycle: whichever question the device is asked, it is at the same place, if the periods are as long.

Two answers of one device that fall on one metric and period are one. The noise of every answer is drawn afresh.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.metrics.period import DAY, YEAR, Period
from overstory.protocol.metrics.toml_fields import Fields, Row, row
from overstory.protocol.sampling import context

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric

CYCLES: Final[Mapping[str, int]] = {"month": 31 * DAY, "quarter": 92 * DAY, "year": YEAR}
"""Seconds in which a device gives its answers, by name; what is promised of a year is promised of any 366 days."""

MOST_ANSWERS: Final = 366
MOST_TICKETS: Final = 100

SHARED: Final = 'a table such as {cycle = "year", answers = 1}'
OWN: Final = f'"none", {SHARED}, or its share of the application\'s panel, such as {{share = 2}}'

ASKED: Final = ":asked"
"""Whose key decides when a device is asked: no metric is called so, and the key is never destroyed."""


@dataclass(frozen=True)
class Panel:
    """How seldom a device is asked."""

    cycle: str = "year"  # the name of the stretch of time in which a device gives its answers: one of `CYCLES`
    answers: int = 1  # how many it gives in each
    own: bool = False  # whether it is of one metric alone; else all metrics of the application share it
    share: int = 1  # a metric's tickets in the panel that it shares
    # of every metric that shares it: when nothing is collected any more, in unix time, and its tickets
    sharing: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def seconds(self) -> int:
        return CYCLES[self.cycle]

    def periods(self, period: Period) -> int:
        """Return how many periods a cycle has: so many that two answers at one place are never nearer than a cycle.

        Of two reports that are n periods apart, the first may be made at the end of its period and the second at the
        start of its own, so that hardly more than n - 1 periods lie between them.
        """
        return -(-self.seconds // period.seconds) + 1

    @property
    def most_in_a_year(self) -> int:
        """How many answers a device gives within any 366 days, at most: a client counts them, whatever the places."""
        return self.answers * -(-CYCLES["year"] // self.seconds)

    def most_reports(self, period: Period, numbers: Iterable[int]) -> int:
        """Return how many reports one device sends in these periods, at most: one for each answer and cycle."""
        at_a_place = Counter(number % self.periods(period) for number in numbers)
        return sum(reports for _, reports in at_a_place.most_common(self.answers))

    def part_of_questions(self, unix_time: float) -> Fraction:
        """Return the chance that an answer is for this metric, of those that share the panel and have not ended."""
        tickets = sum(tickets for ends, tickets in self.sharing if unix_time < ends)
        return Fraction(self.share, max(tickets, self.share))

    def share_asked(self, period: Period, part: Fraction | int = 1) -> Fraction:
        """Return the share of the devices that are asked in one period, for a part of the questions: exact."""
        return 1 - (1 - Fraction(part) / self.periods(period)) ** self.answers

    def __str__(self) -> str:
        answers = "1 answer" if self.answers == 1 else f"{self.answers} answers"
        share = f", {self.share} shares" if self.share > 1 else ""
        return f"{answers} a {self.cycle}{share}, {'of its own' if self.own else 'shared'}"

    def canonical(self) -> dict[str, Any]:
        return {"cycle": self.cycle, "answers": self.answers, "own": self.own}

    def to_json(self) -> dict[str, Any]:
        sharing = {"sharing": [list(pair) for pair in self.sharing]} if self.sharing else {}
        return self.canonical() | {"share": self.share} | sharing

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Panel:
        """Return what `to_json` wrote."""
        sharing = tuple((int(ends), int(tickets)) for ends, tickets in read.get("sharing", ()))
        panel = cls(str(read["cycle"]), int(read["answers"]), bool(read["own"]), int(read["share"]), sharing)
        if panel.cycle not in CYCLES or not (1 <= panel.answers <= MOST_ANSWERS and 1 <= panel.share <= MOST_TICKETS):
            raise ValueError("not what a panel says")
        return panel


class Places:
    """When one device is asked for which metric."""

    def __init__(self, key: bytes, metrics: Mapping[str, Metric]) -> None:
        self._hash = hashlib.blake2b(digest_size=8, key=key, person=b"panel")
        self._shared = [metric for metric in metrics.values() if metric.panel is not None and not metric.panel.own]
        self._ranked: dict[int, list[Metric]] = {}  # by answer: those that share a panel, the first one preferred
        self._places: dict[str, tuple[int, ...]] = {}

    def _number(self, *parts: Any) -> int:
        state = self._hash.copy()
        state.update(context(*parts))
        return int.from_bytes(state.digest(), "big")

    def asks(self, metric: Metric, period: int) -> bool:
        panel = metric.panel
        if panel is None:
            return True
        place = period % panel.periods(metric.period)
        answers = [answer for answer, its_place in enumerate(self._places_of(metric, panel)) if its_place == place]
        if panel.own or not answers:
            return bool(answers)
        start = metric.period.start(period)
        return any(self._question(answer, start) == metric.id for answer in answers)

    def asked(self, metric: Metric, first: int, last: int) -> list[int]:
        """Return the periods from `first` to `last`, by number, in which the device is asked."""
        if metric.panel is None:
            return [*range(first, last + 1)]
        length = metric.panel.periods(metric.period)
        starts = (first + (place - first) % length for place in {*self._places_of(metric, metric.panel)})
        possible = (period for start in starts for period in range(start, last + 1, length))
        return sorted(period for period in possible if self.asks(metric, period))

    def _places_of(self, metric: Metric, panel: Panel) -> tuple[int, ...]:
        places = self._places.get(metric.id)
        if places is None:
            length = panel.periods(metric.period)
            own = (metric.id,) if panel.own else ()  # a device whose question ends keeps its place for the next one
            places = tuple(self._number("place", answer, *own) % length for answer in range(panel.answers))
            self._places[metric.id] = places
        return places

    def _question(self, answer: int, start: int) -> str | None:
        """Return the id of the metric that an answer is for, of those that have not ended by then."""
        ranked = self._ranked.get(answer)
        if ranked is None:

            def first(metric: Metric) -> int:
                tickets = range(1 if metric.panel is None else metric.panel.share)
                return min(self._number("question", answer, metric.id, ticket) for ticket in tickets)

            ranked = self._ranked[answer] = sorted(self._shared, key=first)
        return next((metric.id for metric in ranked if not metric.expired(start)), None)


def read_shared(root: Fields) -> Panel | None:
    """Return the application's panel, after noting every fault in it; None where there is none."""
    if "panel" not in root.table or root.table["panel"] == "none":
        return None
    return _read(root, SHARED, own=False)


def read_own(fields: Fields, shared: Panel | None) -> Panel | None:
    """Return a metric's panel: its own, its share of the application's, or none."""
    given = fields.table.get("panel")
    if given == "none":
        return None
    if given is None:
        return shared
    if not isinstance(given, dict) or "share" not in given:
        return _read(fields, OWN, own=True)
    values = fields.read_table("panel", OWN, {"share": row(Fields.whole, 1, MOST_TICKETS)})
    if shared is None:
        fields.fault("panel.share", f"the application has no panel to have a share of: give panel, {SHARED}")
    return None if shared is None or values is None else Panel(shared.cycle, shared.answers, **values)


def with_sharing(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metrics, those that share a panel with what says how many of its devices are theirs."""
    panels = {name: metric.panel for name, metric in metrics.items() if metric.panel is not None}
    shared = {name: panel for name, panel in panels.items() if not panel.own}
    sharing = tuple((metrics[name].expires_at, panel.share) for name, panel in shared.items())
    updated = {name: replace(metrics[name], panel=replace(panel, sharing=sharing)) for name, panel in shared.items()}
    return {**metrics, **updated}


ROWS: Final[Mapping[str, Row]] = {
    "cycle": row(Fields.choice, tuple(CYCLES), "year"),
    "answers": row(Fields.whole, 1, MOST_ANSWERS, default=1),
}


def _read(fields: Fields, wanted: str, *, own: bool) -> Panel | None:
    values = fields.read_table("panel", wanted, ROWS)
    return None if values is None else Panel(own=own, **values)
