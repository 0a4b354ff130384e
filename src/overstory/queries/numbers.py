"""Readings of numbers over a range of periods: a mean, a distribution, or shares of ranges, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from overstory.analysis.numeric.quantities import NumberDifference, NumberEstimate, Quantity, estimate_numbers, subtract
from overstory.presentation.document import Block, Column, Lines, Table
from overstory.presentation.render_data import csv_lines
from overstory.protocol.errors import ParameterError
from overstory.queries.comparison import ComparedRanges, check_comparable, shared_noise
from overstory.queries.estimates import (
    AGGREGATIONS,
    Aggregation,
    EstimateOptions,
    check_repeats,
    last_parts,
    not_counted,
    parts_of,
)
from overstory.queries.facts import HOW, NO_REPORTS, RangePart, RangeReading, note_lines, range_facts, range_sentences
from overstory.queries.readings import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overstory.protocol.domains import AnyDomain
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts

NAMES: Final = {"mean": "mean", "quantile": "quantile", "share": "share of"}
CSV: Final = tuple(map(Column, ("from", "to", "estimate", "of", "value", "standard_error", "low", "high")))
WHAT_INTERVALS_HOLD: Final = "95% intervals for all devices like these: randomization, and which devices reported"


@dataclass(frozen=True, eq=False)
class NumberPart(RangePart):
    """What is learned of the periods `first` to `last`."""

    estimate: NumberEstimate


@dataclass(frozen=True, eq=False)
class NumberSeries(RangeReading):
    """What is learned of a metric of numbers over a range of periods; `parts` is empty when there are no reports."""

    name: ClassVar[str] = "estimates"

    counted: PeriodCounts  # what the estimates are of
    kind: Aggregation  # of `parts`
    parts: tuple[NumberPart, ...] = field(repr=False)
    notes: tuple[str, ...] = ()  # what a reader must know before trusting the numbers

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        facts = range_facts(self.counted, self.kind, "population", self.notes, estimates=self.metric.reading)
        readings = [{**self.part_facts(part), **part.estimate.to_json()} for part in self.parts]
        return {**facts, "readings": readings}

    def rows(self) -> Iterator[tuple[NumberPart, Quantity]]:
        """Yield every estimate with its range of periods."""
        return ((part, quantity) for part in self.parts for quantity in part.estimate.quantities)

    def csv_lines(self) -> Iterator[str]:
        lines = (
            (*self.ends(part).values(), row.kind, row.of, row.value, row.standard_error, row.low, row.high)
            for part, row in self.rows()
        )
        return csv_lines(CSV, lines)

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:  # noqa: ARG002 - all of it is shown
        rows = [self._row(part, row) for part, row in self.rows()]
        if rows:
            first = () if self.kind == "total" else (Column("period", is_left=True),)
            yield Table("", (*first, *COLUMNS), rows)
        every = (*self.notes, *(note for part in self.parts for note in part.estimate.notes))
        notes = note_lines(self.counted, every)
        sentences = range_sentences(self.counted, f"estimated {HOW[self.kind]}", WHAT_INTERVALS_HOLD)
        yield Lines(*sentences, *notes, *([] if written is None else [f"every estimate: {written}"]))

    def panels(self) -> tuple[list[Panel], str]:
        """Return one panel of means where these are all that is learned, else one for each of the last ranges."""
        parts = [part for part in self.parts if part.estimate.quantities]
        if parts and self.metric.reading == "mean":
            return [Panel(3.0, _means(self, parts))], ""
        last, left_out = last_parts(parts)
        return [Panel(3.0, _shares(self, part)) for part in last], left_out

    def _row(self, part: NumberPart, row: Quantity) -> dict[str, Any]:
        return {
            "period": self.counted.label(part.last),
            "what": f"{NAMES[row.kind]} {row.of}".strip(),
            **{name: shown(row, getattr(row, name)) for name in ("value", "standard_error", "low", "high")},
        }


def _means(series: NumberSeries, parts: list[NumberPart]) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        rows = [row for part in parts for row in part.estimate.of_kind("mean")]
        low, middle, high = ([float(getattr(row, name)) for row in rows] for name in ("low", "value", "high"))
        places = range(len(rows))
        spread = [[m - end for m, end in zip(middle, low, strict=True)]]
        spread.append([end - m for m, end in zip(middle, high, strict=True)])
        ax.errorbar(places, middle, yerr=spread, fmt="o", capsize=3)
        ax.set_xticks(places, [str(series.counted.label(part.last)) for part in parts], rotation=30, ha="right")
        ax.set_ylabel("mean, 95% interval")
        ax.set_title(series.metric.title, loc="left")

    return draw


def _shares(series: NumberSeries, part: NumberPart) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        rows = list(part.estimate.of_kind("share"))
        numeric = all(row.start is not None and row.stop is not None for row in rows)
        edges = [(float(row.start or 0), float(row.stop or 0)) for row in rows] if numeric else []
        least = min((stop - start for start, stop in edges if stop > start), default=1.0)
        left = [start for start, _ in edges] if numeric else [place - 0.4 for place in range(len(rows))]
        widths = [max(stop - start, least) for start, stop in edges] if numeric else [0.8] * len(rows)
        heights = [float(row.value) for row in rows]
        ax.bar(left, [max(height, 0.0) for height in heights], widths, align="edge", color="C0", alpha=0.4, linewidth=0)
        middles = [start + width / 2 for start, width in zip(left, widths, strict=True)]
        ends = [(float(row.low), float(row.high)) for row in rows]
        ax.vlines(middles, [low for low, _ in ends], [high for _, high in ends], color="C0")
        if not numeric:
            ax.set_xticks(middles, [row.of for row in rows], rotation=30, ha="right")
        ax.set_ylabel("share, 95% interval")
        ax.set_title(f"{series.metric.title}, {series.when(part)}: {part.estimate.num_reports:,} reports", loc="left")

    return draw


COLUMNS: Final = (
    Column("what", "", is_left=True),
    Column("value", "estimate"),
    Column("standard_error", "std. error"),
    Column("low", "95% from"),
    Column("high", "to"),
)


def shown(row: Quantity, value: float | str | None) -> str:
    """Return a number of a row as a person reads it: shares in percent, others with four digits that count.

    >>> shown(Quantity("share", "", 0.5, 0.1, 0.3, 0.7), 0.12345), shown(Quantity("mean", "", 1, 1, 0, 2), 21.39)
    ('12.35%', '21.39')
    """
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.2%}" if row.kind == "share" else f"{value:.4g}"


def read_numbers(
    counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions | None = None
) -> NumberSeries:
    """Estimate what is learned of a metric of numbers; of the options, only the number of reports per device fits."""
    chosen, metric = options or EstimateOptions(), counted.metric
    if kind not in AGGREGATIONS:
        raise ParameterError(f"reading = {kind!r}: choose one of {', '.join(AGGREGATIONS)}")
    _check_options(metric, chosen)
    check_repeats(counted, kind, chosen)
    ranges = [_symbols(metric.domain, text) for text in chosen.ranges]
    parts = tuple(
        NumberPart(
            first,
            last,
            each,
            estimate_numbers(metric.mechanism, metric.domain, counts, reports_per_device=each, ranges=ranges),
        )
        for first, last, counts, each in parts_of(counted, kind, chosen)
    )
    return NumberSeries(counted, kind, parts, tuple(_notes(counted, kind, chosen)))


def _symbols(domain: AnyDomain, text: str) -> tuple[int, int]:
    """Return the first symbol of a range ``FIRST:LAST``, and the one past its last.

    >>> from overstory.protocol.domains import Integers
    >>> _symbols(Integers(0, 99), "18:25")
    (18, 26)
    """
    ends, parts = [], text.split(":")
    for place in range(1, len(parts)):  # a name may have a colon, too
        try:
            first, last = (
                domain.encode(domain.read(":".join(part).strip())) for part in (parts[:place], parts[place:])
            )
        except ValueError:
            continue
        ends.append((first, last + 1))
    if len(ends) != 1 or ends[0][0] >= ends[0][1]:
        example = f"{domain.label(0)}:{domain.label(1)}" if domain.choices else "18:25"
        raise ParameterError(f"--range {text}: give the first and the last value of a range, such as {example}")
    return ends[0]


def _check_options(metric: Metric, options: EstimateOptions) -> None:
    for name, given in (
        ("candidates", options.candidates is not None),
        ("a method or a complete list", options.method != "gls" or options.complete),
        ("post-processing", bool(options.steps)),
    ):
        if given:
            raise ParameterError(f"{metric.id} is a metric of numbers: {name} is for shares of values")


def _notes(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> Iterator[str]:
    if not counted.periods:
        yield NO_REPORTS
    if len(counted.periods) > 1 and kind != "per-period" and options.reports_per_device is None:
        yield (
            f"standard errors assume {len(counted.periods)} reports per device, all of one value, the worst case; use "
            "--reports-per-device if you know better"
        )
    elif len(counted.periods) > 1 and kind == "per-period":
        yield "a device sends the same report of a value in every period: errors of different periods are alike"
    yield from not_counted(counted)


DIFFERENCES: Final = (
    Column("what", "", is_left=True),
    Column("a", "first"),
    Column("b", "second"),
    Column("difference", "difference"),
    Column("low", "95% from"),
    Column("high", "to"),
    Column("changed", "", lambda changed: "changed" if changed else "", is_left=True),
)
FIELDS: Final = ("a", "b", "difference", "standard_error", "low", "high", "q_value", "changed")


@dataclass(frozen=True, eq=False)
class NumberComparison(ComparedRanges):
    """What is learned of one range of periods less that of another."""

    a: PeriodCounts
    b: PeriodCounts
    differences: tuple[NumberDifference, ...]
    notes: tuple[str, ...] = ()

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        rows = [{"estimate": row.kind, "of": row.of} | {f: getattr(row, f) for f in FIELDS} for row in self.differences]
        return {**self.facts(), "differences": rows, "notes": list(self.notes)}

    def csv_lines(self) -> Iterator[str]:
        columns = map(Column, ("estimate", "of", *FIELDS))
        return csv_lines(
            tuple(columns), ((d.kind, d.of, *(getattr(d, name) for name in FIELDS)) for d in self.differences)
        )

    def blocks(self, limit: int | None = None) -> list[Block]:
        rows = [
            {"what": f"{NAMES[row.kind]} {row.of}".strip(), "changed": row.changed}
            | {name: _signed(row, name) for name in ("a", "b", "difference", "low", "high")}
            for row in self.differences[:limit]
        ]
        alpha = next((100 * row.alpha for row in self.differences), 5.0)
        meaning = (
            f"changed: at a false discovery rate of at most {alpha:.3g}% over all rows; each interval is 95% by itself"
        )
        return [Table("", DIFFERENCES, rows), Lines(meaning, *(f"note: {note}" for note in self.notes))]


def _signed(row: NumberDifference, name: str) -> str:
    number, sign = getattr(row, name), "" if name in {"a", "b"} else "+"
    return f"{number:{sign}.2%}" if row.kind == "share" else f"{number:{sign}.4g}"


def compare_numbers(
    a: PeriodCounts, b: PeriodCounts, options: EstimateOptions | None = None, *, overlap: float = 0.0
) -> NumberComparison:
    """Return the means and shares of one range of periods less those of another; see `compare_ranges`."""
    check_comparable(a, b)
    if overlap:
        raise ParameterError("an overlap is declared for shares of values: differences of numbers assume none")
    first, second = (read_numbers(counted, "total", options) for counted in (a, b))
    estimates = [series.parts[0].estimate for series in (first, second)]
    notes = (*first.notes, *second.notes, *estimates[0].notes, *estimates[1].notes, shared_noise(a, b))
    alpha = (options or EstimateOptions()).alpha
    return NumberComparison(a, b, tuple(subtract(estimates[0], estimates[1], alpha)), tuple(dict.fromkeys(notes)))
