"""Hundreds of rounds of killed collectors: nothing acknowledged is lost, nothing is counted twice."""

import pytest

from support.lossless import rounds_balance, seen
from support.store_databases import fresh

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "collectors", "number", "seed"),
    [("sqlite", 1, 120, 21), ("postgresql", 1, 20, 23), ("postgresql", 2, 40, 24)],
)
def test_hundreds_of_rounds(server_folder, tmp_path, kind, collectors, number, seed):
    with fresh(kind, server_folder) as url:
        books, met = rounds_balance(url, tmp_path, number=number, collectors=collectors, seed=seed)
    assert seen(met), met
    assert books.duplicates > number / 2
