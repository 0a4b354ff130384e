"""A command that is killed while it counts goes on from what is counted; the file of that is no obstacle."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from overstory.cli.main import main
from overstory.files import io
from support.engine_files import Collection
from support.exported_store import export_all, fill, registry, registry_toml, small_parts
from support.searched_files import searched_files

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
    print('counted', file=sys.stderr)
driver._take = taking
from overstory.engines import units
units.SMALLEST_UNIT = 1
units.PART_BYTES = 1
from overstory.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
"""Is killed once it has counted so many units; each is a line on the error stream."""


def run_until(units: int, *command: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", KILLED, str(units), *command, "--engine", "local:1"]
    return subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)


def test_a_killed_command_goes_on_where_it_was(collection: Callable[..., Collection], tmp_path: Path) -> None:
    made, output = collection(), tmp_path / "counts.csv"
    command = ("sum", str(made.folder), "-o", str(output))
    assert run_until(5, *command).returncode == -9
    assert not output.exists()
    assert Path(f"{output}.unfinished").exists()
    done = run_until(10**6, *command)
    assert done.returncode == 0, done.stderr
    assert "5 units had been counted by an earlier run" in done.stdout
    assert not Path(f"{output}.unfinished").exists()
    rows = [[int(cell) for cell in line.split(",")] for line in output.read_text().splitlines()]
    assert [row[0] for row in rows] == made.counts.totals.tolist()
    assert [row[1:] for row in rows] == made.counts.ones.tolist()


def check_resumed(folder: Path, capsys: pytest.CaptureFixture[str], *command: str) -> None:
    """Kill a command three times, each time later; what it prints in the end is what an undisturbed one prints."""
    kept = folder / "out.unfinished"
    output = ("-o", str(folder / "out"))
    assert main([*command, "--json", "--quiet"]) == 0
    expected = json.loads(capsys.readouterr().out)
    whole = run_until(10**6, *command).stderr.count("counted\n")
    kills = [1, whole // 3, whole // 3]
    for units in kills:
        killed = run_until(units, *command, *output)
        assert (killed.returncode, killed.stderr.count("counted\n")) == (-9, units)
        assert kept.exists()
    done = run_until(10**6, *command, "--json", *output)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
    assert done.stderr.count("counted\n") == whole - sum(kills), "no unit is counted twice"
    assert f"{sum(kills)} of {whole} units had been counted by an earlier run" in done.stderr
    assert not list(folder.glob("*.unfinished*"))


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_a_killed_search_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, *_ = searched_files(tmp_path)
    for path in Path(tmp_path, "reports").glob("*.ovsb"):
        path.unlink()
    check_resumed(tmp_path, capsys, *command)


@pytest.mark.slow
def test_a_killed_reading_of_exported_folders_goes_on(tmp_path, capsys, monkeypatch):
    small_parts(monkeypatch.setattr)
    (tmp_path / "metrics.toml").write_text(registry_toml())
    fill(f"sqlite:///{tmp_path}/store.db", registry())
    export_all(f"sqlite:///{tmp_path}/store.db", registry(), tmp_path / "exported")
    command = ("decode", str(tmp_path / "exported"), "--registry", str(tmp_path / "metrics.toml"), "--metric", "size")
    check_resumed(tmp_path, capsys, *command)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_what_another_search_left_is_not_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Levels depend on the answers of those before: a file of another question is not taken for this one."""
    command, *_ = searched_files(tmp_path)
    command, kept = [*command, "-o", str(tmp_path / "out")], tmp_path / "out.unfinished"
    assert run_until(40, *command).returncode == -9
    Path(f"{kept}.1").replace(kept)
    assert main(command) == 0
    assert f"{kept} is of a run over other files, or with other options" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["c.csv.unfinished", "sub/../c.csv.unfinished", "link.csv", "c.csv.unfinished.1"])
def test_an_input_is_not_the_file_that_a_run_removes(collection, tmp_path, monkeypatch, capsys, name):
    made = collection()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.csv").symlink_to("c.csv.unfinished")
    before = (made.folder / "a.parquet").read_bytes()
    for number in ("", ".1"):
        (tmp_path / f"c.csv.unfinished{number}").write_bytes(before)
    assert main(["sum", name, "--quiet", "-o", "c.csv"]) == 2
    assert f"c.csv.unfinished and the input {name} are one file" in capsys.readouterr().err
    assert (tmp_path / "c.csv.unfinished").read_bytes() == before
    assert not (tmp_path / "c.csv").exists()


@pytest.mark.parametrize("option", ["--plot", "--candidates-out"])
def test_a_search_does_not_remove_what_it_writes(tmp_path, monkeypatch, capsys, option):
    command, *_ = searched_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "found.svg").symlink_to("found.unfinished")
    assert main([*command, "--quiet", "-o", "found", option, "./found.svg"]) == 2
    assert f"found.unfinished and {option} ./found.svg are one file" in capsys.readouterr().err


DAMAGED = [b"", b"PAR1", b'{"run": "a", "parts": []}\n', b"\0" * 300]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_beside_the_output_is_refused_and_kept(collection, tmp_path, capsys, content):
    """It may be a file of another kind that happens to have this name."""
    made = collection()
    counts, unfinished = tmp_path / "c.csv", tmp_path / "c.csv.unfinished"
    unfinished.write_bytes(content)
    assert main(["sum", str(made.folder), "--quiet", "-o", str(counts)]) == 2
    assert f"{unfinished}: this is no file of a run that was cut short, or a damaged one" in capsys.readouterr().err
    assert unfinished.read_bytes() == content
    assert not counts.exists()
    unfinished.unlink()
    assert main(["sum", str(made.folder), "--quiet", "-o", str(counts)]) == 0


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the name may be there after a power cut, and its content not."""
    steps: list[tuple[str, str]] = []
    replace = Path.replace
    monkeypatch.setattr(io, "sync", lambda path: steps.append(("sync", path.name)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (steps.append(("replace", to.name)), replace(self, to))[1])
    with io.replacing(tmp_path / "c.csv") as name:
        Path(name).write_text("1")
    assert steps == [("sync", Path(name).name), ("replace", "c.csv"), ("sync", tmp_path.name)]
