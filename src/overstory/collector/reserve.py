"""Memory that is kept for the time when there is no more.

An event loop that finds no memory cannot be helped: uvloop then loses its listener, stops, or crashes the process. So
some address space is held that nobody uses, which takes no memory of the machine. It is given back as soon as little is
left, and until there is more no reports are taken: what it frees is for refusals, and for what is under way.
"""

from __future__ import annotations

import mmap
from typing import Final

from overstory.collector.limits import MEBIBYTE

HELD: Final = 64 * MEBIBYTE
"""Address space that is held."""

MARGIN: Final = 16 * MEBIBYTE
"""With less than this beside it, memory is short."""


class Reserve:
    """Held address space; `look` is called by one thread, several times a second.

    Attributes
    ----------
    short
        Whether it is given back: no work should be begun that can wait.

    Examples
    --------
    >>> reserve = Reserve()
    >>> reserve.look()
    >>> reserve.short
    False
    """

    def __init__(self) -> None:
        self.short = False
        self._held: mmap.mmap | None = None

    def look(self) -> None:
        """Give the reserve back where little else is left; take it again where both are there."""
        try:
            if self._held is None:
                mmap.mmap(-1, HELD + MARGIN).close()
                self._held = mmap.mmap(-1, HELD)
            else:
                mmap.mmap(-1, MARGIN).close()
        except (OSError, MemoryError):
            held, self._held = self._held, None
            if held is not None:
                held.close()
            self.short = True
        else:
            self.short = False
