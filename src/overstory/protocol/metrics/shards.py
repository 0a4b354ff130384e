"""A registry's table [shards]: over how many collectors uploads are divided, by their batch ids.

A retry must reach the store that has the upload's batch id: that store alone can know that it was counted. So the
number of shards is fixed for a period, and another number holds from a day on: an upload goes by the number that is in
force on the first day of its period (UTC), whenever it is sent.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.metrics.period import DAY
from overstory.protocol.metrics.toml_fields import Fields

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric

KEYS: Final = ("count", "from")
MOST: Final = 4096
"""Shards; a shard is chosen by 16 bits of the batch id, so with many more some would get noticeably more uploads."""
TABLE: Final = "a table such as {count = 16}"
FROM: Final = "a table of days and numbers, such as {2027-03-01 = 16}"

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


def shard_of(batch: bytes, count: int) -> int:
    """Return the shard of a batch id, of `count`: its first two bytes, big-endian, modulo the count.

    >>> [shard_of(bytes.fromhex(first) + bytes(14), 16) for first in ("0000", "000f", "0110", "ffff")]
    [0, 15, 0, 15]
    """
    return (batch[0] << 8 | batch[1]) % count


@dataclass(frozen=True)
class Shards:
    """How many shards there are, and from which day on."""

    # (first day since 1970, number), ascending; the first number holds before its day, too
    counts: tuple[tuple[int, int], ...]

    @property
    def most(self) -> int:
        """The largest number of shards that is ever in force: shards are 0 .. most - 1."""
        return max(count for _, count in self.counts)

    def count_on(self, day: int) -> int:
        """Return the number of shards in force on a day, counted from 1970.

        >>> shards = Shards(((0, 4), (20_000, 16)))
        >>> shards.count_on(19_999), shards.count_on(20_000)
        (4, 16)
        """
        return self.counts[max(bisect_right(self.counts, (day, MOST + 1)) - 1, 0)][1]

    def count_of(self, metric: Metric, period: int) -> int:
        """Return the number of shards that uploads of a period are divided over."""
        if len(self.counts) == 1:
            return self.counts[0][1]
        return self.count_on(metric.period.start(period) // DAY)

    def of(self, metric: Metric, period: int, batch: bytes) -> int:
        return shard_of(batch, self.count_of(metric, period))

    def suffix(self, metric: Metric, period: int, batch: bytes) -> str:
        """Return what the path of an upload has after /v1/reports: nothing where there is one shard."""
        count = self.count_of(metric, period)
        return "" if count == 1 else f"/{shard_of(batch, count)}"

    def change_days(self) -> Iterator[tuple[str, int]]:
        """Yield each day from which another number holds, in ISO 8601, with the number."""
        for day, count in self.counts[1:]:
            yield dt.date.fromordinal(day + _EPOCH).isoformat(), count

    def first_difference(self, other: Shards | None) -> int | None:
        """Return the first day, counted from 1970, on which another registry divides otherwise; None: on none.

        A registry without shards has one collector.

        >>> Shards(((0, 4), (20_000, 16))).first_difference(Shards(((0, 4), (20_100, 16))))
        20000
        """
        theirs = other or Shards(((0, 1),))
        days = sorted({day for day, _ in (*self.counts, *theirs.counts)})
        return next((day for day in days if self.count_on(day) != theirs.count_on(day)), None)

    def __str__(self) -> str:
        changes = "".join(f", {count} from {day} on" for day, count in self.change_days())
        return f"{self.counts[0][1]}{changes}"

    def to_json(self) -> dict[str, Any]:
        changes = dict(self.change_days())
        return {"count": self.counts[0][1]} | ({"from": changes} if changes else {})

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Shards:
        """Return what `to_json` wrote.

        >>> Shards.from_json({"count": 4, "from": {"2027-03-01": 16}})
        Shards(counts=((0, 4), (20878, 16)))
        """
        changes = [(_day(dt.date.fromisoformat(day)), int(count)) for day, count in read.get("from", {}).items()]
        return cls(((0, int(read["count"])), *sorted(changes)))


def read_shards(root: Fields, metrics: Mapping[str, Metric]) -> Shards | None:
    """Return a registry's shards, or None where it has none or a fault, which is noted."""
    if "shards" not in root.table:
        return None
    table, before = root.subtable("shards", TABLE), len(root.faults)
    if table is None:
        return None
    table.unknown(KEYS)
    if table.required("count", "the number of collectors that uploads are divided over, such as 16") is None:
        return None
    count, changes = table.whole("count", 1, MOST), dict(_changes(table))
    for name in [name for name, metric in metrics.items() if metric.is_oblivious]:
        table.fault(
            None,
            f"reports of {name} come sealed, and no relay can see to which shard they belong: give oblivious metrics a "
            "registry and a collector of their own",
        )
    if count is None or len(root.faults) > before:
        return None
    return Shards(((0, count), *sorted(changes.items())))


def _changes(table: Fields) -> Iterator[tuple[int, int]]:
    """Yield each day from which another number holds, counted from 1970, with the number; note every fault."""
    if "from" not in table.table:
        return
    inner = table.subtable("from", FROM)
    if inner is None:
        return
    for key in inner.table:
        count = inner.whole(key, 1, MOST)
        try:
            day = dt.date.fromisoformat(key)
        except ValueError:
            inner.fault(key, f"{key!r:.100} is no day: give one such as 2027-03-01")
            continue
        if day.isoformat() != key or _day(day) <= 0:
            inner.fault(key, f"{key!r:.100} is no day: give one such as 2027-03-01")
        elif count is not None:
            yield _day(day), count


def _day(day: dt.date) -> int:
    return day.toordinal() - _EPOCH
