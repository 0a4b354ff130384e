"""What changed of a metric, in words: who leads, the change against the period before, and since the last release.

A board of K metrics makes 3 K comparisons, each at level alpha / 3 K. The share of false ones among all that it names
is at most the sum of the comparisons' own: E[V / R] <= sum E[V_k / R_k] <= alpha.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.decoding.decoder import NEEDED_SHARE
from overstory.analysis.estimate import Estimate
from overstory.analysis.selection import normal_quantile, normal_reach
from overstory.presentation.charts.drawing import shortened
from overstory.presentation.charts.series import Event, Line, small_multiple
from overstory.presentation.formats import rounded_up, significant, with_article
from overstory.protocol.metrics.period import DAY, WEEK
from overstory.queries.comparison import less
from overstory.queries.readings import EstimateOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.difference import Difference
    from overstory.collector.store.operations import Note
    from overstory.presentation.svg import Picture
    from overstory.protocol.metrics import Metric

    F64 = NDArray[np.float64]

ALPHA: Final = 0.05
COMPARISONS: Final = 3
"""Of each metric: with the period before, with the one before the last release, and between its values."""
DRAWN: Final = 26  # periods that a trend looks back on
MOST_LINES: Final = 3
MOST_NAMED: Final = 2
VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, eq=False)
class Point:
    """What was learned in one period: shares, or a mean; the errors are of all devices like these."""

    names: Sequence[str]
    numbers: F64
    errors: F64
    reports: int
    is_share: bool = True

    @classmethod
    def of(cls, estimate: Any) -> Point:
        """Return the shares of values or items, the cells of the first table, or the mean; without one, its shares."""
        if isinstance(estimate, Estimate):
            errors = estimate.errors("population") / max(estimate.num_reports, 1)
            return cls(estimate.values, estimate.raw_frequencies, errors, estimate.num_reports)
        if isinstance(estimate, tuple):
            table = estimate[0].table
            names = tuple(f"{x}, {y}" for x, y in product(*table.labels))
            return cls(names, table.shares.ravel(), table.standard_errors.ravel(), table.num_reports)
        known = [row for row in estimate.quantities if row.standard_error is not None]
        rows = [row for row in known if row.kind == "mean"] or [row for row in known if row.kind == "share"]
        numbers, errors = np.array([[row.value, row.standard_error] for row in rows], np.float64).reshape(-1, 2).T
        is_share = any(row.kind == "share" for row in rows)
        return cls(tuple(row.of or row.kind for row in rows), numbers, errors, estimate.num_reports, is_share)

    @property
    def is_sure(self) -> bool:
        """Whether there is a number, and shares are not so uncertain that a picture would show noise alone."""
        finite = self.errors[np.isfinite(self.errors)]
        return bool(finite.size) and (not self.is_share or float(np.median(finite)) <= NEEDED_SHARE)

    def leader(self, chance: float) -> int | None:
        """Return the value that is surely above all others; false with this probability at most.

        An error of a difference is at most the sum of both errors, however they go together (Cauchy and Schwarz); a
        false leader is surely above the true one, which is one of at most ``len(names) - 1`` tests.
        """
        if len(self.names) < 2:
            return None
        first = int(np.argmax(self.numbers))
        reach = -normal_quantile(chance / (len(self.names) - 1)) * (self.errors + self.errors[first])
        return first if np.delete(self.numbers[first] - self.numbers > reach, first).all() else None

    def size(self, change: float, sign: str = "") -> str:
        """Return a change in two digits that count."""
        text = significant(self._scale * change, 2, sign).replace("-", "\N{MINUS SIGN}")
        return f"{text} points" if self.is_share else text

    def size_at_least(self, change: float) -> str:
        """Return a size above 0 in two digits, rounded up: it is claimed of every change that is as large."""
        first = Decimal(self._scale * change).adjusted()
        return self.size(float(rounded_up(self._scale * change, Decimal(1).scaleb(first - 1))) / self._scale)

    @property
    def _scale(self) -> float:
        return 100.0 if self.is_share else 1.0


def largest(estimate: Any) -> str:
    """Return the largest share with its interval, as the metric's own page has it, or the mean."""
    point = Point.of(estimate)
    if not len(point.names):
        return "nothing found"
    place, show = int(np.argmax(point.numbers)), "{:.1%}".format if point.is_share else significant
    if isinstance(estimate, Estimate):
        if not estimate.detected()[place]:
            return "nothing detected"
        scale = max(estimate.num_reports, 1)
        low, high = (end[place] / scale for end in replace(estimate, interval_kind="population").interval(0.95))
    else:
        reach = normal_reach(0.95) * point.errors[place]
        low, high = point.numbers[place] - reach, point.numbers[place] + reach
    return f"{point.names[place]} {show(point.numbers[place])} ({show(low)} to {show(high)})"


@dataclass(frozen=True, eq=False)
class Trend:
    """The points of a metric's newest periods; `level` is that of one comparison, `words` names a period."""

    metric: Metric
    points: Mapping[int, Point]  # by period, the newest last; the same names in all
    level: float
    words: Callable[[int], str]
    release: tuple[int, str] | None = None  # the period of the last one, and its version

    @classmethod
    def of(
        cls,
        metric: Metric,
        estimates: Mapping[int, Any],
        notes: Sequence[Note],
        metrics: int,
        words: Callable[[int], str],
    ) -> Trend:
        """Return the trend of estimates by period, on a board of so many metrics."""
        points = {period: Point.of(estimates[period]) for period in sorted(estimates)}
        newest = max(points, default=0)
        same = {period: one for period, one in points.items() if tuple(one.names) == tuple(points[newest].names)}
        released = [(metric.period.number(note.day * DAY), note.text) for note in notes if note.kind == "release"]
        last = next((one for one in reversed(released) if one[0] <= newest), None)  # notes are by day
        if last is not None:
            version = VERSION.search(last[1])
            last = last[0], version[0] if version else f"“{shortened(last[1], 40)}”"
        return cls(metric, same, ALPHA / (COMPARISONS * metrics), words, last)

    @cached_property
    def periods(self) -> list[int]:
        return list(self.points)

    @cached_property
    def newest(self) -> Point:
        return self.points[self.periods[-1]]

    @cached_property
    def changes(self) -> dict[str, Difference]:
        """The newest period less each that it is compared with, by what a sentence calls that."""
        return {when: self._difference(period) for period, when in self._references().items()}

    @cached_property
    def sentence(self) -> str:
        """Say who overtook whom, and what changed; where nothing surely did, what would have been seen."""
        if len(self.points) < 2:
            return f"One {self.metric.period} has reports: there is nothing to compare it with yet." * len(self.points)
        changed = {when: np.flatnonzero(both.changed()) for when, both in self.changes.items()}
        parts, since, winner = [], f"since {self.release[1]}" if self.release else "", None
        if overtaking := self.overtaking:
            text = f"{self.newest.names[overtaking[0]]} overtook {self.newest.names[overtaking[1]]} {overtaking[2]}"
            if overtaking[0] in changed.get(since, ()):
                winner = overtaking[0]
                text += f", {self.newest.size(self.changes[since].differences[winner], '+')} {since}"
            parts.append(f"{text}.")
        for when, places in changed.items():
            others = places[places != winner] if when == since and winner is not None else places
            parts += [f"{self._named(self.changes[when], others)} {when}."] * bool(others.size)
        if quiet := [when for when, places in changed.items() if not places.size]:
            parts.append(self._unseen(quiet))
        return " ".join(parts)

    def _unseen(self, quiet: Sequence[str]) -> str:
        """Say that nothing changed, how large a change of any value would have been seen, and of which values not."""
        sizes = np.array([self.changes[when].detectable() for when in quiet])
        unknown = ~np.isfinite(sizes).all(axis=0)
        seen = float(sizes[:, ~unknown].max(initial=0.0))
        text = f"No change {' or '.join(quiet)} that could be seen"
        text += f"; a change of {self.newest.size_at_least(seen)} or more would have been." if seen else "."
        number = unknown.sum()
        return f"{text} {number:,} of {unknown.size:,} values cannot be compared." if number else text

    def _references(self) -> dict[int, str]:
        """Return the periods that the newest one is compared with, and how a sentence calls each."""
        before, newest = self.periods[-2:]
        unit = str(self.metric.period) if str(self.metric.period).isalpha() else "period"
        found = {before: f"against {f'the {unit} before' if before == newest - 1 else self._the(before)}"}
        if self.release is not None:
            earlier = [period for period in self.periods if period < self.release[0]]
            found |= dict.fromkeys(earlier[-1:], f"since {self.release[1]}")
        return found

    def _difference(self, period: int) -> Difference:
        both = self.newest, self.points[period]
        numbers, errors = (np.array([getattr(point, what) for point in both]) for what in ("numbers", "errors"))
        reports = both[0].reports, both[1].reports
        return less(list(both[0].names), numbers, errors, reports, EstimateOptions(alpha=self.level))

    def _named(self, both: Difference, changed: NDArray[np.intp]) -> str:
        most = changed[np.argsort(-np.abs(both.z[changed]), kind="stable")][:MOST_NAMED].tolist()
        named = ", ".join(f"{both.values[place]} {self.newest.size(both.differences[place], '+')}" for place in most)
        return named + (f" and {changed.size - len(most):,} more" if changed.size > len(most) else "")

    @cached_property
    def overtaking(self) -> tuple[int, int, str] | None:
        """The value that surely leads, the one that surely did before it, and when that changed."""
        leaders = {period: point.leader(self.level / len(self.periods)) for period, point in self.points.items()}
        sure = [(period, leader) for period, leader in leaders.items() if leader is not None]
        winner = leaders[self.periods[-1]]
        last = next((place for place in range(len(sure) - 1, -1, -1) if sure[place][1] != winner), None)
        if winner is None or last is None:
            return None
        (before, loser), (after, _) = sure[last : last + 2]
        when = f"between {self._the(before)} and {self._the(after)}"
        if self.periods.index(after) - self.periods.index(before) == 1:
            when = f"{'in' if self.metric.period.seconds == WEEK else 'on'} {self._the(after)}"
        return winner, loser, when

    def _the(self, period: int) -> str:
        return with_article(self.words(period))

    def picture(self) -> Picture | None:
        """Draw the largest shares of all periods, or the mean, over time."""
        if not self.points or not self.newest.is_sure:
            return None
        first, newest = self.periods[0], self.newest
        most = sum(point.numbers * point.reports for point in self.points.values())  # as on the metric's page
        drawn = np.argsort(-np.asarray(most), kind="stable")[:MOST_LINES]
        columns = np.full((2, drawn.size, self.periods[-1] - first + 1), np.nan)
        for period, point in self.points.items():
            columns[:, :, period - first] = point.numbers[drawn], normal_reach(0.95) * point.errors[drawn]
        lines = [
            Line(str(newest.names[place]), share, share - reach, share + reach, np.isfinite(share))
            for place, share, reach in zip(drawn.tolist(), *columns, strict=True)
        ]
        ends = [self.words(period).removeprefix("week of ") for period in (first, self.periods[-1])]
        what = "Shares" if newest.is_share else str(newest.names[0]).capitalize()
        place, version = self.release or (first, "")
        events = [Event(place - first - 0.5, version)] if place > first else []
        caption = f"{what} of {self.metric.title}, {' to '.join(dict.fromkeys(ends))}"
        name, share = f"board-{self.metric.id}", newest.is_share
        return small_multiple(name, caption, ends, lines, events=events, is_share=share, has_zero=share)
