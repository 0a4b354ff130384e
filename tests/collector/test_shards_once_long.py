"""Sharded collectors, killed many times; the registry has another number of shards from today on."""

import datetime as dt

import pytest

from support.lossless import seen
from support.rounds import rounds
from support.shards import run_rounds

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("count", "number", "seed"), [(2, rounds(12), 41), (4, rounds(12), 42)])
def test_many_kills(tmp_path, count, number, seed):
    books, met, stores = run_rounds(tmp_path, f"count = {count}", count=count, number=number, seed=seed)
    books.balance(*stores)
    assert seen(met), met
    assert books.duplicates > number / 2


def test_many_kills_while_periods_of_two_numbers_are_open(tmp_path):
    """Uploads of today and of the days before go by different numbers, at the same time."""
    today = dt.datetime.now(dt.UTC).date()
    table = f"count = 2\nfrom = {{{today.isoformat()} = 3}}"
    books, met, stores = run_rounds(tmp_path, table, count=3, number=rounds(12), seed=43)
    books.balance(*stores)
    assert seen(met), met
