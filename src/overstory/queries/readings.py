"""Readings: what is estimated of a metric over a range of periods, the same walk for all kinds; and group by group."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib import import_module
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from overstory.analysis.selection import Correction, IntervalKind, interval_words
from overstory.presentation.document import Block, Column, Heading, Table
from overstory.presentation.formats import epsilon_text, epsilons_text, finite, plural
from overstory.presentation.render_text import csv_lines
from overstory.presentation.result import Result
from overstory.protocol.channels import check_reports_per_device
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.reports import SupportCounts
    from overstory.presentation.svg import Picture
    from overstory.protocol.kinds.base import Kind
    from overstory.protocol.metrics import Metric
    from overstory.protocol.metrics.groups import Groups
    from overstory.protocol.metrics.panel import Panel
    from overstory.queries.counts import PeriodCounts

Aggregation = Literal["total", "per-period", "cumulative"]
"""One estimate of the range; one of each period; one of each period together with all earlier ones."""

AGGREGATIONS: Final[tuple[Aggregation, ...]] = get_args(Aggregation)
NO_REPORTS: Final = "there are no reports in this range"
HOW: Final = {"total": "over all of them", "per-period": "each period alone", "cumulative": "over all reports so far"}
"""By aggregation: what is estimated."""
MOST_NOTES: Final = 12


@dataclass(frozen=True, repr=False)
class EstimateOptions:
    """Options of an estimate; those of `FrequencyOracle.estimate` and `Estimate` have its names."""

    reports_per_device: float | None = None  # in the range; None: the number of periods with reports
    candidates: tuple[str, ...] | None = None  # instead of the metric's own; only where counts are by cohort or seed
    alpha: float = 0.05
    correction: Correction = "fdr"
    method: str = "gls"
    complete: bool = False
    steps: tuple[str, ...] = ()  # of post-processing, by their names, in order
    pool: int = 1  # of estimates by period: how many periods up to each are one estimate
    interval_kind: IntervalKind | None = None  # None: see `kind_of_intervals`
    ranges: tuple[str, ...] = ()  # whose shares are asked for, such as 18:25, both included; of metrics of ranges alone
    # Called by long work, a search, with what is being done and how much is done, from 0 to 1.
    progress: Callable[[str, float], object] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Show what is not the default."""
        chosen = (f"{name}={value!r}" for name, value in vars(self).items() if value != getattr(type(self), name))
        return f"EstimateOptions({', '.join(chosen)})"

    def kind_of_intervals(self, metric: Metric | None, reading: Aggregation) -> IntervalKind:
        """Return the chosen kind, or the default for this metric, if it is known, and this aggregation."""
        # Estimates that are compared describe the population; a panel's reports are a sample of the devices.
        sampled = metric is not None and metric.panel is not None
        default: IntervalKind = "reports" if reading == "total" and not sampled else "population"
        return default if self.interval_kind is None else self.interval_kind


PLAIN: Final = EstimateOptions()


@dataclass(frozen=True, eq=False)
class PeriodEstimate:
    """The estimate of the periods `first` to `last`, both included."""

    first: int
    last: int
    reports_per_device: float  # as assumed for the standard errors
    estimate: Any  # by labels or candidates; of numbers a `NumberEstimate`, of several variables a tuple of tables


class Reading(Result, ABC):
    """Estimates of one metric over a range of periods."""

    counted: PeriodCounts
    parts: tuple[PeriodEstimate, ...] = ()

    @property
    def metric(self) -> Metric:
        return self.counted.metric

    @abstractmethod
    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        """Return the estimates, unless `everything` of detected values alone, and the facts to read them by."""


@dataclass(frozen=True, eq=False, repr=False)
class RangeReading(Reading):
    """Estimates of a metric over a range of periods, whatever its kind; see `EstimateSeries`."""

    stem: ClassVar[str] = "estimates"
    how: ClassVar[str] = "estimated"
    most_drawn: ClassVar[int] = 12  # ranges that are drawn, the last ones

    counted: PeriodCounts
    kind: Aggregation
    options: EstimateOptions
    parts: tuple[PeriodEstimate, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def interval_kind(self) -> IntervalKind:
        return self.options.kind_of_intervals(self.metric, self.kind)

    def ends(self, part: PeriodEstimate) -> dict[str, Any]:
        return {"from": self.counted.label(part.first), "to": self.counted.label(part.last)}

    def when(self, part: PeriodEstimate) -> str:
        """Return the same as a title has them: one label where these are the same period."""
        first, last = self.ends(part).values()
        return str(first) if first == last else f"{first} to {last}"

    def summary(self) -> dict[str, Any]:
        counted, built = self.counted, self.metric.mechanism
        ever = self.metric.epsilon_permanent
        return {
            "metric": self.metric.id,
            "title": self.metric.title,
            "oracle": built.name,
            "period": str(self.metric.period),
            **({} if counted.group is None else {"group": counted.group}),
            "from": counted.label(counted.first),
            "to": counted.label(counted.last),
            "reading": self.kind,
            "reports": counted.num_reports,
            "periods_with_reports": len(counted.periods),
            **counted.devices_json(),
            "interval": self.interval_kind,
            **self.own_facts(),
            "epsilon_report": built.epsilon_report,
            "epsilon_permanent": ever if math.isfinite(ever) else None,
            **counted.central_json(),
            "notes": list(self.notes),
            "other_parameters": counted.others_json(),
        }

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        readings = [
            {
                **self.ends(part),
                "reports_per_device": part.reports_per_device,
                **self.counted.devices_json(part.first, part.last),
                **self.part_json(part, everything=everything),
            }
            for part in self.parts
        ]
        return {**self.summary(), **self.checks_json(), "readings": readings}

    def csv_lines(self) -> Iterator[str]:
        return csv_lines(self._columns(), self._records())

    def as_table(self, level: float = 0.95) -> Table:
        """Return a row per range and estimate, with intervals of that level where the kind has other ones."""
        columns = self._columns(level)
        keys = [key for column in columns for key in column.data_keys]
        return Table("", columns, [dict(zip(keys, record, strict=True)) for record in self._records(level)])

    def _columns(self, level: float = 0.95) -> tuple[Column, ...]:
        return Column("from"), Column("to"), *self.columns(level)

    def _records(self, level: float = 0.95) -> Iterator[tuple[Any, ...]]:
        for part in self.parts:
            ends = tuple(self.ends(part).values())
            yield from ((*ends, *record) for record in self.records(part, level))

    def all_notes(self) -> list[str]:
        every = (*self.notes, *(note for part in self.parts for note in self.part_notes(part)))
        # That there are no reports stands in the sentences already.
        notes = [note for note in dict.fromkeys(every) if self.counted.periods or note != NO_REPORTS]
        left_out = [f"{len(notes) - MOST_NOTES} more: see --json"] if len(notes) > MOST_NOTES else []
        return [*notes[:MOST_NOTES], *left_out]

    def sentences(self) -> list[str]:
        counted, built = self.counted, self.metric.mechanism
        first, last = (counted.label(end) for end in (counted.first, counted.last))
        between = f" between {first} and {last}" if first else ""
        of = self.metric.id + ("" if counted.group is None else f" in the group {counted.group}")
        if not counted.periods:
            return [f"no reports of {of}{between}"]
        read = f"{plural(counted.num_reports, 'report')} of {of} in {plural(len(counted.periods), 'period')}{between}"
        pool = self.options.pool if self.kind == "per-period" else 1
        over = HOW[self.kind] if pool == 1 else f"each period together with the {pool - 1} before it"
        return [
            f"{read}; {self.how} {over}{self.detected_by()}",
            f"intervals: {self.interval_text()}",
            *counted.panel_sentences(),
            f"privacy: {built.name}, {privacy_words(built, self.metric.panel)}",
            *counted.central_sentences(),
        ]

    def pictures(self) -> list[Picture]:
        last = self.parts[-self.most_drawn :]
        drawn = [picture for part in last for picture in self.part_pictures(part)]
        if drawn and len(last) < len(self.parts):
            left_out = f"{len(last)} of {len(self.parts)} ranges shown, the last."
            drawn[0] = replace(drawn[0], caption=f"{left_out} {drawn[0].caption}")
        return drawn

    def picture_name(self, part: PeriodEstimate) -> str:
        return f"{self.metric.id}-{self.when(part).replace(' ', '-')}"

    def caption(self, part: PeriodEstimate, words: str) -> str:
        return words if self.kind == "total" else f"{self.when(part)}: {words}"

    # What is a kind's own.

    def own_facts(self) -> dict[str, Any]:
        """Return facts that come after the interval."""
        return {}

    def checks_json(self) -> dict[str, Any]:
        return {}

    def part_json(self, part: PeriodEstimate, *, everything: bool) -> dict[str, Any]:
        learned: dict[str, Any] = part.estimate.to_json(everything=everything)
        return learned

    def columns(self, level: float) -> Sequence[Column]:
        raise NotImplementedError

    def records(self, part: PeriodEstimate, level: float) -> Iterable[Sequence[Any]]:
        raise NotImplementedError

    def part_notes(self, part: PeriodEstimate) -> Iterable[str]:
        return tuple(part.estimate.notes)

    def detected_by(self) -> str:
        """Return by which rule values are detected, after a semicolon; empty where none are."""
        return ""

    def interval_text(self) -> str:
        return interval_words(self.interval_kind)

    def part_pictures(self, part: PeriodEstimate) -> Iterable[Picture]:
        raise NotImplementedError


def privacy_words(mechanism: Kind, panel: Panel | None) -> str:
    """Return what one report costs a device, and how far its reports add up: by value or, of a panel, in any year."""
    if panel is not None:
        one = epsilon_text(mechanism.epsilon_report)
        return f"epsilon {one} for one report; in any year a device sends at most {panel.most_in_a_year}"
    both = ("epsilon_report", "epsilon_permanent")
    return epsilons_text({name: finite(getattr(mechanism, name)) for name in both})


def estimate_parts(
    counted: PeriodCounts,
    kind: Aggregation,
    options: EstimateOptions,
    estimate: Callable[[SupportCounts, float], Any],
) -> tuple[PeriodEstimate, ...]:
    """Return what `estimate` makes of each part's counts and reports per device."""
    if kind not in AGGREGATIONS:
        raise ParameterError(f"reading = {kind!r}: choose one of {', '.join(AGGREGATIONS)}")
    if options.pool < 1:
        raise ParameterError(f"pool = {options.pool}: each estimate is of a period or more: give 1, or how many")
    _check_repeats(counted, kind, options)
    parts: list[PeriodEstimate] = []
    so_far: SupportCounts | None = None
    for periods in _stretches(counted.periods, kind, options.pool):
        if so_far is not None and kind == "cumulative":
            so_far = so_far + counted.counts[periods[-1]]
        else:
            so_far = reduce(add, (counted.counts[period] for period in periods))
        most = counted.most_reports(periods)
        each = float(most if options.reports_per_device is None else min(options.reports_per_device, most))
        parts.append(PeriodEstimate(periods[0], periods[-1], each, estimate(so_far, each)))
    return tuple(parts)


def _stretches(periods: Sequence[int], kind: Aggregation, pool: int) -> Iterator[Sequence[int]]:
    """Yield the periods of each estimate, whose counts are added up: in inverse proportion to their variances."""
    for number, period in enumerate(periods, start=1):
        if kind == "per-period":
            yield [one for one in periods[max(number - pool, 0) : number] if one > period - pool]
        elif kind == "cumulative" or number == len(periods):
            yield periods[:number]


def _check_repeats(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> None:
    given = options.reports_per_device
    if given is None:
        return
    check_reports_per_device(given)
    if kind == "per-period" and options.pool == 1 and given != 1:
        raise ParameterError("in one period a device reports once: reports per device are for longer ranges")
    if given > max(1, most := counted.most_reports(counted.periods)):
        sends = "reports once in each" if counted.metric.panel is None else f"of the panel sends at most {most} in them"
        raise ParameterError(
            f"{given:g} reports per device, but there are reports in {len(counted.periods)} periods, and a device "
            f"{sends}"
        )


def most_repeats(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> int:
    """Return how many reports of one device an estimate is taken to have where the options do not say."""
    return max(
        (counted.most_reports(periods) for periods in _stretches(counted.periods, kind, options.pool)), default=1
    )


def range_notes(counted: PeriodCounts, own: Iterable[str]) -> tuple[str, ...]:
    """Return a kind's own notes with those on missing, deleted and other reports."""
    notes = [*([] if counted.periods else [NO_REPORTS]), *own]
    taken_out = sum(counted.taken_out.values())
    if taken_out:
        came = counted.num_reports + taken_out
        notes.append(
            f"past retention: {counted.num_reports:,} of {came:,} reports are in the counts that stay; which ones does "
            "not depend on their values"
        )
    notes += [
        f"{other.reports:,} reports from {counted.label(other.first)} to {counted.label(other.last)} were made "
        f"with other parameters (digest {other.digest.hex()}): they mean something else and are not in these "
        "estimates; a registry file with those parameters reads them"
        for other in counted.others
    ]
    return tuple(notes)


NUMBERS: Final = ("numbers:read_numbers", "numbers:compare_numbers")
READINGS: Final[Mapping[str, tuple[str, str]]] = {
    "shares": ("estimates:read_estimates", "comparison:compare_ranges"),
    "items": ("estimates:read_estimates", "comparison:compare_ranges"),
    "table": ("tables:read_tables", "tables:compare_tables"),
    "search": ("searches:read_search", "searches:refuse_comparison"),
    "mean": NUMBERS,
    "distribution": NUMBERS,
    "ranges": NUMBERS,
}
"""By `Metric.reading`: the functions that read such a metric, and that compare two ranges of periods of it.

Each is loaded when it is first used.
"""


def read(counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions = PLAIN) -> Reading:
    """Return the reading of a metric from its counts; ParameterError where there is none or an option does not fit."""
    reading: Reading = reading_function(counted.metric, 0, options)(counted, kind, options)
    return reading


WORDS: Final[Mapping[str, str]] = {
    "shares": "shares of values",
    "table": "a table of several variables",
    "items": "sets of items",
    "search": "a search for values that nobody listed",
    "mean": "a mean",
    "distribution": "a distribution of numbers",
    "ranges": "numbers in ranges",
}
"""What each reading is."""

OF_SHARES: Final = {
    "candidates": "other candidates",
    "method": "a method",
    "complete": "a complete list",
    "steps": "post-processing, which makes shares add up to 1,",
}
"""Options of shares of values, in words; shares of items take all but the last."""


def reading_function(metric: Metric, place: int, options: EstimateOptions) -> Any:
    """Return the function at this place of a metric's entry in `READINGS`; ParameterError for an unfit option."""
    if metric.reading not in READINGS:
        raise ParameterError(f"{metric.id}: this version has no reading for {metric.reading}: upgrade overstory")
    fit = {"shares": (*OF_SHARES,), "items": (*OF_SHARES,)[:-1], "ranges": ("ranges",)}.get(metric.reading, ())
    more = {"reports_per_device": "a number of reports per device"} if metric.reading == "search" else {}
    for name, words in (OF_SHARES | more | {"ranges": "a range of numbers"}).items():
        if name not in fit and getattr(options, name) != getattr(PLAIN, name):
            raise ParameterError(f"{metric.id} is read as {WORDS[metric.reading]}: {words} does not apply to it")
    module, _, function = READINGS[metric.reading][place].partition(":")
    return getattr(import_module(f"overstory.queries.{module}"), function)


@dataclass(frozen=True, eq=False, repr=False)
class GroupedReading(Result):
    """The readings of a metric's groups over a range of periods."""

    stem: ClassVar[str] = "groups"
    metric: Metric
    parts: Mapping[str, Reading]  # by group, in the registry's order
    hidden: tuple[str, ...]  # groups with too few devices, by public shares
    left_out: int  # reports in none of `parts`: they name no group, or a hidden one

    @property
    def groups(self) -> Groups:
        assert self.metric.groups is not None
        return self.metric.groups

    def all_notes(self) -> Iterator[str]:
        for group in self.hidden:
            yield (
                f"{self.groups.by} {group} is hidden: {self.groups.expected(group):,.0f} expected devices, fewer than "
                f"the floor of {self.groups.floor:,}"
            )
        if self.left_out:
            yield f"{plural(self.left_out, 'report')} in no group above: of devices that name none, or a hidden one"

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        about = {"by": self.groups.by, "devices": self.groups.devices, "floor": self.groups.floor}
        parts = [
            {
                "group": group,
                "share": self.groups.share(group),
                "expected_devices": round(self.groups.expected(group)),
                **reading.to_json(everything=everything),
            }
            for group, reading in self.parts.items()
        ]
        about |= {"hidden": list(self.hidden), "reports_in_no_group_here": self.left_out}
        return {"metric": self.metric.id, **about, "groups": parts, "notes": list(self.all_notes())}

    def as_table(self) -> Table:
        tables = {group: reading.as_table() for group, reading in self.parts.items()}
        columns = next((table.columns for table in tables.values()), ())
        rows = [{"group": group, **row} for group, table in tables.items() for row in table.rows]
        return Table("", (Column("group"), *columns), rows)

    def tables(self, *, everything: bool) -> Iterator[Block]:
        for group, reading in self.parts.items():
            yield Heading(3, f"{self.groups.by} {group}: {self.groups.expected(group):,.0f} expected devices")
            yield from reading.blocks(everything=everything)

    def pictures(self) -> list[Picture]:
        return [
            replace(picture, name=f"{picture.name}-{group}", caption=f"{group}, {picture.caption}")
            for group, reading in self.parts.items()
            for picture in reading.pictures()
        ]


def read_groups(
    metric: Metric,
    counts_of: Callable[[str | None], PeriodCounts],
    kind: Aggregation = "total",
    options: EstimateOptions = PLAIN,
) -> GroupedReading:
    """Return the readings of a metric's groups; `counts_of` gives a group's counts, and of all devices for None."""
    groups = metric.groups
    if groups is None:
        raise ParameterError(f"{metric.id} has no groups: its reports name none")
    chosen = replace(options, interval_kind=options.interval_kind or "population")
    hidden = tuple(name for name in groups.names if groups.hidden(name))
    whole = counts_of(None)  # first: a source that counts then counts all reports at once
    counted = {name: counts_of(name) for name in groups.names if name not in hidden}
    parts = {name: read(own, kind, chosen) for name, own in counted.items()}
    left_out = whole.num_reports - sum(own.num_reports for own in counted.values())
    return GroupedReading(metric, parts, hidden, left_out)
