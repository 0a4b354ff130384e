"""One line a minute for the same fault, with how often it occurred since: a store that is away fails each request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from overstory.protocol.errors import OverstoryError

SECONDS: Final = 60.0


class SparseLog:
    """Logs errors; safe to use from several threads, where a line too many or too few does no harm.

    Parameters
    ----------
    log
        Where lines go.
    clock
        Seconds of a clock that never jumps.

    Examples
    --------
    >>> now = 0.0
    >>> log = logging.getLogger("overstory.example")
    >>> log.addHandler(logging.NullHandler())
    >>> sparse = SparseLog(log, lambda: now)
    >>> [sparse.error("the store took nothing", OSError("disk")) for _ in range(3)]
    [True, False, False]
    >>> now = 61.0
    >>> sparse.error("the store took nothing", OSError("disk"))
    True
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._since: dict[tuple[str, type[BaseException]], tuple[float, int]] = {}

    def error(self, what: str, error: BaseException, *, trace: bool = False) -> bool:
        """Log an error unless one of its kind was logged within the last minute; say whether it was logged.

        Parameters
        ----------
        what
            What failed; with the error's type it says which faults are the same.
        error
            The error.
        trace
            Whether the line has a traceback: the error is a fault of the program.
        """
        return self.line(what, type(error), f"{what}: {self.words(error)}", error if trace else None)

    @staticmethod
    def words(error: BaseException) -> str:
        """Return an error as one sentence: ours are one; any other needs its type."""
        return str(error) if isinstance(error, OverstoryError) else f"{type(error).__name__}: {error}"

    def line(self, what: str, kind: type[BaseException], said: str, trace: BaseException | None = None) -> bool:
        """Log a line unless one of its kind was logged within the last minute; say whether it was logged."""
        now = self._clock()
        last, unsaid = self._since.get((what, kind), (now - SECONDS, 0))
        if now - last < SECONDS:
            self._since[what, kind] = last, unsaid + 1
            return False
        self._since[what, kind] = now, 0
        times = f" ({unsaid:,} more times since it was last logged)" if unsaid else ""
        with suppress(Exception):  # a line that cannot be written must not end what goes on
            self._log.error("%s%s", said, times, exc_info=trace)
        return True
