"""Accept batches: each id once, everything of a call in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from sqlalchemy import Connection

from overstory.collector.store.database import Database
from overstory.collector.store.received import Received, merged
from overstory.collector.store.schema import INBOX


def add(database: Database, received: Sequence[Received]) -> list[bool]:
    """Store what is new of `received`; see `Store.add`."""
    from overstory.protocol.metrics.period import DAY

    if not received:
        return []
    # To the end of a day: the exact second would be that of a metric's period, which an id is not to be known by.
    forget_after = {one.batch: -(-one.forget_after // DAY) * DAY for one in received}
    first = {received[place].batch: place for place in reversed(range(len(received)))}

    def work(connection: Connection) -> list[bool]:
        claimed = database.claim(connection, forget_after)
        new = [first[one.batch] == place and one.batch in claimed for place, one in enumerate(received)]
        rows = merged(compress(received, new))
        if rows:
            connection.execute(INBOX.insert(), rows)
        return new

    return database.write(work)
