"""How fast new ids are stored beside those that are remembered: `python bench/speed_ids.py [--ids 20000000]`.

Two stores in files remember as many ids: one has them all in the table of one day, the other has a table for each day
of a grace of thirty. Both then take the same commits of new ids of the last day, by turns. Last, both forget: the first
all of its ids, the second those of its oldest day.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from overstory.collector.settings import DAY
from overstory.collector.store import open_store
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.databases.database import Database, IdsOfDay
from overstory.protocol.wire.upload import ID_BYTES

COMMIT = 2_000
FILLED = 500_000
GRACE = 30
LAST = 20_000
"""The last day, counted from 1970."""


def filled(path: Path, ids: int, days: int) -> Database:
    """Return the database of a store that remembers ids of the last so many days."""
    open_store(str(path), create=True).close()
    database = connect(str(path))
    for day in range(LAST - days + 1, LAST + 1):
        for start in range(0, ids // days, FILLED):
            insert(database, day, [os.urandom(ID_BYTES) for _ in range(min(FILLED, ids // days - start))])
        database.checkpoint()
    return database


def insert(database: Database, day: int, ids: list[bytes]) -> None:
    """Insert ids in one transaction."""
    by_day = {day: IdsOfDay((day + GRACE) * DAY, ids)}
    new = database.write(lambda connection: database.insert_ids(connection, by_day))
    assert len(new[day]) == len(ids)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that something took, and the seconds of a processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, default=2_000_000, help="remembered ids (default: 2000000)")
    parser.add_argument("--commits", type=int, default=100, help="commits of new ids (default: 100)")
    parser.add_argument("--folder", type=Path, help="where the stores are made (default: a temporary folder)")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {os.getloadavg()[0]:.1f} processes running before this")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        stores = {
            "one table": (filled(Path(folder, "one.db"), args.ids, 1), LAST),
            f"{GRACE + 1} tables": (filled(Path(folder, "days.db"), args.ids, GRACE + 1), LAST - GRACE),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in stores}
        for _ in range(args.commits):
            ids = [os.urandom(ID_BYTES) for _ in range(COMMIT)]
            for name, (database, _) in stores.items():
                times[name].append(timed(lambda: insert(database, LAST, ids)))  # noqa: B023 - run at once
        for name, (database, oldest) in stores.items():
            wall, processor = (statistics.median(column) for column in zip(*times[name], strict=True))
            print(
                f"{args.ids:,} ids in {name}: {COMMIT / wall:9,.0f} new ids/s, "
                f"{processor / COMMIT * 1e6:5.1f} microseconds of a processor for each"
            )
            database.checkpoint()
            count = 0

            def forget() -> None:
                nonlocal count
                count = database.drop_ids(oldest, (LAST + GRACE) * DAY)  # noqa: B023 - run at once

            wall, _ = timed(forget)
            print(f"{count:,} ids dropped in {wall:.2f} s")
            database.close()


if __name__ == "__main__":
    main()
