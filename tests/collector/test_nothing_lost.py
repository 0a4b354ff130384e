"""Every acknowledged report is counted exactly once, whatever the network does and whoever is killed: a few rounds.

`test_nothing_lost_long.py` runs hundreds.
"""

import numpy as np
import pytest

from overstory.analysis.reports import SupportCounts
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from support.collector_processes import CollectorProcess
from support.lossless import LEAST, Books, rounds_balance, seen, write_registry
from support.store_databases import fresh


@pytest.mark.parametrize(("kind", "collectors"), [("sqlite", 1), ("postgresql", 1), ("postgresql", 2)])
def test_a_few_rounds(server_folder, tmp_path, kind, collectors):
    with fresh(kind, server_folder) as url:
        books, met = rounds_balance(url, tmp_path, number=2, collectors=collectors, seed=10 + collectors)
    assert seen(met), met
    assert books.uploads >= LEAST
    assert books.duplicates  # answers did get lost after their reports were committed


def test_the_books_do_not_balance_when_a_report_is_missing_or_doubled(tmp_path):
    path, url = write_registry(tmp_path), f"sqlite:///{tmp_path / 'store.db'}"
    collector = CollectorProcess(path, url)
    collector.start()
    assert collector.stop() == 0
    registry = load_registry(path)
    colours = registry["colours"].mechanism
    one = SupportCounts([1], np.ones((1, colours.payload_bits), np.int64))
    books = Books(registry, {("colours", 20_000): one})
    with pytest.raises(AssertionError):
        books.balance(url)
    open_store(url, registry).close()
    Books(registry).balance(url)
