"""A metric's estimates by group: a reading of each, and all groups weighted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from overstory.analysis.selection import normal_quantile
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
    from overstory.analysis.selection import F64
    from overstory.presentation.svg import Picture

MOST_ROWS: Final = 20

WEIGHTING: Final = (
    "weighted: each group counts by its public share of all devices, however many of its devices report; not corrected "
    "for devices that differ within a group"
)


LEVEL: Final = 0.95


@dataclass(frozen=True, eq=False)
class WeightedShares:
    """Shares among all devices, each group by its public share, and their errors (float64, shape (M,))."""

    values: Sequence[Any]
    shares: F64
    errors: F64

    def rows(self) -> list[dict[str, Any]]:
        order = np.argsort(-self.shares, kind="stable")
        return [
            {"value": self.values[place], **with_interval(self.shares[place], self.errors[place])}
            for place in order[np.isfinite(self.errors[order])]
        ]


def with_interval(raw: float, error: float) -> dict[str, float]:
    """Return a share within 0 and 1, the unbiased one, its error, and its interval, not corrected for selection."""
    reach = normal_quantile(0.5 + LEVEL / 2) * error
    share, low, high = (min(max(float(bound), 0.0), 1.0) for bound in (raw, raw - reach, raw + reach))
    return {"share": share, "raw_share": float(raw), "standard_error": float(error), "low": low, "high": high}


def weighted_shares(weights: Sequence[float], estimates: Sequence[Estimate]) -> WeightedShares | None:
    """Return the shares of all devices: the groups' own, each by its public share; None where no device is expected."""
    if not sum(weights):
        return None
    parts = np.array(weights) / sum(weights)
    shares = np.stack([estimate.raw_frequencies for estimate in estimates])
    errors = np.stack([estimate.errors() / estimate.num_reports for estimate in estimates])
    return WeightedShares(estimates[0].values, parts @ shares, np.sqrt(parts**2 @ errors**2))


@dataclass(frozen=True, eq=False)
class GroupedReading(Result):
    """The readings of a metric's groups over a range of periods."""

    name: ClassVar[str] = "groups"
    total: Reading  # of all devices
    parts: Mapping[str, Reading]  # by group, in the registry's order
    hidden: tuple[str, ...]  # groups with too few devices, by public shares
    left_out: int  # reports in none of `parts`: they name no group, or a hidden one
    weighted: WeightedShares | None = field(default=None, repr=False)  # None for a metric without shares

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
        about |= {"hidden": list(self.hidden), "reports_in_no_group_here": self.left_out}
        return {"metric": self.metric.id, **about, "groups": parts, **more, "notes": list(self.all_notes())}

    def as_table(self) -> Table:
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

    def pictures(self) -> list[Picture]:
        return [
            replace(picture, name=f"{picture.name}-{group}", caption=f"{group}, {picture.caption}")
            for group, reading in self.parts.items()
            for picture in reading.pictures()
        ]


SHARES: Final = (
    Column("value", is_left=True),
    Column("share", text=percent),
    Column("interval", f"{LEVEL:.0%} interval", interval(percent), ("low", "high")),
)


def read_groups(
    metric: Metric,
    counts_of: Callable[[str | None], PeriodCounts],
    kind: Aggregation = "total",
    options: EstimateOptions | None = None,
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
        return reading
    present = [(groups.share(name), own) for name, each in parts.items() if (own := _estimate(each)) is not None]
    return replace(reading, weighted=weighted_shares(*map(list, zip(*present, strict=True))) if present else None)


def _estimate(reading: Reading) -> Estimate | None:
    return reading.parts[0].estimate if reading.is_of_shares and reading.parts else None
