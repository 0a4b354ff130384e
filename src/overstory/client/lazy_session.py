"""A client's session: opened by the first record, tried again after a while, let go when the state was forgotten.

As the program ends it is written down: nothing is sent then, the next run does.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from overstory.client.errors import Fault, StateError

if TYPE_CHECKING:
    from overstory.client.consent.policy import Authority
    from overstory.client.outcomes import WarnsOnce
    from overstory.client.session import Session

RETRY: Final = 10.0
"""Seconds until a state that could not be opened is tried again."""


class LateSession:
    """The session of one client, where there is one.

    Parameters
    ----------
    exit_timeout
        For how many seconds at most that end waits for other processes.

    Attributes
    ----------
    session
        The session; None before the first record, and again after the state was forgotten.
    trouble
        What went wrong last; None since something last went well.
    retry_at
        The monotonic time before which a state that could not be opened is not tried again.
    """

    def __init__(self, make: Callable[[], Session], authority: Authority, warn: WarnsOnce, exit_timeout: float) -> None:
        self._make, self._authority = make, authority
        self._warn, self._exit_timeout = warn, exit_timeout
        self._opening = threading.Lock()
        self.session: Session | None = None
        self.trouble: StateError | None = None
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
        """Return the session, opened if need be."""
        session = self.session
        if session is not None:
            return session
        with self._opening:
            if self.session is None:
                if self.trouble is not None and time.monotonic() < self.retry_at:
                    raise self.trouble
                self.session = self._made()
            return self.session

    def _made(self) -> Session:
        try:
            session = self._make()
        except StateError:
            self.retry_at = time.monotonic() + RETRY
            raise
        self.trouble = None
        self.unregister()
        atexit.register(self.at_exit)
        return session

    def persist(self, timeout: float) -> Mapping[str, int]:
        """Write what is in memory; return what became of it, by word."""
        session = self.session
        if session is None:
            return {}
        try:
            written = session.flush(self._authority, timeout)
        except StateError as error:
            if error.fault in {Fault.CHANGED, Fault.LOST}:
                # The state was forgotten: so is what was made with its secret. The next record opens what is there.
                self.session = None
            raise
        self.trouble = None
        return written

    def at_exit(self) -> None:
        """Write what is in memory; never raises."""
        try:
            self.persist(self._exit_timeout)
        except Exception as error:  # noqa: BLE001 - the program is ending
            self._warn("exit", "what was not flushed is lost: %s", type(error).__name__)

    def unregister(self) -> None:
        """Write nothing as the program ends."""
        atexit.unregister(self.at_exit)

    def after_fork(self) -> None:
        """Go on in a child, where no other thread is and nothing of the parent's waits."""
        self._opening = threading.Lock()
        if self.session is not None:
            self.session.after_fork()
