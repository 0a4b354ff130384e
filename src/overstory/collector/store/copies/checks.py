"""What became of exports: whether a destination is what the database states, and which copies outlive retention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overstory.collector.store.copies import export_rows as rows
from overstory.collector.store.databases.database import Database
from overstory.collector.store.metrics import read_stored_metrics
from overstory.protocol.errors import OverstoryError

if TYPE_CHECKING:
    from overstory.engines.folders import Folder
    from overstory.protocol.metrics import MetricRegistry


def verify(database: Database, folder: Folder) -> tuple[int, list[str]]:
    """Compare a destination with the database: return the number of its sets, and what is wrong."""
    from overstory.engines.exported import ExportedSet
    from overstory.engines.folders import Folder as Below
    from overstory.files.manifests import Manifest, manifest_name, partition_path

    wrong: list[str] = []
    with database.snapshot() as connection:
        stated = rows.rows_of(connection, folder.identity)
    for row in stated:
        partition = partition_path(row.metric, row.period, bytes(row.digest))
        name = f"{partition}/{manifest_name(row.id)}"
        if row.state != rows.PUBLISHED:
            wrong.append(f"{name}: an export was killed before it was written: export again")
            continue
        try:
            if folder.size(name) is None:
                wrong.append(f"{name}: missing")
                continue
            if folder.read(name).decode(errors="replace") != row.manifest:
                wrong.append(f"{name}: not what was exported")
            one = ExportedSet(Below(folder.address(partition)), Manifest.from_json(row.manifest, name))
            for part in one.manifest.parts:
                one.check(part, content=True)
        except OverstoryError as error:
            wrong.append(str(error))
    return len(stated), wrong


@dataclass(frozen=True)
class OutsideRetention:
    """Exported reports that the store itself has deleted, or is about to: nothing deletes their copies."""

    destination: str
    metric: str
    last: str
    reports: int


def outside_retention(database: Database, now: float) -> list[OutsideRetention]:
    """Return which exported reports are past their metric's retention, by destination and metric."""
    with database.snapshot() as connection:
        entries, stated = read_stored_metrics(connection), rows.rows_of(connection)
    by_metric: dict[tuple[str, str], tuple[int, int]] = {}
    of_metric = {entry.metric: entry for entry in entries.values()}
    for row in stated:
        entry = of_metric.get(row.metric)
        if entry is None or row.state == rows.WRITING or row.period > entry.last_expired(now):
            continue
        last, reports = by_metric.get((row.destination, row.metric), (row.period, 0))
        by_metric[row.destination, row.metric] = max(last, row.period), reports + row.num_reports
    return [
        OutsideRetention(destination, metric, of_metric[metric].period.label(last), reports)
        for (destination, metric), (last, reports) in sorted(by_metric.items())
    ]


def retained_too_briefly(registry: MetricRegistry) -> list[str]:
    """Return the metrics whose reports are deleted before their period is closed: none can be exported."""
    return [metric.id for metric in registry.values() if metric.retention_days <= metric.grace_days]
