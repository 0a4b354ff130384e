"""Readings of numbers over a range of periods: a mean, a distribution, or shares of ranges, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from overstory.analysis.numeric.quantities import (
    NumberDifference,
    Quantity,
    draw_quantities,
    estimate_numbers,
    subtract,
)
from overstory.analysis.selection import INTERVAL_KINDS
from overstory.presentation.document import Block, Column, Lines, Table
from overstory.presentation.formats import short_dates, significant
from overstory.presentation.result import Result
from overstory.presentation.svg import Picture
from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.errors import ParameterError
from overstory.queries.comparison import Comparison, check_comparable, compared
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

NAMES: Final = {"mean": "mean", "quantile": "quantile", "share": "share of"}
CSV: Final = (Column("kind", csv="estimate"), *map(Column, ("of", "value", "standard_error", "low", "high")))


class NumberSeries(RangeReading):
    """What is learned of a metric of numbers over a range of periods: a `NumberEstimate` of each part."""

    every = "estimate"

    def own_facts(self) -> dict[str, Any]:
        return {"estimates": self.metric.reading}

    def columns(self, level: float) -> Sequence[Column]:  # noqa: ARG002 - they have one level
        return CSV

    def records(self, part: PeriodEstimate, level: float) -> Iterable[Sequence[Any]]:  # noqa: ARG002
        for row in part.estimate.quantities:
            yield row.kind, row.of, row.value, row.standard_error, row.low, row.high

    def tables(self, *, everything: bool) -> Iterator[Block]:  # noqa: ARG002 - all of it is shown
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
        return f"95%, {INTERVAL_KINDS['population']}"

    def pictures(self) -> list[Picture]:
        return list(self.over_time(1)) if self.metric.reading == "mean" else super().pictures()

    def part_pictures(self, part: PeriodEstimate) -> Iterator[Picture]:
        if rows := list(part.estimate.of_kind("share")):
            caption = self.caption(part, "Share of the devices in each range of numbers, with its 95% interval.")
            yield draw_quantities(self.picture_name(part), caption, rows)

    def over_time(self, fewest: int = 2) -> Iterator[Picture]:
        each = f"each {self.metric.period}" + (
            "" if self.options.pool == 1 else f" and the {self.options.pool - 1} before it"
        )
        when = {"total": "all reports", "per-period": each, "cumulative": f"all reports up to {each}"}[self.kind]
        for kind, of, what in (("mean", "", "mean"), ("quantile", "0.5", "median")):
            pairs = [
                (str(self.counted.label(part.last)), row)
                for part in self.parts
                for row in part.estimate.of_kind(kind)
                if row.of == of and not isinstance(row.value, str)
            ]
            if len(pairs) >= fewest:
                caption = f"The {what} of {when}, with its 95% interval."
                labels = short_dates([label for label, _ in pairs])
                yield draw_quantities(f"{self.metric.id}-{what}", caption, [row for _, row in pairs], labels)
                return


COLUMNS: Final = (
    Column("what", "", is_left=True),
    Column("value", "estimate"),
    Column("standard_error", "std. error"),
    Column("low", "95% from"),
    Column("high", "to"),
)


def shown(row: Quantity | NumberDifference, value: float | str | None, sign: str = "") -> str:
    """Return a number of a row as a person reads it: shares in percent, others with four digits that count."""
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:{sign}.2%}" if row.kind == "share" else significant(value, sign=sign)


def read_numbers(counted: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions = PLAIN) -> NumberSeries:
    """Estimate what is learned of a metric of numbers; of the options, only the number of reports per device fits."""
    metric = counted.metric
    ranges = [_symbols(metric.domain, text) for text in options.ranges]
    parts = estimate_parts(
        counted,
        kind,
        options,
        lambda counts, per_device: estimate_numbers(
            metric.mechanism, metric.domain, counts, reports_per_device=per_device, ranges=ranges
        ),
    )
    described = replace(options, interval_kind="population")
    return NumberSeries(counted, kind, described, parts, range_notes(counted, _notes(counted, kind, options)))


def _symbols(domain: AnyDomain, text: str) -> tuple[int, int]:
    """Return the first symbol of a range ``FIRST:LAST``, and the one past its last."""
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
    most = most_repeats(counted, kind, options)
    if most > 1 and options.reports_per_device is None:
        yield (
            f"standard errors assume {most} reports per device, all of one value, the worst case; use "
            "--reports-per-device if you know better"
        )
    if len(counted.periods) > 1 and kind == "per-period" and not counted.metric.fresh:
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
MOST_SHOWN: Final = 20
SHOWN: Final = ("a", "b", "difference", "low", "high")
FIELDS: Final = ("a", "b", "difference", "standard_error", "low", "high", "q_value", "changed")


@dataclass(frozen=True, repr=False)
class NumberDifferences(Result):
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

    def blocks(self, *, everything: bool = False, limit: int = MOST_SHOWN, **_: Any) -> Iterator[Block]:
        rows = [
            {"what": f"{NAMES[row.kind]} {row.of}".strip(), "changed": row.changed}
            | {name: shown(row, getattr(row, name), "" if name in {"a", "b"} else "+") for name in SHOWN}
            for row in self.differences[: None if everything else limit]
        ]
        alpha = next((100 * row.alpha for row in self.differences), 5.0)
        meaning = (
            f"changed: at a false discovery rate of at most {alpha:.3g}% over all rows; each interval is 95% by itself"
        )
        yield Table("", DIFFERENCES, rows)
        yield Lines(meaning, *(f"note: {note}" for note in self.notes))


def compare_numbers(a: PeriodCounts, b: PeriodCounts, options: EstimateOptions = PLAIN) -> Comparison:
    """Return the means and shares of one range of periods less those of another; see `compare_ranges`."""
    check_comparable(a, b)
    series = [read_numbers(counted, "total", options) for counted in (a, b)]
    first, second = (each.parts[0].estimate for each in series)
    notes = (*series[0].notes, *series[1].notes, *first.notes, *second.notes)
    both = NumberDifferences(tuple(subtract(first, second, options.alpha)))
    return compared(a, b, both, notes)
