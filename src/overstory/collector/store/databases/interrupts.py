"""Long statements of SQLite end when the process is interrupted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STEPS: Final = 100_000
"""Steps of SQLite's virtual machine, some milliseconds, between two looks for a signal."""


@contextmanager
def interruptible(raw: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Let signals end a statement: Python handles them only between its own instructions, of which there is none."""
    raw.set_progress_handler(lambda: 0, STEPS)  # a handler of signals that raises ends the statement
    try:
        yield raw
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:  # SQLite has lost what was raised
            raise KeyboardInterrupt from error
        raise
    finally:
        raw.set_progress_handler(None, 0)
