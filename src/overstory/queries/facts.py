"""What every reading states of its range: how many reports, of whom, at which cost, and whether any look crafted."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from overstory.analysis.alarms.crafted import Check, adjust_checks, alarm_notes, check_collection
from overstory.analysis.oracle import FrequencyOracle
from overstory.privacy.text import epsilons_text, plural
from overstory.queries.counts import CountsStore, stored_groups

if TYPE_CHECKING:
    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.estimate import Estimate
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts

NO_REPORTS: Final = "there are no reports in this range"
HOW: Final = {"total": "over all of them", "per-period": "each period alone", "cumulative": "over all reports so far"}
"""By aggregation: what is estimated."""
MOST_NOTES: Final = 12


class SumsStore(CountsStore, Protocol):
    """A store that has sums of reports, too."""

    def sums(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[int, ReportSums]:
        """Sums of reports by period, by which crafted ones are noticed."""
        ...


@dataclass(frozen=True, eq=False)
class RangePart:
    """One estimate of the periods `first` to `last`, both included."""

    first: int
    last: int
    reports_per_device: float  # as assumed for the standard errors


class RangeReading:
    """What every reading of a range of periods has: the counts that it is of, and labels for its parts."""

    counted: PeriodCounts

    @property
    def metric(self) -> Metric:
        """The metric."""
        return self.counted.metric

    def ends(self, part: RangePart) -> dict[str, Any]:
        """Return the labels of a part's first and last period."""
        return {"from": self.counted.label(part.first), "to": self.counted.label(part.last)}

    def part_facts(self, part: RangePart) -> dict[str, Any]:
        """Return what is said of a part before its estimate, as JSON values."""
        return {**self.ends(part), "reports_per_device": part.reports_per_device}

    def when(self, part: RangePart) -> str:
        """Return the same as a title has them: one label where these are the same period."""
        first, last = self.ends(part).values()
        return str(first) if first == last else f"{first} to {last}"


def range_facts(
    counted: PeriodCounts, kind: str, interval: str | None, notes: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Return the facts that all parts of a reading have in common, as JSON values; `more` comes after the interval."""
    built = counted.metric.mechanism
    ever = built.epsilon_permanent
    return {
        "metric": counted.metric.id,
        "title": counted.metric.title,
        "oracle": built.name,
        "period": str(counted.metric.period),
        **({} if counted.group is None else {"group": counted.group}),
        "from": counted.label(counted.first),
        "to": counted.label(counted.last),
        "reading": kind,
        "reports": counted.num_reports,
        "periods_with_reports": len(counted.periods),
        "interval": interval,
        **more,
        "epsilon_report": built.epsilon_report,
        "epsilon_permanent": ever if math.isfinite(ever) else None,
        **counted.central_json(),
        "notes": list(notes),
        "other_parameters": counted.others_json(),
    }


def range_sentences(counted: PeriodCounts, how: str, intervals: str) -> list[str]:
    """Return what was read, how, and what it costs, in sentences."""
    first, last = (counted.label(end) for end in (counted.first, counted.last))
    between = f" between {first} and {last}" if first else ""
    built, of = counted.metric.mechanism, counted.metric.id
    of += "" if counted.group is None else f" in the group {counted.group}"
    if not counted.periods:
        return [f"no reports of {of}{between}"]
    epsilons = {name: getattr(built, name) for name in ("epsilon_report", "epsilon_permanent")}
    periods = plural(len(counted.periods), "period")
    return [
        f"{plural(counted.num_reports, 'report')} of {of} in {periods}{between}; {how}",
        f"intervals: {intervals}",
        f"privacy: {built.name}, {epsilons_text(epsilons)}",
        *counted.central_sentences(),
    ]


def note_lines(counted: PeriodCounts, notes: Iterable[str]) -> list[str]:
    """Return notes as lines, each once; that there are no reports stands in the sentences already."""
    shown = [note for note in dict.fromkeys(notes) if counted.periods or note != NO_REPORTS]
    left_out = [f"{len(shown) - MOST_NOTES} more: see --json"] if len(shown) > MOST_NOTES else []
    return [f"note: {note}" for note in [*shown[:MOST_NOTES], *left_out]]


def with_sums(store: SumsStore, counted: PeriodCounts) -> PeriodCounts:
    """Return counts with the sums of their reports, by which crafted ones are noticed."""
    if counted.first is None or counted.last is None:
        return counted
    group = counted.group
    chosen = None if group is None else stored_groups(store, counted.metric, group)
    return replace(counted, sums=store.sums(counted.metric, counted.first, counted.last, chosen))


def check_periods(counted: PeriodCounts, estimates: Mapping[int, Estimate], names: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks of each period, adjusted for all of them; missing `estimates` in closed form are computed."""
    return adjust_checks(_all_checks(counted, estimates, names))


def _all_checks(counted: PeriodCounts, estimates: Mapping[int, Estimate], names: Sequence[str]) -> Iterator[Check]:
    mechanism = counted.metric.oracle
    for period in counted.periods:
        counts, estimate = counted.counts[period], estimates.get(period)
        if estimate is None or estimate.num_reports != counts.num_reports:  # none, or not decoded yet
            fitted = mechanism.encoding.decoded or mechanism.encoding.by_seed
            estimate = None if fitted else FrequencyOracle(mechanism).estimate(counts, names)
        about: dict[str, Any] = {"sums": counted.sums.get(period), "labels": names, "period": counted.label(period)}
        yield from check_collection(mechanism, counts, estimate, **about)


def with_alarms(estimate: Estimate, counted: PeriodCounts, checks: Sequence[Check], first: int, last: int) -> Estimate:
    """Return the estimate of the periods `first` to `last` with their alarms among its notes; no number changes."""
    labels = {counted.label(period) for period in counted.periods if first <= period <= last}
    own = (check for check in checks if check.period in labels)
    notes = alarm_notes(own, decoded=counted.metric.oracle.encoding.decoded)
    return replace(estimate, notes=(*estimate.notes, *notes)) if notes else estimate
