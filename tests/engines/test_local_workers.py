"""Processes of this machine: killed workers are replaced, and every count is right or there is an error."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overstory.engines.driver import EngineError, count
from overstory.engines.local import MOST_TRIES, LocalEngine
from overstory.engines.units import Unit
from overstory.protocol.errors import FormatError
from support.engine_files import OLH, RAPPOR, Collection


class KillingEngine(LocalEngine):
    """Kills the worker of drawn units: at the first of them before it has the unit, later while it may be counting."""

    def __init__(self, workers: int, units: list[Unit], kills: int, seed: str) -> None:
        super().__init__(workers, small=0)
        drawn = random.Random(seed)
        first, *later = drawn.sample([unit.number for unit in units], kills)
        self.delays = {first: 0.0} | {number: drawn.uniform(0.0, 0.01) for number in later}
        self.killed = 0

    def _count(self, place: int, job: bytes, unit: Unit, stop: threading.Event) -> Any:
        delay = self.delays.get(unit.number)
        if delay is None:
            return super()._count(place, job, unit, stop)
        worker = self.processes.get(place) or self._start(place, job)
        self.killed += 1
        if delay == 0.0:
            worker.kill()
            return super()._count(place, job, unit, stop)
        timer = threading.Timer(delay, worker.kill)
        timer.start()
        try:
            return super()._count(place, job, unit, stop)
        finally:
            timer.join()


@pytest.mark.parametrize(
    ("name", "parameters", "kills"),
    [
        ("rappor", RAPPOR, 3),
        pytest.param("olh", OLH, 2, marks=pytest.mark.slow),
        *(pytest.param("rappor", RAPPOR, 10, marks=pytest.mark.slow, id=f"ten kills, {seed}") for seed in range(5)),
    ],
)
def test_killed_workers_change_no_count(
    collection: Callable[..., Collection],
    name: str,
    parameters: dict[str, Any],
    kills: int,
    request: pytest.FixtureRequest,
) -> None:
    made = collection(name, parameters)
    units = made.units()
    engine = KillingEngine(2, units, kills, request.node.name)
    run = count(engine, made.job(), units)
    assert run.counts == made.counts
    assert engine.killed == kills
    assert 1 <= run.retries <= kills
    assert engine.processes == {}


def test_a_unit_that_ends_every_worker_is_an_error(collection: Callable[..., Collection]) -> None:
    class Doomed(LocalEngine):
        def _start(self, place: int, job: bytes) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-c", "pass"]
            self.processes[place] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            return self.processes[place]

    made, engine = collection(), Doomed(2, small=0)
    with pytest.raises(EngineError, match=f"{MOST_TRIES} workers in a row ended"):
        count(engine, made.job(), made.units())
    assert engine.processes == {}


def test_a_worker_tells_of_a_damaged_file(collection: Callable[..., Collection]) -> None:
    made = collection()
    units = made.units()
    path = made.folder / "c.ovsb"
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 1
    path.write_bytes(raw)
    with pytest.raises(FormatError, match=r"c\.ovsb: the batch at byte .*: the batch was damaged on its way"):
        count(LocalEngine(2, small=0), made.job(), units)


KILLED = """
import os, signal, sys
from overstory.engines import driver
driver.EVERY, driver.SHARE = 0.0, float("inf")
from overstory.engines.local import LocalEngine
LocalEngine.__init__.__kwdefaults__["small"] = 0
take, left = driver._take, [int(sys.argv[1])]
def taking(*given):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    take(*given)
driver._take = taking
from overstory.engines import units
units.SMALLEST_UNIT = 1
units.PART_BYTES = 1
from overstory.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def test_a_killed_command_goes_on_where_it_was(collection: Callable[..., Collection], tmp_path: Path) -> None:
    made, output = collection(), tmp_path / "counts.csv"

    def run(units: int) -> subprocess.CompletedProcess[str]:
        summing = ["sum", str(made.folder), "-o", str(output), "--workers", "1"]
        command = [sys.executable, "-c", KILLED, str(units), *summing]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert run(5).returncode == -9
    assert not output.exists()
    assert Path(f"{output}.unfinished").exists()
    done = run(10**6)
    assert done.returncode == 0, done.stderr
    assert "5 units had been counted by an earlier run" in done.stdout
    assert not Path(f"{output}.unfinished").exists()
    rows = [[int(cell) for cell in line.split(",")] for line in output.read_text().splitlines()]
    assert [row[0] for row in rows] == made.counts.totals.tolist()
    assert [row[1:] for row in rows] == made.counts.ones.tolist()
