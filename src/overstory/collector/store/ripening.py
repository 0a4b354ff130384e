"""Which parts of the inbox are worth folding: each folding writes a whole chunk again.

A trickle of reports over many metrics, folded every few seconds, would write a hundred thousand bytes for each byte.
Reports of a key are folded when they are a share of the chunk that they are shuffled into, or have waited for minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection, func, select

from overstory.collector.store.columns import Key, full_chunk
from overstory.collector.store.schema import CHUNKS, INBOX

SHARE: Final = 4
"""Reports that wait are folded when there are a fourth as many as in the chunk that is written again."""


class Ripening:
    """Remembers since when each key has had reports in the inbox: the store itself keeps no times.

    Parameters
    ----------
    clock
        Seconds of a clock that never jumps.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Key, float] = {}

    def ripe(self, connection: Connection, keys: Sequence[Key], seconds: float) -> list[Key]:
        """Return those of the waiting `keys` whose reports are many, or have waited for that many seconds."""
        if not seconds:
            return list(keys)
        now = self._clock()
        self._since = {key: self._since.get(key, now) for key in keys}
        ripe = [key for key in keys if now - self._since[key] >= seconds or _many(connection, key)]
        for key in ripe:
            del self._since[key]
        return ripe


def _many(connection: Connection, key: Key) -> bool:
    """Whether as many reports of the key wait as are worth writing its open chunk again."""
    waiting = connection.execute(select(func.sum(INBOX.c.num_reports)).where(key.of(INBOX))).scalar() or 0
    sizes = select(CHUNKS.c.num_bits, CHUNKS.c.num_cohorts, CHUNKS.c.num_reports).where(key.of(CHUNKS))
    rows = connection.execute(sizes)
    again = sum(reports for bits, cohorts, reports in rows if reports < full_chunk(bits, cohorts))
    return bool(int(waiting) * SHARE >= again)
