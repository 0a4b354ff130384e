"""Settings of a collector: bounds on what it takes, and how often it does its upkeep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from overstory.supervision.listening import ConnectionLimits

MEBIBYTE: Final = 1 << 20

DAY: Final = 86_400
"""Seconds of a day; days are counted from 1970. A store is looked at without loading `protocol.metrics`."""


@dataclass(frozen=True, slots=True)
class Limits(ConnectionLimits):
    """Upper bounds. A request beyond one of them is refused with a reason, and nothing of it is stored."""

    body_bytes: int = 8 * MEBIBYTE  # the body of a request
    # A body in JSON: it takes far longer to read, and about twenty times its size in memory.
    json_bytes: int = MEBIBYTE
    uploads: int = 1_000  # per request
    reports: int = 100_000  # per request
    queue_reports: int = 1_000_000  # everything that waits for its commit, what is being committed included
    queue_bytes: int = 128 * MEBIBYTE  # of the same
    # All bodies together that are being received, or wait to be parsed.
    reading_bytes: int = 128 * MEBIBYTE
    commit_seconds: float = 30.0  # until a commit has ended


@dataclass(frozen=True, slots=True)
class UpkeepIntervals:
    """Seconds between two runs of each task of the upkeep; 0: never."""

    tokens: float = 2.0  # read the tokens again: a revoked one works for no longer than this
    compact: float = 10.0  # look which reports should be counted and shuffled
    within: float = 300.0  # reports are counted and shuffled after this time, however few they are
    retain: float = 3600.0  # delete reports past their metric's retention
    checkpoint: float = 1.0  # do what a writer to the store would otherwise have to do
    state: float = 5.0  # store what was refused, and every 15 seconds a heartbeat
