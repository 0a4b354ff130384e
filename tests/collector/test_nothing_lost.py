"""Every acknowledged report is counted exactly once, whatever the network does and whoever is killed."""

import numpy as np
import pytest

from overstory.analysis.reports import SupportCounts
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from support.collector_processes import CollectorProcess
from support.lossless import LEAST, Books, rounds_balance, seen, write_registry
from support.store_databases import fresh


def long(*row):
    return pytest.param(*row, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("kind", "collectors", "number", "seed"),
    [
        ("sqlite", 1, 2, 11),
        ("postgresql", 1, 2, 11),
        ("postgresql", 2, 2, 12),
        long("sqlite", 1, 120, 21),
        long("postgresql", 1, 20, 23),
        long("postgresql", 2, 40, 24),
    ],
)
def test_rounds_of_killed_collectors(server_folder, tmp_path, kind, collectors, number, seed):
    with fresh(kind, server_folder) as url:
        books, met = rounds_balance(url, tmp_path, number=number, collectors=collectors, seed=seed)
    assert seen(met), met
    assert books.uploads >= LEAST
    assert books.duplicates > number / 2 - 1  # answers did get lost after their reports were committed


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
