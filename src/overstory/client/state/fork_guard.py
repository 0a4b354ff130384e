"""Forks: none happens while a transaction is under way, and a child starts without its parent's queue.

SQLite's locks and journals belong to a process. A child that inherited an open transaction would share them with its
parent, so a fork waits for the transaction to end; should it not end, the child never touches a database at all.
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
"""For how many seconds a fork waits for a transaction that is under way."""


class Forked(Protocol):
    """What has to know that it is in a child now."""

    def after_fork(self) -> None:
        """Start anew: what was queued is the parent's, and no other thread is here."""
        ...


class _Gate:
    """Held during every transaction of this process, and during every fork."""

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
    """Tell `watcher` when it is in a child."""
    _gate.watching.add(watcher)


@contextmanager
def no_fork() -> Iterator[None]:
    """Let no fork happen in this block."""
    if _gate.broken:
        raise StateError(Fault.BUSY, "this process was forked in the middle of a transaction: it records nothing")
    with _gate.lock:
        yield
