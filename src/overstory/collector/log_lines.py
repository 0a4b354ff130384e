"""The collector's log: one line an event on standard error, with its time and level, as text or as JSON.

Lines are about the collector: starting, reloading, stopping, and what fails. No request is logged.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Final, TextIO

LOG: Final = logging.getLogger("overstory.collector")

FORMATS: Final = ("text", "json")


class _Line(logging.Formatter):
    """Time in UTC, level and message.

    Examples
    --------
    >>> _Line().format(logging.makeLogRecord({"msg": "reloaded", "levelname": "INFO", "created": 0.0}))
    '1970-01-01T00:00:00Z info reloaded'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        said = f"{_time(record)} {record.levelname.lower()} {record.getMessage()}"
        return f"{said}\n{self.formatException(record.exc_info)}" if record.exc_info else said


class _Json(logging.Formatter):
    """The same as one object a line, with the facts of an event as keys of their own.

    Examples
    --------
    >>> facts = {"msg": "reloaded", "levelname": "INFO", "created": 0.0, "facts": {"metrics": 3}}
    >>> record = logging.makeLogRecord(facts)
    >>> _Json().format(record)
    '{"time": "1970-01-01T00:00:00Z", "level": "info", "message": "reloaded", "metrics": 3}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))


def begin_log(form: str, stream: TextIO | None = None) -> None:
    """Write what this process logs, the libraries' warnings included, to standard error.

    Parameters
    ----------
    form
        `text` or `json`.
    stream
        Another stream than standard error.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(_Json() if form == "json" else _Line())
    logging.raiseExceptions = False  # a line that cannot be written, to a full disk, is lost and nothing else
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOG.setLevel(logging.INFO)


def log_event(message: str, **facts: Any) -> None:
    """Log what happened to the collector; `facts` are keys of a JSON line, and part of the message for people."""
    LOG.info(message, extra={"facts": facts})
