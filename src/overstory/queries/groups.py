"""A metric's estimates by group: a reading of each, smoothed shares where asked for, and all groups weighted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from overstory.analysis.postprocess import (
    LEVEL,
    Smoothed,
    WeightedShares,
    smoothed_shares,
    weighted_shares,
    with_interval,
)
from overstory.presentation.document import Block, Column, Heading, Table
from overstory.presentation.formats import interval, percent, plural
from overstory.presentation.result import Result
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.protocol.metrics.groups import Groups
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import Aggregation, EstimateOptions, Reading, read

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate
    from overstory.presentation.svg import Picture

MOST_ROWS: Final = 20

SMOOTHING: Final = (
    "smoothed shares are moved towards the mean of all groups: nearer to the truth on average, and not unbiased; the "
    "intervals are those of the shares before"
)
WEIGHTING: Final = (
    "weighted: each group counts by its public share of all devices, however many of its devices report; not corrected "
    "for devices that differ within a group"
)


@dataclass(frozen=True, eq=False)
class GroupedReading(Result):
    """The readings of a metric's groups over a range of periods."""

    name: ClassVar[str] = "groups"
    total: Reading  # of all devices
    parts: Mapping[str, Reading]  # by group, in the registry's order
    hidden: tuple[str, ...]  # groups with too few devices, by public shares
    left_out: int  # reports in none of `parts`: they name no group, or a hidden one
    smoothed: Smoothed | None = field(default=None, repr=False)  # over the groups with reports; None unless asked for
    weighted: WeightedShares | None = field(default=None, repr=False)  # as `smoothed`; None for a metric without shares

    @property
    def metric(self) -> Metric:
        return self.total.metric

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
        if self.smoothed is not None:
            yield SMOOTHING
        if self.weighted is not None:
            yield WEIGHTING
            absent = [group for group, reading in self.parts.items() if _estimate(reading) is None]
            if absent or self.hidden:
                yield f"weighted without {', '.join([*absent, *self.hidden])}: the other groups' shares are scaled up"

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
        more: dict[str, Any] = {}
        if self.weighted is not None:
            more["weighted"] = self.weighted.rows()
        if self.smoothed is not None:
            more["smoothed"] = list(self.smoothed_rows())
        about |= {"hidden": list(self.hidden), "reports_in_no_group_here": self.left_out}
        return {"metric": self.metric.id, **about, "groups": parts, **more, "notes": list(self.all_notes())}

    def smoothed_rows(self) -> Iterator[dict[str, Any]]:
        assert self.smoothed is not None
        estimates = [(group, own) for group, reading in self.parts.items() if (own := _estimate(reading)) is not None]
        order = np.argsort(-self.smoothed.mean, kind="stable")
        for place in order[np.isfinite(self.smoothed.mean[order])]:
            for number, (group, estimate) in enumerate(estimates):
                error = estimate.errors()[place] / estimate.num_reports
                yield {
                    "value": estimate.values[place],
                    "group": group,
                    **with_interval(estimate.raw_frequencies[place], error),
                    "smoothed": float(self.smoothed.shares[number, place]),
                    "smoothed_error": float(self.smoothed.errors[number, place]),
                }

    def as_table(self) -> Table:
        if self.smoothed is not None:
            return Table("", tuple(map(Column, SMOOTHED_KEYS)), list(self.smoothed_rows()))
        tables = {group: reading.as_table() for group, reading in self.parts.items()}
        columns = next((table.columns for table in tables.values()), ())
        rows = [{"group": group, **row} for group, table in tables.items() for row in table.rows]
        return Table("", (Column("group"), *columns), rows)

    def shown(self, *, everything: bool) -> Iterator[Block]:
        for group, reading in self.parts.items():
            yield Heading(3, f"{self.groups.by} {group}: {self.groups.expected(group):,.0f} expected devices")
            yield from reading.blocks(everything=everything)
        if self.weighted is not None:
            rows = self.weighted.rows()
            yield Table("All devices, weighted by public shares", SHARES, rows if everything else rows[:MOST_ROWS])
        if self.smoothed is not None:
            rows = list(self.smoothed_rows())
            most = len(rows) if everything else MOST_ROWS * len(self.parts)
            yield Table("Shares, and smoothed over the groups", SMOOTHED, rows[:most])

    def pictures(self) -> list[Picture]:
        return [
            replace(picture, name=f"{picture.name}-{group}", caption=f"{group}, {picture.caption}")
            for group, reading in self.parts.items()
            for picture in reading.pictures()
        ]


VALUE: Final = Column("value", is_left=True)
SHARES: Final = (
    VALUE,
    Column("share", text=percent),
    Column("interval", f"{LEVEL:.0%} interval", interval(percent), ("low", "high")),
)
SMOOTHED: Final = (
    VALUE,
    Column("group", is_left=True),
    *SHARES[1:],
    Column("smoothed", text=percent),
    Column("smoothed_error", "+-", percent),
)
SMOOTHED_KEYS: Final = (
    "group",
    "value",
    "share",
    "raw_share",
    "standard_error",
    "low",
    "high",
    "smoothed",
    "smoothed_error",
)


def read_groups(
    metric: Metric,
    counts_of: Callable[[str | None], PeriodCounts],
    kind: Aggregation = "total",
    options: EstimateOptions | None = None,
    *,
    smoothing: bool = False,
) -> GroupedReading:
    """Return the readings of a metric's groups; `counts_of` gives a group's counts, and of all devices for None."""
    groups = metric.groups
    if groups is None:
        raise ParameterError(f"{metric.id} has no groups: its reports name none")
    chosen = options or EstimateOptions()
    chosen = replace(chosen, interval_kind=chosen.interval_kind or "population")
    hidden = tuple(name for name in groups.names if groups.hidden(name))
    whole = counts_of(None)  # first: a source that counts then counts all reports at once
    counted = {name: counts_of(name) for name in groups.names if name not in hidden}
    total = read(whole, kind, chosen)
    parts = {name: read(own, kind, chosen) for name, own in counted.items()}
    left_out = whole.num_reports - sum(own.num_reports for own in counted.values())
    reading = GroupedReading(total, parts, hidden, left_out)
    if not total.is_of_shares or kind != "total" or not total.parts:
        if smoothing:
            raise ParameterError("smoothing is of shares, over a range of periods in total: read those")
        return reading
    present = [(groups.share(name), own) for name, each in parts.items() if (own := _estimate(each)) is not None]
    estimates = [own for _, own in present]
    weighted = weighted_shares([share for share, _ in present], estimates)
    smoothed = smoothed_shares(total.parts[0].estimate, estimates) if smoothing else None
    return replace(reading, weighted=weighted, smoothed=smoothed)


def _estimate(reading: Reading) -> Estimate | None:
    return reading.parts[0].estimate if reading.is_of_shares and reading.parts else None
