"""A daemon's log on standard error: starts, reloads, stops and failures, a repeated one once a minute, no request."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

from overstory.protocol.errors import OverstoryError


class _Line(logging.Formatter):
    """Time in UTC, level and message."""

    def format(self, record: logging.LogRecord) -> str:
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line = f"{created} {record.levelname.lower()} {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def begin_log(log: logging.Logger, stream: TextIO | None = None) -> None:
    """Write what this process logs, of the daemon's own log also information, to standard error."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(_Line())
    logging.raiseExceptions = False  # a line that cannot be written, to a full disk, is lost and nothing else
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)


SECONDS: Final = 60.0


class SparseLog:
    """Logs errors; safe to use from several threads, where a line too many or too few does no harm."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._since: dict[tuple[str, type[BaseException]], tuple[float, int]] = {}

    def error(self, what: str, error: BaseException, *, trace: bool = False) -> bool:
        """Log an error unless one of its kind was logged within the last minute; return whether it was logged."""
        return self.line(what, type(error), f"{what}: {self.sentence(error)}", error if trace else None)

    @staticmethod
    def sentence(error: BaseException) -> str:
        """Return an error as a sentence: an `OverstoryError` is one; any other error needs its type."""
        return str(error) if isinstance(error, OverstoryError) else f"{type(error).__name__}: {error}"

    def line(self, what: str, kind: type[BaseException], message: str, trace: BaseException | None = None) -> bool:
        """Log a line unless one of its kind was logged within the last minute; return whether it was logged."""
        now = self._clock()
        last, repeats = self._since.get((what, kind), (now - SECONDS, 0))
        if now - last < SECONDS:
            self._since[what, kind] = last, repeats + 1
            return False
        self._since[what, kind] = now, 0
        times = f" ({repeats:,} more times since it was last logged)" if repeats else ""
        with suppress(Exception):  # a line that cannot be written must not stop the work
            self._log.error("%s%s", message, times, exc_info=trace)
        return True


def send_server_errors(errors: SparseLog) -> None:
    """Let errors of uvicorn and its loop go to `errors` alone: a sender can cause many of them in a second."""

    def is_other(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else None
            errors.line(str(record.msg), type(error or Exception()), record.getMessage().strip(), error)
        return record.levelno < logging.ERROR

    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).filters[:] = [is_other]
