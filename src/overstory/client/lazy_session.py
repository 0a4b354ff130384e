"""A client's session: the first record opens it, a failed opening is retried later, and a forgotten state closes it.

At the exit of the program the session is written to the disk. Nothing is sent then; the next run sends it.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from overstory.client.errors import Fault, StateError

if TYPE_CHECKING:
    from overstory.client.consent.policy import PermissionSources
    from overstory.client.outcomes import WarnsOnce
    from overstory.client.session import Session

RETRY: Final = 10.0
"""Seconds until a state that could not be opened is tried again."""


class LazySession:
    """Opens the session of one client when it is first needed.

    Parameters
    ----------
    exit_timeout
        The most seconds that the exit of the program waits for other processes.

    Attributes
    ----------
    session
        The session; None before the first record, and again after the state was forgotten.
    trouble
        The last error; None once an operation has succeeded after it.
    retry_at
        The monotonic time before which a state that could not be opened is not tried again.
    """

    def __init__(
        self, make: Callable[[], Session], sources: PermissionSources, warn: WarnsOnce, exit_timeout: float
    ) -> None:
        self._make, self._sources = make, sources
        self._warn, self._exit_timeout = warn, exit_timeout
        self._opening = threading.Lock()
        self.session: Session | None = None
        self.last_error: StateError | None = None
        self.retry_at = 0.0

    @property
    def pending(self) -> int:
        """How many reports are in memory alone."""
        return 0 if self.session is None else self.session.pending

    @property
    def dues(self) -> list[float]:
        """When each report that is in memory alone, and is to be sent, is due."""
        return [] if self.session is None else self.session.dues

    def opened(self) -> Session:
        """Return the session; open it first if needed."""
        session = self.session
        if session is not None:
            return session
        with self._opening:
            if self.session is None:
                if self.last_error is not None and time.monotonic() < self.retry_at:
                    raise self.last_error
                self.session = self._make_session()
            return self.session

    def _make_session(self) -> Session:
        try:
            session = self._make()
        except StateError:
            self.retry_at = time.monotonic() + RETRY
            raise
        self.last_error = None
        self.unregister()
        atexit.register(self.at_exit)
        return session

    def persist(self, timeout: float) -> Mapping[str, int]:
        """Write what is in memory; return how many reports had which result."""
        session = self.session
        if session is None:
            return {}
        try:
            written = session.flush(self._sources, timeout)
        except StateError as error:
            if error.fault in {Fault.CHANGED, Fault.LOST}:
                # The state was forgotten, and with it what its secret made. The next record opens the new one.
                self.session = None
            raise
        self.last_error = None
        return written

    def at_exit(self) -> None:
        """Write what is in memory; never raises."""
        try:
            self.persist(self._exit_timeout)
        except Exception as error:  # noqa: BLE001 - the program is ending
            self._warn("exit", "what was not flushed is lost: %s", type(error).__name__)

    def unregister(self) -> None:
        """Stop writing at the exit of the program."""
        atexit.unregister(self.at_exit)

    def after_fork(self) -> None:
        """Continue in a child, which has no other threads and none of the parent's reports."""
        self._opening = threading.Lock()
        if self.session is not None:
            self.session.after_fork()
