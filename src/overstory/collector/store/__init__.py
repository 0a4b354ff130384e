"""Where reports are kept: SQLite for one collector, PostgreSQL for several; one schema."""

from overstory.collector.store.errors import StoreError
from overstory.collector.store.received import Received
from overstory.collector.store.store import Store, open_store

__all__ = ["Received", "Store", "StoreError", "open_store"]
