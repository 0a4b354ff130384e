"""Where reports are stored: SQLite for one collector, PostgreSQL for several; one schema."""

from overstory.collector.ingest.received import Received
from overstory.collector.store.databases.database import StoreError
from overstory.collector.store.store import Store, open_store

__all__ = ["Received", "Store", "StoreError", "open_store"]
