"""A process killed in the middle of adding and compacting loses nothing that it acknowledged, and doubles nothing."""

import random
from typing import Any

import pytest

from overstory.collector.store import open_store
from support.rounds import rounds
from support.store_crashes import STEP, acknowledged, expected, go, killed_rounds, start, stored_numbers, summed_numbers
from support.store_samples import NOW, registry


@pytest.mark.parametrize("kills", [2, pytest.param(rounds(30), marks=pytest.mark.slow)], ids=["few", "many"])
def test_killed_again_and_again(store_url: str, kills: int) -> None:
    killed_rounds(store_url, kills, random.Random(kills))


AT_ONCE = {
    "the same batches": (((0, 60), (0, 60)), 1),
    "the same batches, some together": (((0, 60 * STEP), (0, 60 * STEP)), STEP),
    "others": (((0, 200), (200, 400)), 1),
}


@pytest.mark.parametrize(("ranges", "step"), AT_ONCE.values(), ids=AT_ONCE)
def test_two_processes_that_add_and_compact_at_once_count_each_batch_once(
    store_url: str, ranges: Any, step: int
) -> None:
    metrics, numbers = registry(), {number for each in ranges for number in range(*each)}
    with open_store(store_url, metrics, create=True):
        pass
    workers = [start(store_url, *each, step) for each in ranges]
    for worker in workers:
        go(worker)
    told = [acknowledged(worker.communicate(timeout=60)[0]) for worker in workers]
    assert [set(one) for one in told] == [set(range(*each)) for each in ranges]
    assert all([one.get(number) for one in told].count(True) == 1 for number in numbers)
    with open_store(store_url, metrics) as store:
        store.compact(NOW)
        assert stored_numbers(store) == numbers
        assert store.counts(metrics["bloom"], 0, 1 << 20) == expected(metrics["bloom"], numbers)
        assert store.sums(metrics["bloom"], 0, 1 << 20) == summed_numbers(metrics["bloom"], numbers)
