"""What can be wrong with a device's state, as one error with a stable code."""

from __future__ import annotations

from enum import StrEnum

from overstory.protocol.errors import OverstoryError


class Fault(StrEnum):
    """Why the state cannot be used.

    Attributes
    ----------
    BUSY
        Another process held it for too long.
    FULL
        The disk, or a limit on the size of files, leaves no room.
    READ_ONLY
        The folder or the file cannot be written.
    UNREADABLE
        It cannot be opened: no permission, or no folder where one should be.
    DAMAGED
        It is not what was written.
    LOST
        A file is missing that was there before.
    ALTERED
        The secret is not the one that the reports so far were made with.
    CHANGED
        Another process has forgotten the state, and perhaps begun a new one, since this one read it.
    NEWER
        A later version of Overstory wrote it.
    ELSEWHERE
        It was begun on another machine.
    FOREIGN
        It is another user's, or open to others.
    """

    BUSY = "busy"
    FULL = "full"
    READ_ONLY = "read-only"
    UNREADABLE = "unreadable"
    DAMAGED = "damaged"
    LOST = "lost"
    ALTERED = "altered"
    CHANGED = "changed"
    NEWER = "newer"
    ELSEWHERE = "elsewhere"
    FOREIGN = "foreign"


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


class ConsentError(OverstoryError):
    """The file of the person's choice cannot be read: nothing is recorded until a choice is made again."""
