"""One store, or the stores of several shards, opened as a command's `--store` options name them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from overstory.collector.store import Store, open_store
from overstory.queries.sources.stores import SeveralStores

MOST_SHOWN: Final = 20


@contextmanager
def open_stores(urls: Sequence[str]) -> Iterator[Store | SeveralStores]:
    """Open the store that is named, or all that are, as one; warn where shards are missing."""
    with ExitStack() as opened:
        stores = [opened.enter_context(open_store(url)) for url in urls]
        if len(stores) > 1 or stores[0].served_shard() is not None:
            several = SeveralStores(stores)
            if several.missing:
                missing = several.missing
                shown = ", ".join(map(str, missing[:MOST_SHOWN])) + (", ..." if len(missing) > MOST_SHOWN else "")
                which = f"shard {shown}" if len(missing) == 1 else f"{len(missing)} shards ({shown})"
                warning = f"no store of {which} is given: the reports there are not counted"
                print(f"overstory: warning: {warning}", file=sys.stderr)
            yield several if len(stores) > 1 else stores[0]
        else:
            yield stores[0]
