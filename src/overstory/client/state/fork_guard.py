"""Keeps forks and transactions apart, and empties a child's copy of its parent's queue.

SQLite's locks and journals belong to a process. A child that inherited an open transaction would share them with its
parent. So a fork waits until the transaction ends; if it does not end in time, the child never opens a database.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from overstory.client.errors import Fault, StateError

PATIENCE: Final = 5.0
"""Seconds for which a fork waits for a transaction to end."""


class Forked(Protocol):
    """An object that is informed when it is in a child."""

    def after_fork(self) -> None:
        """Reset: queued reports are the parent's, and no other thread exists here."""
        ...


class _Gate:
    """A lock that is held during every transaction of this process and during every fork."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.held = False
        self.broken = False
        self.watching: weakref.WeakSet[Forked] = weakref.WeakSet()

    def before(self) -> None:
        self.held = self.lock.acquire(timeout=PATIENCE)

    def in_parent(self) -> None:
        if self.held:
            self.lock.release()

    def in_child(self) -> None:
        self.broken = self.broken or not self.held
        self.lock = threading.RLock()
        for watcher in list(self.watching):
            watcher.after_fork()


_gate: Final = _Gate()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_gate.before, after_in_parent=_gate.in_parent, after_in_child=_gate.in_child)


def watch(watcher: Forked) -> None:
    """Call `watcher.after_fork` in every child."""
    _gate.watching.add(watcher)


@contextmanager
def fork_guard() -> Iterator[None]:
    """Delay forks until the end of this block."""
    if _gate.broken:
        raise StateError(Fault.BUSY, "this process was forked in the middle of a transaction: it records nothing")
    with _gate.lock:
        yield
