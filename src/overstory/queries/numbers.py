"""Readings of numbers over a range of periods: a mean, a distribution, or shares of ranges, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.numeric.quantities import NumberDifference, Quantity, estimate_numbers, subtract
from overstory.presentation.document import Block, Column, Lines, Table
from overstory.protocol.errors import ParameterError
from overstory.queries.comparison import Comparison, check_comparable, compared
from overstory.queries.readings import (
    Aggregation,
    EstimateOptions,
    Panel,
    PeriodEstimate,
    RangeReading,
    estimate_parts,
    range_notes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overstory.protocol.domains import AnyDomain
    from overstory.queries.counts import PeriodCounts

NAMES: Final = {"mean": "mean", "quantile": "quantile", "share": "share of"}
CSV: Final = (Column("kind", csv="estimate"), *map(Column, ("of", "value", "standard_error", "low", "high")))


class NumberSeries(RangeReading):
    """What is learned of a metric of numbers over a range of periods: a `NumberEstimate` of each part."""

    every = "estimate"

    def own_facts(self) -> dict[str, Any]:
        return {"estimates": self.metric.reading}

    def part_json(self, part: PeriodEstimate, limit: int | None, *, everything: bool) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        learned: dict[str, Any] = part.estimate.to_json()
        return learned

    def columns(self) -> Sequence[Column]:
        return CSV

    def records(self, part: PeriodEstimate, limit: int | None) -> Iterable[Sequence[Any]]:  # noqa: ARG002 - every one
        for row in part.estimate.quantities:
            yield row.kind, row.of, row.value, row.standard_error, row.low, row.high

    def shown(self, *, everything: bool) -> Iterator[Block]:  # noqa: ARG002 - all of it is shown
        rows = [
            {
                "period": self.counted.label(part.last),
                "what": f"{NAMES[row.kind]} {row.of}".strip(),
                **{name: shown(row, getattr(row, name)) for name in ("value", "standard_error", "low", "high")},
            }
            for part in self.parts
            for row in part.estimate.quantities
        ]
        if rows:
            first = () if self.kind == "total" else (Column("period", is_left=True),)
            yield Table("", (*first, *COLUMNS), rows)

    def interval_text(self) -> str:
        return "95% intervals for all devices like these: randomization, and which devices reported"

    def panels(self) -> tuple[list[Panel], str]:
        """Return one panel of means where these are all that is learned, else one for each of the last ranges."""
        parts = [part for part in self.parts if part.estimate.quantities]
        if parts and self.metric.reading == "mean":
            return [Panel(3.0, _means(self, parts))], ""
        return super().panels()

    def panel(self, part: PeriodEstimate) -> Panel:
        return Panel(3.0, _shares(self, part))


def _means(series: NumberSeries, parts: list[PeriodEstimate]) -> Callable[[Axes], None]:
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


def _shares(series: NumberSeries, part: PeriodEstimate) -> Callable[[Axes], None]:
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
    choices = "a method or a complete list"
    refused = {"candidates": "candidates", "method": choices, "complete": choices, "steps": "post-processing"}
    chosen.refuse(
        {name: f"{metric.id} is a metric of numbers: {what} is for shares of values" for name, what in refused.items()}
    )
    ranges = [_symbols(metric.domain, text) for text in chosen.ranges]
    parts = estimate_parts(
        counted,
        kind,
        chosen,
        lambda _, counts, per_device: estimate_numbers(
            metric.mechanism, metric.domain, counts, reports_per_device=per_device, ranges=ranges
        ),
    )
    described = replace(chosen, interval_kind="population")
    return NumberSeries(counted, kind, described, parts, range_notes(counted, _notes(counted, kind, chosen)))


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


def _notes(counted: PeriodCounts, kind: Aggregation, options: EstimateOptions) -> Iterator[str]:
    if len(counted.periods) > 1 and kind != "per-period" and options.reports_per_device is None:
        yield (
            f"standard errors assume {len(counted.periods)} reports per device, all of one value, the worst case; use "
            "--reports-per-device if you know better"
        )
    elif len(counted.periods) > 1 and kind == "per-period":
        yield "a device sends the same report of a value in every period: errors of different periods are alike"


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


@dataclass(frozen=True)
class NumberDifferences:
    """What is learned of one range of periods less that of another; see `Comparison`."""

    differences: tuple[NumberDifference, ...]
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"estimate": row.kind, "of": row.of, **{name: getattr(row, name) for name in FIELDS}}
            for row in self.differences
        ]

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        return {"differences": self.rows()}

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
) -> Comparison:
    """Return the means and shares of one range of periods less those of another; see `compare_ranges`."""
    check_comparable(
        a, b, overlap=overlap, refusal="an overlap is declared for shares of values: differences of numbers assume none"
    )
    series = [read_numbers(counted, "total", options) for counted in (a, b)]
    first, second = (each.parts[0].estimate for each in series)
    notes = (*series[0].notes, *series[1].notes, *first.notes, *second.notes)
    alpha = (options or EstimateOptions()).alpha
    both = NumberDifferences(tuple(subtract(first, second, alpha)))
    return compared(a, b, both, notes, columns=tuple(map(Column, ("estimate", "of", *FIELDS))))
