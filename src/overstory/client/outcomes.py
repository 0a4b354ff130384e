"""What the client answers and warns of, instead of raising; and what can be wrong with a state, as an error."""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from overstory.protocol.errors import OverstoryError


class Fault(StrEnum):
    """Why the state cannot be used."""

    BUSY = "busy"  # another process held it for too long
    FULL = "full"  # the disk, or a limit on the size of files, leaves no room
    READ_ONLY = "read-only"  # the folder or the file cannot be written
    UNREADABLE = "unreadable"  # it cannot be opened: no permission, or no folder where one should be
    DAMAGED = "damaged"  # it is not what was written
    LOST = "lost"  # A file is missing that was there before
    ALTERED = "altered"  # the secret is not the one that the reports so far were made with
    CHANGED = "changed"  # another process has forgotten the state, and perhaps begun a new one, since this one read it
    OTHER_VERSION = "other-version"  # another version of Overstory wrote it
    ELSEWHERE = "elsewhere"  # it was begun on another machine
    FOREIGN = "foreign"  # it is another user's, or open to others


class StateError(OverstoryError):
    """The device's state cannot be used; nothing is reported until it can, and no fresh secret is made.

    Parameters
    ----------
    fault
        Why the state cannot be used, as a stable code.
    problem
        What is wrong, where, and what to do.

    Examples
    --------
    >>> StateError(Fault.BUSY, "another process holds the state").fault
    <Fault.BUSY: 'busy'>
    """

    def __init__(self, fault: Fault, problem: str) -> None:
        self.fault = fault
        super().__init__(problem)


def of_other_version(file: str, version: int, mine: int) -> StateError:
    """Return the error of a file that another version of Overstory wrote."""
    return StateError(
        Fault.OTHER_VERSION,
        f"{file} has version {version}, and this version of Overstory reads {mine} alone: use the one that "
        "wrote it, or forget the state",
    )


class ConsentError(OverstoryError):
    """The file of the person's choice cannot be read: nothing is recorded until a choice is made again."""


class Outcome(StrEnum):
    """What `Client.record` did."""

    RECORDED = "recorded"  # the report is in memory; it is durable after the next flush
    # this period has its report, from here or from another process; or the metric takes a number of answers from a
    # device, and has them
    ALREADY = "already"
    # the metric has a panel, which asks some devices now and others later, and this device is one of the others
    UNASKED = "unasked"
    # one distinct value too many, and the metric's rule is to drop it: a report of nothing is in memory
    CAPPED = "capped"
    SPENT = "spent"  # the person's budget is used up: this report would exceed it
    OFF = "off"  # something forbids it; `status` shows what
    NOT_ASKED = "not-asked"  # the person has not been asked, or not about this metric as it is now
    UNKNOWN = "unknown-metric"  # the registry lists no such metric
    # the value is outside the metric's domain: a report of nothing is in memory, or of the first response, where the
    # cap leaves nothing no place
    UNFIT = "unfit"
    EXPIRED = "expired"  # the metric has expired
    PAST = "past"  # the clock shows a time so long ago that the state no longer records whether it had its report
    UNAVAILABLE = "unavailable"  # the state cannot be used; `status` shows why
    CLOSED = "closed"  # the client was closed


MADE: Final = frozenset({Outcome.RECORDED, Outcome.CAPPED, Outcome.UNFIT})
"""Where there is a report, of the value or of nothing: the period has had its report."""


@dataclass(frozen=True)
class Round:
    """The result of a round of sending."""

    sent: int = 0  # reports that the collector has accepted
    dropped: Mapping[str, int] = field(default_factory=dict)  # reports given up, by reason
    put_off: int = 0  # reports that were tried and wait again
    error: str = ""  # what went wrong last; empty when nothing did

    def plus(self, later: Round) -> Round:
        """Return the sum with a later round; what went wrong before is over when that one sent something."""
        dropped = dict(Counter(self.dropped) + Counter(later.dropped))
        error = later.error or ("" if later.sent else self.error)
        return Round(self.sent + later.sent, dropped, self.put_off + later.put_off, error)


@dataclass(frozen=True)
class Flushed:
    """What `Client.flush` did."""

    # what became of the reports that were in memory: how many were "queued", "kept" for the person alone, "already"
    # reported on by another process, "withdrawn" because consent was, or "spent" where the budget is
    written: Mapping[str, int] = field(default_factory=dict)
    # what the round of sending did; None when nothing was to be sent, or nobody to send it to
    sent: Round | None = None
    problem: str | None = None  # what went wrong; None when nothing did


MOST_WARNINGS: Final = 100

_log: Final = logging.getLogger("overstory.client")
_log.addHandler(logging.NullHandler())  # a program that sets up no logging is not written to


class WarnsOnce:
    """Warns once about each thing, up to a limit; in development mode also through `warnings`."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def __call__(self, about: str, message: str, *details: object) -> None:
        if about not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(about)
            _log.warning(message, *details)
            if sys.flags.dev_mode:
                with suppress(UserWarning):  # where warnings are errors: only a strict client raises
                    warnings.warn(message % details, stacklevel=_frames_of_ours())


def _frames_of_ours() -> int:
    """Return how many frames are between a warning and the program's own call."""
    import inspect

    frame, count = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("overstory."):
        frame, count = frame.f_back, count + 1
    return count
