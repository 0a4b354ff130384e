"""Fresh databases for the store's tests: a SQLite file, or a database of a real PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from support.postgres_server import drop_database, fresh_database, start

KINDS = ("sqlite", "postgresql")


@cache
def server(folder: Path) -> Any:
    """Start the PostgreSQL of a folder, or join it."""
    return start(folder)


@contextmanager
def fresh(kind: str, folder: Path) -> Iterator[str]:
    """Give the URL of an empty database.

    Parameters
    ----------
    kind
        One of KINDS.
    folder
        The folder of the server; see `server`.
    """
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own:
            yield f"sqlite:///{own}/store.db"
        return
    running = server(folder)
    url = fresh_database(running)
    try:
        yield url
    finally:
        drop_database(running, url)
