"""Estimates over a range of periods: total, by period, or cumulative.

The last two are those of the response set in chapter 5 of Vidal's thesis. The reports of a device in several periods
share its permanent responses. Without a number of reports per device, estimates assume that every device reported in
every period: this is the upper bound, so no standard error is too small (docs/explanation/repeated.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, get_args

from overstory.analysis.estimate import Estimate
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess.steps import postprocess
from overstory.analysis.reports import SupportCounts
from overstory.analysis.selection import bound_text, interval_words
from overstory.analysis.support.item_sets import ItemEstimate
from overstory.analysis.tables.output import estimate_table, file_columns, plot_height, records
from overstory.analysis.variance import check_reports_per_device, clustering
from overstory.presentation.document import Block, Column, Lines, Paragraph
from overstory.presentation.render_data import csv_lines
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.queries.counts import PeriodCounts
from overstory.queries.facts import (
    HOW,
    NO_REPORTS,
    RangePart,
    RangeReading,
    check_periods,
    note_lines,
    range_facts,
    range_sentences,
    with_alarms,
)
from overstory.queries.readings import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overstory.analysis.alarms.crafted import Check
    from overstory.analysis.selection import Adjustment, Correction, IntervalKind

Aggregation = Literal["total", "per-period", "cumulative"]
"""One estimate of the range; one of each period; one of each period together with all earlier ones."""

Estimator = Callable[[Metric, SupportCounts, float, "EstimateOptions", Sequence[str]], Estimate]
"""What makes one estimate: `estimate_counts`, or something that calls it."""

AGGREGATIONS: Final[tuple[Aggregation, ...]] = get_args(Aggregation)


@dataclass(frozen=True)
class EstimateOptions:
    """Options of an estimate.

    Attributes
    ----------
    reports_per_device
        Reports of one device in the range; None: the number of periods with reports. Cumulative estimates use it for
        each part of the range, but at most the part's number of periods.
    candidates
        Strings to estimate instead of the metric's own list; only where counts are by cohort or seed.
    alpha, correction
        What counts as detected: see `Estimate.detected`.
    method, complete
        For Bloom filters: see `decode`.
    steps
        The names of post-processing steps, in order; see `overstory.postprocess`.
    interval_kind
        What intervals describe (see `Estimate`). None: the population for estimates by period and cumulative ones,
        which are compared; these reports for a total.
    adjustment
        What the intervals of detected values are corrected for; see `Estimate.interval`.
    ranges
        Ranges whose shares are asked for, as texts such as ``18:25``, both ends included; of metrics of ranges alone.
    progress
        Called by long work, a search, with what is being done and how much is done, from 0 to 1.
    """

    reports_per_device: float | None = None
    candidates: tuple[str, ...] | None = None
    alpha: float = 0.05
    correction: Correction = "fdr"
    method: str = "gls"
    complete: bool = False
    steps: tuple[str, ...] = ()
    interval_kind: IntervalKind | None = None
    adjustment: Adjustment = "fcr"
    ranges: tuple[str, ...] = ()
    progress: Callable[[str, float], object] | None = field(default=None, compare=False, repr=False)

    def kind_of_intervals(self, reading: Aggregation) -> IntervalKind:
        """Return the chosen kind, or the default for this aggregation."""
        default: IntervalKind = "reports" if reading == "total" else "population"
        return default if self.interval_kind is None else self.interval_kind


@dataclass(frozen=True, eq=False)
class PeriodEstimate(RangePart):
    """The estimate of the periods `first` to `last`.

    Attributes
    ----------
    first, last
        The numbers of the first and the last period, both included.
    reports_per_device
        Reports of one device, as assumed for the standard errors.
    estimate
        The estimate, by the metric's labels or candidates.
    """

    estimate: Estimate


@dataclass(frozen=True, eq=False)
class EstimateSeries(RangeReading):
    """Estimates of a metric over a range of periods; `parts` is empty when there are no reports.

    Attributes
    ----------
    counted
        The support counts that the estimates are of.
    kind
        What `parts` are: one total, one for each period, or cumulative ones.
    options
        The options, with `interval_kind` filled in.
    parts
        The estimates, in the order of their periods.
    notes
        What a reader must know before trusting the numbers.
    checks
        Of each period: what honest devices cannot have sent; alarms among them are notes of the estimates, too.
    """

    name: ClassVar[str] = "estimates"

    counted: PeriodCounts
    kind: Aggregation
    options: EstimateOptions
    parts: tuple[PeriodEstimate, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def interval_kind(self) -> IntervalKind:
        """What the intervals of all parts describe."""
        return self.options.kind_of_intervals(self.kind)

    def summary(self) -> dict[str, Any]:
        """Return the facts that all parts have in common, as JSON values."""
        kind = self.interval_kind
        return range_facts(self.counted, self.kind, kind, self.notes, adjustment=self.options.adjustment)

    def to_json(self, limit: int | None = None, *, everything: bool = True) -> dict[str, Any]:
        """Return the summary, the checks and, under ``readings``, each part with its range.

        A part has at most `limit` values; unless `everything`, those that were detected.
        """
        checks = [check.to_json() for check in self.checks]
        readings = [
            {**self.part_facts(part), **part.estimate.to_json(limit, everything=everything)} for part in self.parts
        ]
        return {**self.summary(), "checks": checks, "readings": readings}

    def rows(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield a dictionary per range and value, most frequent first within a range."""
        for part in self.parts:
            for row in part.estimate.rows(limit):
                yield {**self.ends(part), **row}

    def csv_lines(self, limit: int | None = None) -> Iterator[str]:
        """Return a header and a line per range and value: from, to, and the columns of results.csv."""
        lines = (
            (*self.ends(part).values(), *record) for part in self.parts for record in records(part.estimate, limit)
        )
        columns = file_columns(adjustment=self.options.adjustment)
        return csv_lines((Column("from"), Column("to"), *columns), lines)

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:
        """Return the estimates as one table, and the facts to read it by; see `Reading`."""
        rows, empty = [], []
        for part in self.parts:
            label = str(self.counted.label(part.last))
            chosen = part.estimate.rows(everything=everything)
            rows += [{"period": label, **row} for row in chosen]
            empty += [] if chosen else [label]
        if rows:
            yield estimate_table(rows, first=() if self.kind == "total" else (Column("period", is_left=True),))
        if empty:
            yield Paragraph("nothing was detected" + ("" if self.kind == "total" else f" in {', '.join(empty)}"))
        notes = (*self.notes, *(note for part in self.parts for note in part.estimate.notes))
        options = self.options
        how = f"estimated {HOW[self.kind]}; {bound_text(options.correction, options.alpha)}"
        yield Lines(
            *range_sentences(self.counted, how, interval_words(self.interval_kind, options.adjustment)),
            *note_lines(self.counted, notes),
            *([] if written is None else [f"every value: {written}"]),
        )

    def panels(self) -> tuple[list[Panel], str]:
        """Return a panel for each of the last ranges; see `Reading`."""
        parts, left_out = last_parts(self.parts)
        return [Panel(plot_height(part.estimate), self._drawing(part)) for part in parts], left_out

    def _drawing(self, part: PeriodEstimate) -> Callable[[Axes], None]:
        def draw(ax: Axes) -> None:
            part.estimate.plot(ax)
            ax.set_title(f"{self.when(part)}: {ax.get_title('left')}", loc="left")

        return draw


def read_estimates(
    counted: PeriodCounts,
    kind: Aggregation = "total",
    options: EstimateOptions | None = None,
    *,
    estimator: Estimator | None = None,
) -> EstimateSeries:
    """Estimate the frequencies of a metric's values from its counts.

    Parameters
    ----------
    counted
        Support counts, from `read_store` or `read_remote`.
    kind
        See `Aggregation`. In one period a device reports once, so ``per-period`` assumes nothing about devices.
    options
        The options; None: the defaults of `EstimateOptions`.
    estimator
        Called for each estimate, with the arguments of `estimate_counts`, which is the default; a cache, for example.

    Raises
    ------
    ParameterError
        When an option does not fit the metric, or candidates are needed and there are none.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> reading = read_estimates(PeriodCounts(parse_registry(EXAMPLE)["colour"], None, None, {}))
    >>> reading.parts, reading.notes
    ((), ('there are no reports in this range',))
    """
    chosen = options or EstimateOptions()
    if kind not in AGGREGATIONS:
        raise ParameterError(f"reading = {kind!r}: choose one of {', '.join(AGGREGATIONS)}")
    names = _names(counted.metric, chosen)
    check_repeats(counted, kind, chosen)
    chosen = replace(chosen, interval_kind=chosen.kind_of_intervals(kind))
    compute = estimator or estimate_counts
    parts = tuple(
        PeriodEstimate(first, last, each, compute(counted.metric, counts, each, chosen, names))
        for first, last, counts, each in parts_of(counted, kind, chosen)
    )
    # An estimator may put its estimates off: then they have no alarms among their notes.
    ready = {part.last: part.estimate for part in parts if part.first == part.last and _is_ready(part)}
    checks = check_periods(counted, ready, names)
    noted = tuple(
        replace(part, estimate=with_alarms(part.estimate, counted, checks, part.first, part.last))
        if _is_ready(part)
        else part
        for part in parts
    )
    return EstimateSeries(counted, kind, chosen, noted, tuple(_notes(counted, kind, chosen)), checks)


def _is_ready(part: PeriodEstimate) -> bool:
    return isinstance(part.estimate, Estimate)


def parts_of(
    counted: PeriodCounts, kind: Aggregation, options: EstimateOptions
) -> Iterator[tuple[int, int, SupportCounts, float]]:
    """Yield what each part is of: its first and last period, its counts, and its reports per device."""
    so_far: SupportCounts | None = None
    for number, period in enumerate(counted.periods, start=1):
        own = counted.counts[period]
        so_far = own if so_far is None or kind == "per-period" else so_far + own
        if kind == "total" and number < len(counted.periods):
            continue
        given = number if options.reports_per_device is None else min(options.reports_per_device, number)
        per_device = 1.0 if kind == "per-period" else float(given)
        yield period if kind == "per-period" else counted.periods[0], period, so_far, per_device


def estimate_counts(
    metric: Metric, counts: SupportCounts, per_device: float, options: EstimateOptions, names: Sequence[str]
) -> Estimate:
    """Estimate once, with every choice applied."""
    oracle = FrequencyOracle(metric.oracle)
    selecting: dict[str, Any] = {"alpha": options.alpha, "correction": options.correction}
    if options.interval_kind is not None:
        selecting["interval_kind"] = options.interval_kind
    if metric.oracle.encoding.decoded:
        how = selecting | {"method": options.method, "complete": options.complete}
        estimate = oracle.estimate(counts, names, reports_per_device=per_device, **how)
    else:
        estimate = replace(oracle.estimate(counts, names, reports_per_device=per_device), **selecting)
    if estimate.adjustment != options.adjustment:
        estimate = replace(estimate, adjustment=options.adjustment)
    return postprocess(estimate, *options.steps) if options.steps else estimate


def _names(metric: Metric, options: EstimateOptions) -> Sequence[str]:
    """Return what is estimated."""
    bloom = metric.oracle.encoding.decoded
    later = bloom or (metric.oracle.encoding.uneven and metric.domain.size is None)
    if not bloom and (options.complete or options.method != "gls"):
        raise ParameterError(
            f"{metric.id} is counted by {metric.mechanism.name}: a method or complete list is for Bloom"
        )
    if options.candidates is not None:
        if not later:
            raise ParameterError(f"{metric.id} is counted by its own labels: other candidates cannot be looked for")
        return options.candidates
    if not metric.labels:
        raise ParameterError(f"{metric.id} has no candidates: name a file in the registry, or give candidates")
    return metric.labels


def check_repeats(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> None:
    """Refuse a number of reports per device that these periods cannot have."""
    given = options.reports_per_device
    if given is None:
        return
    check_reports_per_device(given)
    if kind == "per-period" and given != 1:
        raise ParameterError("in one period a device reports once: reports per device are for longer ranges")
    if given > max(1, len(counted.periods)):
        raise ParameterError(
            f"{given:g} reports per device, but there are reports in {len(counted.periods)} periods, and a device "
            "reports once in each"
        )


def _notes(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> Iterator[str]:
    if not counted.periods:
        yield NO_REPORTS
    shared = clustering(counted.metric.oracle)
    several = len(counted.periods) > 1
    shares_noise = shared.own or shared.other
    counts_people = options.kind_of_intervals(kind) == "population"
    if several and kind == "per-period":
        if shares_noise:
            yield "a device keeps its permanent responses: errors of different periods are not independent"
    elif several and not shares_noise and not counts_people:
        pass
    elif several and options.reports_per_device is None:
        yield (
            f"standard errors assume {len(counted.periods)} reports per device, the worst case; use "
            "--reports-per-device if you know better"
        )
    elif several and kind == "cumulative":
        yield (
            f"each part assumes {options.reports_per_device:g} reports per device, or one per period if that is less: "
            "devices may have sent more in an early part, and its standard errors are then too small"
        )
    yield from not_counted(counted)


def not_counted(counted: PeriodCounts) -> Iterator[str]:
    """Yield a note on reports that retention took out, and for each set of other parameters that reports are of."""
    taken_out = sum(counted.taken_out.values())
    if taken_out:
        came = counted.num_reports + taken_out
        yield (
            f"past retention: {counted.num_reports:,} of {came:,} reports are in the counts that stay; which ones does "
            "not depend on their values"
        )
    for other in counted.others:
        yield (
            f"{other.reports:,} reports from {counted.label(other.first)} to {counted.label(other.last)} were made "
            f"with other parameters (digest {other.digest.hex()}): they mean something else and are not in these "
            "estimates; a registry file with those parameters reads them"
        )


MOST_PANELS: Final = 12
"""Periods in one picture."""

AnyPart = TypeVar("AnyPart", bound=RangePart)


def last_parts(parts: Sequence[AnyPart]) -> tuple[Sequence[AnyPart], str]:
    """Return the parts that a picture has room for, and what it leaves out."""
    last = parts[-MOST_PANELS:]
    return last, f"{len(last)} of {len(parts)} ranges shown, the last" if len(last) < len(parts) else ""


MOST_SIZES: Final = 12
"""Ranges of which the mean size is written out, the last ones."""


class ItemSeries(EstimateSeries):
    """Estimates of items over a range of periods: shares that need not add up to 1, and the mean size of a set."""

    name: ClassVar[str] = "items"

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:
        """Return the shares as one table, the facts to read it by, and the mean sizes; see `Reading`."""
        yield from super().blocks(everything=everything, written=written)
        if self.parts:
            yield Lines(*self.sizes())

    def sizes(self) -> Iterator[str]:
        """Yield the mean size of each of the last ranges in a sentence."""
        for part in self.parts[-MOST_SIZES:]:
            learned = part.estimate
            assert isinstance(learned, ItemEstimate)
            size = learned.mean_size
            low, high = size.interval(kind=learned.interval_kind)
            when = "" if self.kind == "total" else f" in {self.counted.label(part.last)}"
            yield (
                f"items of a device{when}: {size.mean:.2f} on average, 95% interval {low:.2f} to {high:.2f} "
                f"(of a larger set {size.most} count)"
            )


def read_items(
    counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions | None = None
) -> ItemSeries:
    """Estimate the share of devices that have each item of a metric of sets; see `read_estimates`.

    Post-processing is refused: shares of items need not add up to 1.
    """
    if options is not None and options.steps:
        raise ParameterError(
            f"{counted.metric.id}: shares of items need not add up to 1, so post-processing does not fit them: "
            "leave it out"
        )
    series = read_estimates(counted, kind, options)
    return ItemSeries(**{part.name: getattr(series, part.name) for part in fields(series)})
