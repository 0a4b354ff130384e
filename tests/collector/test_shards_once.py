"""Sharded collectors behind a balancer, killed at random: every acknowledged report is counted exactly once."""

import datetime as dt
from pathlib import Path

import pytest

from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from support.lossless import seen
from support.rounds import rounds
from support.shards import run_rounds


def reports_in(folder: Path, stores: list[str]) -> int:
    registry, total = load_registry(folder / "metrics.toml"), 0
    for url in stores:
        with open_store(url, registry) as store:
            total += sum(
                number for name in registry for number in store.tally(name, -(1 << 31), (1 << 31) - 1).values()
            )
    return total


def acknowledged(books) -> int:
    return sum(counts.num_reports for counts in books.acknowledged.values())


def test_every_acknowledged_report_is_in_one_of_two_stores(tmp_path):
    books, met, stores = run_rounds(tmp_path, "count = 2", count=2, number=3, seed=31)
    books.balance(*stores)
    assert seen(met), met
    assert books.duplicates
    for url in stores:
        assert reports_in(tmp_path, [url]) > 0


def test_a_balancer_that_routes_at_random_delays_reports_and_doubles_none(tmp_path):
    """The collectors go by the batch id: the path is only for the balancer."""
    books, _, stores = run_rounds(tmp_path, "count = 2", count=2, number=0, seed=32, at_random=True)
    books.balance(*stores)


def test_without_shards_the_same_balancer_doubles_reports(tmp_path):
    """The control: two stores that take whatever comes both count what was sent twice."""
    books, _, stores = run_rounds(tmp_path, "", count=2, number=0, seed=33, at_random=True)
    assert reports_in(tmp_path, stores) > acknowledged(books)
    with pytest.raises(AssertionError):
        books.balance(stores[0])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "number", "seed"), [(2, rounds(12), 41), (4, rounds(12), 42)])
def test_many_kills(tmp_path, count, number, seed):
    books, met, stores = run_rounds(tmp_path, f"count = {count}", count=count, number=number, seed=seed)
    books.balance(*stores)
    assert seen(met), met
    assert books.duplicates > number / 2


@pytest.mark.slow
def test_many_kills_while_periods_of_two_numbers_are_open(tmp_path):
    """Uploads of today and of the days before go by different numbers, at the same time."""
    today = dt.datetime.now(dt.UTC).date()
    table = f"count = 2\nfrom = {{{today.isoformat()} = 3}}"
    books, met, stores = run_rounds(tmp_path, table, count=3, number=rounds(12), seed=43)
    books.balance(*stores)
    assert seen(met), met
