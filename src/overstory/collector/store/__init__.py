"""Where reports are kept: SQLite for one collector, PostgreSQL for several; one schema."""

from overstory.collector.store.backup import restore
from overstory.collector.store.compaction import Compacted
from overstory.collector.store.database import StoreError
from overstory.collector.store.inbox import Received
from overstory.collector.store.metrics import Summary
from overstory.collector.store.retention import Retained
from overstory.collector.store.store import Store, open_store
from overstory.collector.store.tokens import Token

__all__ = [
    "Compacted",
    "Received",
    "Retained",
    "Store",
    "StoreError",
    "Summary",
    "Token",
    "open_store",
    "restore",
]
