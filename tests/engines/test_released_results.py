"""Memory does not grow with the number of units: what was added is released, and little is counted ahead of it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from overstory.engines import driver, spark_session
from overstory.engines.driver import Engine, LocalEngine
from overstory.engines.spark_session import SparkEngine
from overstory.engines.units import Unit
from support.engine_files import Collection

UNITS = 400


class Counts:
    """The counts of a unit, as large as may be."""


class Counter:
    """Knows how many counts there are."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Counts] = weakref.WeakSet()

    def count(self, *_: Any) -> Counts:
        self.alive.add(counts := Counts())
        return counts


def by_threads(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(driver, "count_unit", counter.count)
    return LocalEngine(2)


def by_spark(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> Engine:
    def collect(_session: Any, _job: Any, units: list[Unit]) -> list[tuple[int, Counts]]:
        return [(unit.number, counter.count()) for unit in units]

    monkeypatch.setattr(spark_session, "_collect", collect)
    monkeypatch.setattr(SparkEngine, "_session", lambda _engine: nullcontext())
    return SparkEngine(workers=2)


ENGINES = [(by_threads, 12), (by_spark, 50)]
"""Each engine, and how many counts it may hold."""


@pytest.mark.parametrize("pause", [0.0, 0.001])
@pytest.mark.parametrize(("made_by", "most"), ENGINES)
def test_counts_are_released_as_they_are_taken(
    collection: Callable[..., Collection],
    monkeypatch: pytest.MonkeyPatch,
    made_by: Callable[[Counter, pytest.MonkeyPatch], Engine],
    most: int,
    pause: float,
) -> None:
    made, counter = collection(), Counter()
    units = made.units()[:1] * UNITS
    taken = 0
    for _number, _counts in made_by(counter, monkeypatch).map(made.job(), units):
        taken += 1
        time.sleep(pause)
        assert len(counter.alive) <= most
    assert taken == UNITS
