"""Hundreds of rounds of killed collectors: nothing acknowledged is lost, nothing is counted twice."""

import pytest
from lossless import rounds_balance, seen

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("collectors", "number", "seed"), [(1, 120, 21), (2, 80, 22)])
def test_two_hundred_rounds_on_sqlite(tmp_path, collectors, number, seed):
    books, met = rounds_balance(
        f"sqlite:///{tmp_path / 'store.db'}", tmp_path, number=number, collectors=collectors, seed=seed
    )
    assert seen(met), met
    assert books.duplicates > number / 2
