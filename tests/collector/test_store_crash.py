"""A process killed in the middle of adding and compacting loses nothing that it acknowledged, and doubles nothing."""

from __future__ import annotations

import random

import pytest

from overstory.collector.store import open_store
from support.store_crashes import STEP, acknowledged, expected, go, killed_rounds, start, stored_numbers, summed
from support.store_samples import NOW, registry


def test_killed_again_and_again(store_url: str) -> None:
    killed_rounds(store_url, 2, random.Random(1))


@pytest.mark.parametrize("step", [1, STEP])
def test_two_processes_that_get_the_same_batches_at_once_count_each_once(store_url: str, step: int) -> None:
    metrics, last = registry(), 60 * step
    with open_store(store_url, metrics, create=True):
        pass
    workers = [start(store_url, 0, last, step) for _ in range(2)]
    for worker in workers:
        go(worker)
    told = [acknowledged(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [len(one) for one in told] == [last, last]
    assert all(one[number] != other[number] for one, other in [told] for number in range(last))
    with open_store(store_url, metrics) as store:
        store.compact(NOW)
        assert stored_numbers(store) == set(range(last))
        assert store.counts(metrics["bloom"], 0, 1 << 20) == expected(metrics["bloom"], set(range(last)))


def test_processes_that_compact_at_once_count_each_report_once(store_url: str) -> None:
    metrics = registry()
    with open_store(store_url, metrics, create=True):
        pass
    workers = [start(store_url, first, first + 200, 1) for first in (0, 200)]
    for worker in workers:
        go(worker)
    for worker in workers:
        assert all(acknowledged(worker.communicate(timeout=60)[0]).values())
    with open_store(store_url, metrics) as store:
        store.compact(NOW)
        assert store.counts(metrics["bloom"], 0, 1 << 20) == expected(metrics["bloom"], set(range(400)))
        assert store.sums(metrics["bloom"], 0, 1 << 20) == summed(metrics["bloom"], set(range(400)))
