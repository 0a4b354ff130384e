"""Where reports are stored: SQLite for one collector, PostgreSQL for several; one schema."""

from overstory.collector.auth import Token
from overstory.collector.ingest.received import Received, Released
from overstory.collector.store.compaction import Compacted
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.databases.database import StoreError
from overstory.collector.store.operations import CollectorState, Note, Refusals, ReleasedReports
from overstory.collector.store.retention import Retained
from overstory.collector.store.store import Store, open_store
from overstory.collector.store.summary import Summary

__all__ = [
    "CollectorState",
    "Compacted",
    "Note",
    "Received",
    "Refusals",
    "Released",
    "ReleasedReports",
    "Retained",
    "Store",
    "StoreError",
    "Summary",
    "Token",
    "open_store",
    "restore",
]
