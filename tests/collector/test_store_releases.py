"""What relays released together: a release grows with its new messages, in their transaction, and never by others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from overstory.collector.store import Released, ReleasedReports, Store, open_store
from overstory.protocol.errors import OverstoryError
from support.store_databases import fresh
from support.store_samples import DAY, NOW, registry, some

PERIOD = 20_000
FIRST, SECOND = b"a" * 16, b"b" * 16


@pytest.fixture
def metrics() -> Any:
    return registry()


def released(
    metrics: Any, release: bytes, message: int, reports: int = 1, *, name: str = "colour", period: int = PERIOD
):
    return some(metrics[name], period, reports, message)._replace(released=Released(release, message))


def test_a_release_grows_by_its_new_messages_alone(store: Store, metrics: Any) -> None:
    part = [released(metrics, FIRST, number) for number in range(5)]
    assert store.add(part) == [True] * 5
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 5, 5)}
    assert store.add(part) == [False] * 5  # sent again
    more = [released(metrics, FIRST, number) for number in (7, 8)]
    assert store.add([part[0], *more, more[0]]) == [False, True, True, False]
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 7, 7)}


def test_each_metric_and_period_has_its_smallest_release(store: Store, metrics: Any) -> None:
    store.add([released(metrics, FIRST, number) for number in range(5)])
    store.add([released(metrics, SECOND, number) for number in range(3)])
    store.add([released(metrics, SECOND, 9, name="size"), released(metrics, SECOND, 10, period=PERIOD + 1)])
    assert store.releases("colour", PERIOD - 9, PERIOD + 9) == {
        PERIOD: ReleasedReports(2, 3, 8),
        PERIOD + 1: ReleasedReports(1, 1, 1),
    }
    assert store.releases("size", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 1, 1)}
    assert store.releases("colour", PERIOD + 2, PERIOD + 9) == {}
    assert store.summary().releases == 2


def test_a_message_counts_once_however_many_batches_and_reports_it_has(store: Store, metrics: Any) -> None:
    store.add(
        [
            released(metrics, FIRST, 1, 10),
            released(metrics, FIRST, 1, 20),
            released(metrics, FIRST, 2, 3),
        ]
    )
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 2, 33)}


def test_what_comes_another_way_is_in_no_release(store: Store, metrics: Any) -> None:
    store.add([some(metrics["colour"], PERIOD, 10, 1), released(metrics, FIRST, 2)])
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 1, 1, complete=False)}
    assert store.tally("colour", PERIOD, PERIOD) == {(PERIOD, metrics["colour"].mechanism.digest): 11}


def test_a_transaction_that_fails_grows_no_release(store: Store, metrics: Any) -> None:
    store.add([released(metrics, FIRST, 1)])
    broken = released(metrics, FIRST, 2)._replace(bits=b"")
    with pytest.raises(OverstoryError):
        store.add([released(metrics, FIRST, 3), broken])
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 1, 1)}


def test_releases_are_deleted_with_their_metrics_reports(store: Store, metrics: Any) -> None:
    store.add([released(metrics, FIRST, 1), released(metrics, FIRST, 2, period=PERIOD + 30)])
    store.compact(NOW)
    store.retain(NOW + 89 * DAY)
    assert list(store.releases("colour", PERIOD, PERIOD + 30)) == [PERIOD, PERIOD + 30]
    store.retain(NOW + 100 * DAY)
    assert list(store.releases("colour", PERIOD, PERIOD + 30)) == [PERIOD + 30]
    assert store.stored("colour") == {PERIOD + 30: 1}


def test_collectors_that_take_one_release_together_add_up(server_folder: Path, metrics: Any) -> None:
    """Two collectors on one PostgreSQL store, parts that overlap, in opposite orders: no deadlock, no message twice."""
    with fresh("postgresql", server_folder) as url:
        open_store(url, metrics, create=True).close()
        messages = [released(metrics, FIRST, number) for number in range(220)]
        parts = [messages[at : at + 30] for at in range(0, 200, 10)]

        def work(mine: list[Any]) -> int:
            with open_store(url, metrics) as store:
                return sum(sum(store.add(part)) for part in mine)

        with ThreadPoolExecutor(4) as pool:
            new = sum(pool.map(work, (parts, parts[::-1], parts[::2], parts[1::2])))
        with open_store(url, metrics) as store:
            assert new == 220
            assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 220, 220)}
