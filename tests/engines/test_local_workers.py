"""A command that is killed while it counts goes on where it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.engine_files import Collection

KILLED = """
import os, signal, sys
from overstory.engines import driver
driver.EVERY, driver.SHARE = 0.0, float("inf")
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
