"""Reports times candidates: divided over both, the counts are those of one process, or there is an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from test_driver import Interrupted, Unreliable

from overstory.analysis.reports import SupportCounts
from overstory.engines.driver import Checkpoint, EngineError, core_seconds, count, sizes_of
from overstory.engines.local import LocalEngine
from overstory.engines.units import Job, Listed, Unit, divide_values, put_together
from overstory.protocol.errors import FormatError
from support.engine_files import Collection

OWN = {"epsilon": 1.0, "num_seeds": 1 << 31}
APART: list[tuple[str, dict[str, Any]]] = [
    ("olh", OWN | {"domain_size": 9}),
    ("olh", OWN),
    ("loloha", {"epsilon_permanent": 2.0, "epsilon_report": 1.0, "domain_size": 9, "num_seeds": 1 << 31}),
    ("random-matrix", OWN | {"domain_size": 9}),
]


def ranges_of(units: Sequence[Unit]) -> set[Any]:
    return {unit.values for unit in units}


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("largest", [1, 1 << 30])
@pytest.mark.parametrize(("name", "parameters"), APART, ids=str)
def test_counts_are_alike_whatever_the_ranges(
    collection: Callable[..., Collection], name: str, parameters: dict[str, Any], largest: int
) -> None:
    made = collection(name, parameters, 300)
    job, whole = made.job(), made.units(largest)
    for workers in (1, 4):
        units = divide_values(job, whole, workers)
        many = len(ranges_of(units))
        assert many > 1
        assert len(units) == many * len(whole)
        assert sizes_of(units) == sizes_of(whole)
        assert core_seconds("local", job, units) > core_seconds("local", job, whole)
        for engine in (LocalEngine(2), Unreliable(2, lambda results: [*results, *results[::2]])):
            run = count(engine, job, units)
            assert run.counts == made.counts
            assert run.num_reports == 900


@pytest.mark.usefixtures("small_ranges")
def test_workers_that_are_killed_change_no_count(collection: Callable[..., Collection]) -> None:
    made = collection("olh", OWN | {"domain_size": 9}, 300)
    engine = LocalEngine(2, small=0)
    units = divide_values(made.job(), made.units(1 << 30), 2)
    kills: list[int] = []

    def kill_one(_: int) -> None:
        if not kills and engine.processes:
            kills.append(1)
            next(iter(engine.processes.values())).kill()

    assert count(engine, made.job(), units, advance=kill_one).counts == made.counts
    assert kills


@pytest.mark.usefixtures("small_ranges")
def test_a_missing_range_is_an_error(collection: Callable[..., Collection]) -> None:
    made = collection("olh", OWN | {"domain_size": 9}, 300)
    units = divide_values(made.job(), made.units(1 << 30), 2)
    with pytest.raises(EngineError, match=r"1 of .* units were not counted"):
        count(Unreliable(3, lambda results: results[1:]), made.job(), units)
    with pytest.raises(FormatError, match="were counted in other reports than those before"):
        # Broken on purpose: a range that is counted in one file alone, and a driver that takes it for complete.
        count(LocalEngine(1), made.job(), [unit for unit in units if unit.is_first or unit.address.endswith("ovsb")])


def test_ranges_that_do_not_meet_are_an_error() -> None:
    one, two = SupportCounts([2], [[1]]), SupportCounts([2], [[0, 2]])
    assert put_together({(1, 3): two, (0, 1): one}).ones.tolist() == [[1, 0, 2]]
    for parts in ({(1, 3): two}, {(0, 1): one, (2, 4): two}, {(0, 2): one}):
        with pytest.raises(FormatError, match="were not counted"):
            put_together(parts)


@pytest.mark.usefixtures("small_ranges")
def test_a_run_over_ranges_goes_on(
    collection: Callable[..., Collection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overstory.engines.driver.EVERY", 0.0)
    monkeypatch.setattr("overstory.engines.driver.SHARE", math.inf)
    made = collection("olh", OWN | {"domain_size": 9}, 300)
    units = divide_values(made.job(), made.units(1000), 2)
    assert len(units) > 14
    path = tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        count(Interrupted(4), made.job(), units, checkpoint=Checkpoint(path, "run"))
    run = count(Unreliable(5), made.job(), units, checkpoint=Checkpoint(path, "run"))
    assert run.resumed >= 6
    assert run.counts == made.counts


@pytest.mark.usefixtures("small_ranges")
def test_counts_by_bit_seed_or_transform_are_not_divided(collection: Callable[..., Collection]) -> None:
    made = collection("linear-hash", {"epsilon": 1.0, "domain_size": 90}, 100)
    assert divide_values(made.job(), made.units(1 << 30), 8) == made.units(1 << 30)


def test_no_unit_of_a_long_job_takes_long_however_few_workers_are_known(
    collection: Callable[..., Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster counted as eight workers, so a long job had 64 units on any."""
    made = collection("olh", OWN | {"domain_size": 9}, 100)
    job, whole = made.job(), made.units(1 << 30)
    monkeypatch.setattr("overstory.engines.units.LEAST_VALUES", 1)
    monkeypatch.setattr(Job, "counting_seconds", lambda *_: 50.0)
    assert 50.0 / len(ranges_of(divide_values(job, whole, 1))) <= 10.0


def test_few_values_are_not_divided(collection: Callable[..., Collection]) -> None:
    made = collection("olh", OWN | {"domain_size": 9}, 100)
    assert ranges_of(divide_values(made.job(), made.units(1 << 30), 8)) == {None}


def test_workers_read_a_long_list_themselves(collection: Callable[..., Collection], tmp_path: Path) -> None:
    made, path = collection("olh", OWN, 100), tmp_path / "names.txt"
    assert made.asked
    path.write_text("\n".join(made.asked))
    job = Job.of(made.mechanism, listed=Listed.of(path, made.asked))
    assert count(LocalEngine(1), job, made.units(1 << 30)).counts == made.counts
    path.write_text("b\na\nc\n")
    other = Job.of(made.mechanism, listed=Listed.of(path, made.asked[::2]))
    with pytest.raises(FormatError, match="its values are not those that the driver read"):
        count(LocalEngine(1), other, made.units(1 << 30))
