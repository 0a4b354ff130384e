"""The alarms of a store: reads counts, estimates and refusals, and asks `overstory.analysis.alarms` what they mean.

A period is compared with those at the same time of the week, in the weeks before: of a metric of weeks these are the
periods before, and a metric of half-hours is not alarmed by every night.

Looked at are the newest period that is over and the newest one that is final. What the first one raises is provisional:
late reports may still change it.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.alarms.alarm import (
    BEFORE,
    DRIFT_PERIODS,
    ENOUGH_BEFORE,
    SEVERITIES,
    Alarm,
    Comparison,
    crafted,
    drifts,
    expiry,
    find_changes,
    fit,
    refusals,
    steps,
    volume,
)
from overstory.analysis.decoding.decoder import Decoded
from overstory.console.view import ScreenError
from overstory.presentation.document import Notice
from overstory.protocol.metrics.period import DAY, WEEK
from overstory.queries.counts import PeriodCounts
from overstory.queries.estimates import check_periods

if TYPE_CHECKING:
    from overstory.analysis.alarms.alarm import Severity
    from overstory.analysis.alarms.crafted import Check
    from overstory.analysis.estimate import Estimate
    from overstory.console.data import ConsoleData
    from overstory.presentation.document import Tone
    from overstory.protocol.metrics import Metric

RECENT: Final = 3  # of so many newest periods two must have changed for an alarm to be red
TONES: Final[Mapping[Severity, Tone]] = {"red": "bad", "amber": "warn", "note": "faint"}
ANY_PERIOD: Final = (0, 2**31 - 1)  # the first and the last number that a store takes
ENOUGH_OF_13: Final = 10  # A drift is looked for where so many of 13 periods have reports, before and after


@dataclass(frozen=True)
class MetricHistory:
    """A metric's periods that alarms look at."""

    metric: Metric
    newest: int  # the number of the newest period to look at, whether or not it has reports
    reports: Mapping[int, int]  # by period, of all parameters
    estimates: Mapping[int, Estimate] = field(repr=False)  # by period, of some up to `newest`
    problem: str = ""  # why there are no estimates; empty where there are, or nothing is to be estimated
    checks: Mapping[int, Sequence[Check]] = field(default_factory=dict, repr=False)  # by period, for crafted reports
    final: int | None = None  # the number of the newest final period; None: `newest` is

    @property
    def lag(self) -> int:
        return WEEK // self.metric.period.seconds

    @property
    def drift_end(self) -> int:
        """The newest period in which a drift was looked for: in one week of 13."""
        week = self.metric.period.start(self.newest) // WEEK
        return self.newest - self.lag * ((week + 1) % DRIFT_PERIODS)

    @cached_property
    def shown(self) -> int | None:
        """The newest period that is over and has reports; while there is none, the newest one with reports."""
        over = [period for period in self.reports if period <= self.newest]
        return max(over or self.reports, default=None)

    @property
    def of_final(self) -> MetricHistory:
        """The history as it was looked at when its newest final period was the newest one."""
        return self if self.final is None else replace(self, newest=self.final, final=None)

    def label(self, period: int) -> str:
        return self.metric.period.label(period)

    def before(self, period: int, number: int = BEFORE) -> list[int]:
        """Return the periods of the weeks before, at the same time of the week, the newest first."""
        return [period - self.lag * week for week in range(1, number + 1)]

    def wanted(self) -> set[int]:
        recent = range(self.newest, self.newest - RECENT, -1)
        ends = {self.drift_end, *self.before(self.drift_end, 2 * DRIFT_PERIODS - 1)}
        return {*recent, *(period for one in recent for period in self.before(one)), *ends}

    def comparison(self, period: int) -> Comparison | None:
        """Return a period and the 8 before, as far as they have reports; None where too few have."""
        earlier = [self.estimates[one] for one in self.before(period) if one in self.estimates]
        if period not in self.estimates or len(earlier) < ENOUGH_BEFORE:
            return None
        return Comparison(self.metric.id, self.label(period), [self.estimates[period]], earlier)

    def drift_comparison(self) -> Comparison | None:
        periods = [self.drift_end, *self.before(self.drift_end, 2 * DRIFT_PERIODS - 1)]
        halves = periods[:DRIFT_PERIODS], periods[DRIFT_PERIODS:]
        after, before = ([self.estimates[one] for one in half if one in self.estimates] for half in halves)
        if min(len(after), len(before)) < ENOUGH_OF_13:
            return None
        panel = self.metric.panel
        apart = panel is not None and panel.most_reports(self.metric.period, periods) == 1
        return Comparison(self.metric.id, self.label(self.drift_end), after, before, apart)


def notice(data: ConsoleData, alarm: Alarm, title: str = "", notes: Iterable[str] = ()) -> Notice:
    """Return an alarm in one sentence; what it means, and the notes that may explain it, are folded away."""
    what, _, rest = alarm.text.replace(f" in {alarm.period}", "").replace(f" on {alarm.period}", "").partition(". ")
    kind = f"{alarm.kind}, {title}" if title else alarm.kind
    severity = f"{alarm.severity.capitalize()}{', provisional' if alarm.is_provisional else ''}"
    text = f"{severity}: {kind}, {data.words(alarm.period)}. {what.removesuffix('.')}."
    return Notice(text, TONES[alarm.severity], more=tuple(filter(None, (rest, *notes))))


def read_history(data: ConsoleData, metric: Metric, drawn: int = 0) -> MetricHistory:
    """Read what alarms, and a picture of so many periods, need to know; ScreenError 202 while these are decoded."""
    reports = data.reports(metric, *ANY_PERIOD)
    now = data.clock()
    history = MetricHistory(metric, metric.newest_over(now), reports, {}, final=metric.newest_final(now))
    compared = set() if metric.expired(now) else history.wanted() | history.of_final.wanted()
    last = -1 if history.shown is None else history.shown
    wanted = sorted(reports.keys() & {*compared, last, *range(last - drawn + 1, last + 1)})
    if not wanted or not metric.labels or metric.reading != "shares":
        return history
    try:
        counts = data.store.counts(metric, wanted[0], wanted[-1], wanted)
        series = data.read(PeriodCounts(metric, wanted[0], wanted[-1], counts), "per-period")
    except ScreenError as error:
        if error.status == 202:
            raise
        return replace(history, problem=str(error))
    estimates, checks = {part.last: part.estimate for part in series.parts}, {}
    for period in {history.newest, history.of_final.newest} & counts.keys():
        sums = data.store.sums(metric, period, period)
        counted = PeriodCounts(metric, period, period, {period: counts[period]}, sums=sums)
        checks[period] = check_periods(counted, estimates, metric.labels)
    return replace(history, estimates=estimates, checks=checks)


def read_histories(data: ConsoleData, drawn: int = 0) -> list[MetricHistory]:
    """Read what alarms need to know of every metric; see `read_history`."""
    return [read_history(data, metric, drawn) for metric in data.registry.values()]


def find_alarms(data: ConsoleData, histories: Sequence[MetricHistory] | None = None) -> list[Alarm]:
    """Return a store's alarms, the worst first; an ended metric has none. ScreenError 202 while periods are decoded."""
    every = read_histories(data) if histories is None else histories
    read = [history for history in every if not history.metric.expired(data.clock())]
    final = [history.of_final for history in read]
    alarms = [*_changed(final), *_of_metrics(final), *_refused(data, final)]
    alarms += _provisional(read, {(alarm.kind, alarm.metric, alarm.period) for alarm in alarms})
    alarms += filter(None, (expiry(history.metric.id, history.metric.expires, data.today) for history in read))
    return sorted(alarms, key=lambda alarm: SEVERITIES.index(alarm.severity))


def _provisional(
    histories: Sequence[MetricHistory], raised: Collection[tuple[str, str | None, str]]
) -> Iterator[Alarm]:
    """Yield what the newest periods that are over raise, beyond what final ones have raised."""
    final = {history.metric.id: (history.metric.period, history.of_final.newest) for history in histories}
    if all(history.final in {None, history.newest} for history in histories):
        return
    for alarm in (*_changed(histories), *_of_metrics(histories)):
        if (alarm.kind, alarm.metric, alarm.period) not in raised and alarm.metric is not None:
            period, newest = final[alarm.metric]
            yield replace(alarm, is_provisional=period.parse_label(alarm.period) > newest)


def _changed(histories: Iterable[MetricHistory]) -> Iterator[Alarm]:
    """Yield steps and drifts; every metric is in one family of each run."""
    read = list(histories)
    runs = [[history.comparison(history.newest - ago) for history in read] for ago in reversed(range(RECENT))]
    yield from steps([find_changes([one for one in run if one is not None]) for run in runs])
    for is_new in (True, False):
        own = [one.drift_comparison() for one in read if (one.drift_end == one.newest) is is_new]
        yield from drifts(find_changes([one for one in own if one is not None]), is_new=is_new)


def _of_metrics(histories: Iterable[MetricHistory]) -> Iterator[Alarm]:
    for history in histories:
        label = history.label(history.newest)
        if history.problem:
            text = f"Its estimates cannot be computed: {history.problem}."
            yield Alarm("estimate", "amber", history.metric.id, label, text)
        first = min(history.reports, default=history.newest)
        earlier = [history.reports.get(one, 0) for one in history.before(history.newest) if one >= first]
        alarm = volume(history.metric.id, label, history.reports.get(history.newest, 0), earlier)
        if alarm is not None:
            yield alarm
        yield from crafted(history.metric.id, label, history.checks.get(history.newest, ()))
        newest = history.estimates.get(history.newest)
        if isinstance(newest, Decoded):
            before = (history.estimates.get(one) for one in history.before(history.newest))
            yield from fit(history.metric.id, label, newest, [one for one in before if isinstance(one, Decoded)])


def _refused(data: ConsoleData, histories: Sequence[MetricHistory]) -> list[Alarm]:
    refused: dict[int, dict[str, int]] = {}
    for (at, reason), number in data.store.refusals().by_day.items():
        refused.setdefault(at, {})[reason] = number
    day = int(data.clock() // DAY) - 1
    posts = {
        one: sum(refused.get(one, {}).values()) + round(sum(_reports_of_day(history, one) for history in histories))
        for one in range(day - BEFORE, day + 1)
    }
    earlier = [
        {reason: number / max(posts[one], 1) for reason, number in refused.get(one, {}).items()}
        for one in range(day - BEFORE, day)
    ]
    label = dt.datetime.fromtimestamp(day * DAY, dt.UTC).date().isoformat()
    return refusals(label, posts[day], refused.get(day, {}), earlier)


def _reports_of_day(history: MetricHistory, day: int) -> float:
    """Return about how many reports a day has; an open period counts at least as much as the newest final one."""
    period = history.metric.period
    first, last = period.number(day * DAY), period.number((day + 1) * DAY - 1)
    usual = history.reports.get(history.newest, 0)
    number = sum(
        max(history.reports.get(one, 0), usual if one > history.newest else 0) for one in range(first, last + 1)
    )
    return number * min(1.0, DAY / period.seconds)


def check(data: ConsoleData) -> tuple[dict[str, Any], bool]:
    """Return all alarms as JSON values, and whether any of them is red or amber."""
    alarms = find_alarms(data)
    counts = Counter(alarm.severity for alarm in alarms)
    result: dict[str, Any] = {
        "checked": dt.datetime.fromtimestamp(int(data.clock()), dt.UTC).isoformat(),
        "registry": data.registry.version,
        "metrics": len(data.registry),
        **{severity: counts[severity] for severity in SEVERITIES},
        "alarms": [alarm.to_json() for alarm in alarms],
    }
    return result, bool(counts["red"] or counts["amber"])
