"""What changed of a metric, in words: who leads, the change against the period before, and since the last release.

A board of K metrics makes 3 K comparisons, each at level alpha / 3 K. The share of false ones among all that it names
is at most the sum of the comparisons' own: E[V / R] <= sum E[V_k / R_k] <= alpha.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.decoding.decoder import NEEDED_SHARE
from overstory.analysis.estimate import Estimate
from overstory.analysis.selection import normal_quantile, normal_reach
from overstory.presentation.charts.drawing import percent_tick, plain_number, shortened
from overstory.presentation.charts.series import Event, Line, small_multiple
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
MOST_LINES: Final = 3
MOST_NAMED: Final = 2
VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, eq=False)
class Point:
    """What was learned in one period: shares, or a mean; the errors are of all devices like these."""

    names: tuple[str, ...]
    numbers: F64
    errors: F64
    reports: int
    is_share: bool = True

    @classmethod
    def of(cls, estimate: Any) -> Point:
        """Return the shares of values or items, the cells of the first table, or the mean; without one, its shares."""
        if isinstance(estimate, Estimate):
            errors = estimate.errors("population") / max(estimate.num_reports, 1)
            return cls(tuple(map(str, estimate.values)), estimate.raw_frequencies, errors, estimate.num_reports)
        if isinstance(estimate, tuple):
            table = estimate[0].table
            names = tuple(f"{x}, {y}" for x, y in product(*table.labels))
            return cls(names, table.shares.ravel(), table.standard_errors.ravel(), table.num_reports)
        known = [row for row in estimate.quantities if row.standard_error is not None]
        rows = [row for row in known if row.kind == "mean"] or [row for row in known if row.kind == "share"]
        columns = np.array([[row.value, row.standard_error] for row in rows], np.float64).reshape(-1, 2).T
        is_share = any(row.kind == "share" for row in rows)
        return cls(tuple(row.of or row.kind for row in rows), *columns, estimate.num_reports, is_share)

    @property
    def largest(self) -> list[int]:
        return np.argsort(-self.numbers, kind="stable")[:MOST_LINES].tolist()

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
        if len(self.names) < 2 or not self.is_sure:
            return None
        first = int(np.argmax(self.numbers))
        reach = -normal_quantile(chance / (len(self.names) - 1)) * (self.errors + self.errors[first])
        ahead = self.numbers[first] - self.numbers > reach
        return first if np.count_nonzero(ahead) == len(self.names) - 1 else None

    def words(self, place: int) -> str:
        number, reach = float(self.numbers[place]), normal_reach(0.95) * float(self.errors[place])
        show = "{:.1%}".format if self.is_share else "{:.4g}".format
        return f"{self.names[place]} {show(number)} ({show(number - reach)} to {show(number + reach)})"

    def size(self, change: float, sign: str = "") -> str:
        """Return a change in two digits that count."""
        number = f"{float(f'{(100 if self.is_share else 1) * change:.2g}'):{sign}g}".replace("-", "\N{MINUS SIGN}")
        return f"{number} points" if self.is_share else number


@dataclass(frozen=True, eq=False)
class Trend:
    """The points of a metric's newest periods; `level` is that of one comparison, `words` names a period."""

    metric: Metric
    points: Mapping[int, Point]  # by period, the newest last; the same names in all
    level: float
    words: Callable[[int], str]
    release: Note | None = None  # the last one on or before the newest period

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
        newest = next(reversed(points), 0)
        names = points[newest].names if points else ()
        same = {period: point for period, point in points.items() if point.names == names}
        end = metric.period.start(newest + 1)
        releases = [note for note in notes if note.kind == "release" and note.day * DAY < end]
        return cls(
            metric, same, ALPHA / (COMPARISONS * metrics), words, max(releases, key=lambda note: note.day, default=None)
        )

    @property
    def newest(self) -> Point:
        return self.points[self.periods[-1]]

    @cached_property
    def periods(self) -> list[int]:
        return list(self.points)

    @property
    def sentence(self) -> str:
        """Say who overtook whom, and what changed; where nothing surely did, what would have been seen."""
        if not self.points:
            return ""
        if len(self.points) == 1:
            return f"One {self.metric.period} has reports: there is nothing to compare it with yet."
        compared = {when: self._difference(period) for period, when in self._references().items()}
        moved = {when: both for when, both in compared.items() if both.changed().any()}
        parts, overtaken = [], self._overtaking()
        if overtaken:
            winner, text = overtaken
            since = self._since()
            if since in moved and moved[since].changed()[winner]:  # of two changes since then the other one follows
                text += f", {self.newest.size(moved.pop(since).differences[winner], '+')} {since}"
            parts.append(f"{text}.")
        parts += [f"{self._named(both)} {when}." for when, both in moved.items()]
        quiet = {when: both for when, both in compared.items() if not both.changed().any()}
        if quiet:
            seen = np.concatenate([both.detectable() for both in quiet.values()])
            seen = seen[np.isfinite(seen)]
            would = f"; a change of {self.newest.size(float(seen.max()))} or more would have been" if seen.size else ""
            parts.append(f"No change {' or '.join(quiet)} that could be seen{would}.")
        return " ".join(parts)

    def _references(self) -> dict[int, str]:
        """Return the periods that the newest one is compared with, and how a sentence calls each."""
        newest, before, unit = self.periods[-1], self.periods[-2], str(self.metric.period)
        unit = unit if unit.isalpha() else "period"
        found = {before: f"against the {unit} before" if before == newest - 1 else f"against {self._the(before)}"}
        if self.release is not None:
            earlier = [period for period in self.periods if period < self.metric.period.number(self.release.day * DAY)]
            found |= {period: self._since() for period in earlier[-1:]}
        return found

    def _since(self) -> str:
        if self.release is None:
            return ""
        version = VERSION.search(self.release.text)
        return f"since {version[0] if version else f'“{shortened(self.release.text, 40)}”'}"

    def _difference(self, period: int) -> Difference:
        both = self.newest, self.points[period]
        numbers, errors = (np.array([getattr(point, what) for point in both]) for what in ("numbers", "errors"))
        reports = both[0].reports, both[1].reports
        return less(list(both[0].names), numbers, errors, reports, EstimateOptions(alpha=self.level))

    def _named(self, both: Difference) -> str:
        changed = np.flatnonzero(both.changed())
        most = changed[np.argsort(-np.abs(both.z[changed]), kind="stable")][:MOST_NAMED].tolist()
        named = ", ".join(f"{both.values[place]} {self.newest.size(both.differences[place], '+')}" for place in most)
        return named + (f" and {changed.size - len(most):,} more" if changed.size > len(most) else "")

    def _overtaking(self) -> tuple[int, str] | None:
        """Return the value that surely leads since another one did, and when that happened."""
        chance = self.level / len(self.periods)
        sure = [(period, lead) for period, point in self.points.items() if (lead := point.leader(chance)) is not None]
        if not sure or sure[-1][0] != self.periods[-1]:
            return None
        winner = sure[-1][1]
        last = next((place for place in range(len(sure) - 1, -1, -1) if sure[place][1] != winner), None)
        if last is None:
            return None
        (before, loser), (after, _) = sure[last : last + 2]
        seen = self.periods.index(after) - self.periods.index(before) == 1
        at = "in" if self.metric.period.seconds == WEEK else "on"
        when = f"{at} {self._the(after)}" if seen else f"between {self._the(before)} and {self._the(after)}"
        return winner, f"{self.newest.names[winner]} overtook {self.newest.names[loser]} {when}"

    def _the(self, period: int) -> str:
        return f"{'the ' if self.metric.period.seconds == WEEK else ''}{self.words(period)}"

    def picture(self) -> Picture | None:
        """Draw the largest shares, or the mean, over time."""
        if not self.points or not self.newest.is_sure:
            return None
        first, newest, reach = self.periods[0], self.newest, normal_reach(0.95)
        lines = []
        for place in newest.largest:
            numbers, errors = np.full((2, self.periods[-1] - first + 1), np.nan)
            for period, point in self.points.items():
                numbers[period - first], errors[period - first] = point.numbers[place], point.errors[place]
            ends = numbers - reach * errors, numbers + reach * errors
            lines.append(Line(newest.names[place], numbers, *ends, np.ones(numbers.size, bool)))
        ends_of = [self.words(period).removeprefix("week of ") for period in (first, self.periods[-1])]
        what = "Shares" if newest.is_share else newest.names[0].capitalize()
        caption = f"{what} of {self.metric.title}, {ends_of[0]} to {ends_of[1]}"
        events = []
        if self.release is not None and (column := self.metric.period.number(self.release.day * DAY) - first) > 0:
            events = [Event(column - 0.5, self._since().removeprefix("since "))]
        number = percent_tick if newest.is_share else plain_number
        return small_multiple(f"board-{self.metric.id}", caption, ends_of, lines, events=events, number=number)
