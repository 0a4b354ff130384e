"""A process that works on a store until it is told to stop, or killed.

    python -m support.store_worker URL FIRST LAST STEP

Adds the batches FIRST .. LAST - 1, STEP of them at a time, and compacts every now and then; prints ``ready``, waits for
a line, then prints every number once the store has acknowledged it: ``new 17`` or ``old 17``.
"""

# ruff: noqa: T201 - its parent reads what it prints

from __future__ import annotations

import random
import sys

from overstory.collector.store import open_store
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.metrics import Metric
from support.store_samples import NOW, Received, received, registry, reports

PERIOD = 20_000
PERIODS = 2


def sent(metric: Metric, number: int) -> list[Report]:
    """Return the reports of a batch: they follow from its number."""
    return reports(metric, 1 + number % 3, random.Random(number))


def batch(metric: Metric, number: int) -> Received:
    """Return the batch of that number."""
    return received(metric, PERIOD + number % PERIODS, sent(metric, number), batch=number.to_bytes(16, "big"))


def work(url: str, first: int, last: int, step: int) -> None:
    """Add and compact."""
    metrics = registry()
    metric = metrics["bloom"]
    with open_store(url, metrics) as store:
        metric.mechanism.digest  # noqa: B018 - computed before the start
        store.compact(NOW)
        print("ready", flush=True)
        sys.stdin.readline()
        for start in range(first, last, step):
            numbers = range(start, min(start + step, last))
            new = store.add([batch(metric, number) for number in numbers])
            for number, is_new in zip(numbers, new, strict=True):
                print("new" if is_new else "old", number)
            sys.stdout.flush()
            if start // step % 3 == 0:
                store.compact(NOW)
    print("done", flush=True)


if __name__ == "__main__":
    work(sys.argv[1], *map(int, sys.argv[2:]))
