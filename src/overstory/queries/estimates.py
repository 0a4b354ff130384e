"""Estimates over a range of periods: total, by period, or cumulative (chapter 5 of Vidal's thesis).

Reports of a device share its permanent responses: unless it is said, each is taken to report in every period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from overstory.analysis.alarms.crafted import Check, adjust_checks, alarm_notes, check_collection
from overstory.analysis.estimate import Estimate
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import postprocess
from overstory.analysis.reports import SupportCounts
from overstory.analysis.selection import bound_text
from overstory.analysis.tables.output import MOST_DRAWN, estimate_picture, estimate_table, file_columns, records
from overstory.analysis.variance import clustering
from overstory.presentation.document import Block, Column, Lines, Paragraph
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import (
    PLAIN,
    Aggregation,
    EstimateOptions,
    PeriodEstimate,
    RangeReading,
    estimate_parts,
    most_repeats,
    range_notes,
)

if TYPE_CHECKING:
    from overstory.presentation.svg import Picture

Estimator = Callable[[Metric, SupportCounts, float, EstimateOptions, Sequence[str]], Estimate]
"""What makes one estimate: `estimate_counts`, or something that calls it."""


@dataclass(frozen=True, eq=False, repr=False)
class EstimateSeries(RangeReading):
    """Estimates of a metric over a range of periods; `parts` is empty when there are no reports."""

    # Of each period: what honest devices cannot have sent; alarms among them are notes of the estimates, too.
    checks: tuple[Check, ...] = ()

    def own_facts(self) -> dict[str, Any]:
        return {"adjustment": "fcr"}

    def checks_json(self) -> dict[str, Any]:
        return {"checks": [check.to_json() for check in self.checks]}

    def columns(self, level: float) -> Sequence[Column]:
        return file_columns(level)

    def records(self, part: PeriodEstimate, level: float) -> Iterable[Sequence[Any]]:
        return records(part.estimate, level=level)

    def tables(self, *, everything: bool) -> Iterator[Block]:
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

    def detected_by(self) -> str:
        return f"; {bound_text(self.options.correction, self.options.alpha)}"

    def part_pictures(self, part: PeriodEstimate) -> Iterator[Picture]:
        drawn = part.estimate.plot()
        yield replace(drawn, name=self.picture_name(part), caption=f"{self.when(part)}: {drawn.caption}")


def read_estimates(
    counted: PeriodCounts,
    kind: Aggregation = "total",
    options: EstimateOptions = PLAIN,
    *,
    estimator: Estimator | None = None,
) -> EstimateSeries:
    """Estimate the frequencies of a metric's values, or the share of devices with each item of a set."""
    metric = counted.metric
    names = _names(metric, options)
    chosen = replace(options, interval_kind=options.kind_of_intervals(metric, kind))
    compute = estimator or estimate_counts
    parts = estimate_parts(
        counted, kind, chosen, lambda counts, per_device: compute(metric, counts, per_device, chosen, names)
    )
    checks = check_periods(counted, {part.last: part.estimate for part in parts if part.first == part.last}, names)
    noted = tuple(_with_alarms(part, counted, checks) for part in parts)
    notes = range_notes(counted, _notes(counted, kind, chosen))
    return (ItemSeries if metric.reading == "items" else EstimateSeries)(counted, kind, chosen, noted, notes, checks)


def estimate_counts(
    metric: Metric, counts: SupportCounts, per_device: float, options: EstimateOptions, names: Sequence[str]
) -> Estimate:
    """Estimate a metric once, with every choice applied; `names` are its values or candidates."""
    oracle, how = FrequencyOracle(metric.oracle), dict[str, Any](reports_per_device=per_device)
    selecting: dict[str, Any] = {"alpha": options.alpha, "correction": options.correction}
    if options.interval_kind is not None:
        how["interval_kind"] = options.interval_kind
    if metric.oracle.encoding.decoded:
        estimate = oracle.estimate(counts, names, method=options.method, complete=options.complete, **selecting, **how)
    else:
        estimate = replace(oracle.estimate(counts, names, **how), **selecting)
    return postprocess(estimate, *options.steps) if options.steps else estimate


def _names(metric: Metric, options: EstimateOptions) -> Sequence[str]:
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


def _notes(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> Iterator[str]:
    shared, metric = clustering(counted.metric.oracle), counted.metric
    most = most_repeats(counted, kind, options)
    shares_noise = metric.panel is None and any(shared.covariances)
    if len(counted.periods) > 1 and kind == "per-period" and shares_noise:
        yield "a device keeps its permanent responses: errors of different periods are not independent"
    if most > 1 and not shares_noise and options.kind_of_intervals(metric, kind) == "reports":
        pass
    elif most > 1 and options.reports_per_device is None:
        yield (
            f"standard errors assume {most} reports per device, the worst case; use --reports-per-device if you know "
            "better"
        )
    elif most > 1 and kind == "cumulative":
        yield (
            f"each part assumes {options.reports_per_device:g} reports per device, or one per period if that is less: "
            "devices may have sent more in an early part, and its standard errors are then too small"
        )


def check_periods(counted: PeriodCounts, estimates: Mapping[int, Estimate], names: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks of each period, adjusted for all of them; missing `estimates` in closed form are computed."""
    mechanism, checks = counted.metric.oracle, list[Check]()
    for period in counted.periods:
        counts, estimate = counted.counts[period], estimates.get(period)
        if estimate is None or estimate.num_reports != counts.num_reports:  # none, or not decoded yet
            fitted = mechanism.encoding.decoded or mechanism.encoding.by_seed
            estimate = None if fitted else FrequencyOracle(mechanism).estimate(counts, names)
        about: dict[str, Any] = {"sums": counted.sums.get(period), "labels": names, "period": counted.label(period)}
        checks += check_collection(mechanism, counts, estimate, **about)
    return adjust_checks(checks)


def _with_alarms(part: PeriodEstimate, counted: PeriodCounts, checks: Sequence[Check]) -> PeriodEstimate:
    """Return a part with the alarms of its periods among its estimate's notes; no number changes."""
    labels = {counted.label(period) for period in counted.periods if part.first <= period <= part.last}
    own = (check for check in checks if check.period in labels)
    notes = alarm_notes(own)
    if not notes:
        return part
    return replace(part, estimate=replace(part.estimate, notes=(*part.estimate.notes, *notes)))


MOST_SIZES: Final = 12  # ranges of which the mean size is written out, the last ones


class ItemSeries(EstimateSeries):
    """Estimates of items over a range of periods: shares that need not add up to 1, and the mean size of a set."""

    stem: ClassVar[str] = "items"

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:
        yield from super().blocks(everything=everything, written=written)
        if self.parts:
            yield Lines(*self.sizes())

    def part_pictures(self, part: PeriodEstimate) -> Iterator[Picture]:
        caption = self.caption(part, "Share of the devices that have each item, with its interval.")
        yield estimate_picture(self.picture_name(part), caption, part.estimate.rows(MOST_DRAWN))

    def sizes(self) -> Iterator[str]:
        for part in self.parts[-MOST_SIZES:]:
            learned = part.estimate
            size = learned.mean_size
            low, high = size.interval(kind=learned.interval_kind)
            when = "" if self.kind == "total" else f" in {self.counted.label(part.last)}"
            yield (
                f"items of a device{when}: {size.mean:.2f} on average, 95% interval {low:.2f} to {high:.2f} "
                f"(of a larger set {size.most} count)"
            )
