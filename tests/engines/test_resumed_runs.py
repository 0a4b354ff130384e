"""A search over files and a reading of exported folders that are killed go on from the units that are counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_local_workers import KILLED

from overstory.cli.main import main
from support.exported_store import export_all, fill, registry, registry_toml, small_parts
from support.searched_files import searched_files

COUNTED = KILLED.replace("    take(*given)\n", "    take(*given)\n    print('counted', file=sys.stderr)\n")
"""As `KILLED`; each unit that it counts is a line on the error stream."""


def run_until(units: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that is killed once it has counted so many units."""
    program = [sys.executable, "-c", COUNTED, str(units), *command, "--workers", "1"]
    return subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)


def check_resumed(folder: Path, capsys: pytest.CaptureFixture[str], *command: str) -> None:
    """Kill a command three times, each time later; what it prints in the end is what an undisturbed one prints."""
    kept = folder / "unfinished"
    assert main([*command, "--json", "--quiet"]) == 0
    expected = json.loads(capsys.readouterr().out)
    whole = run_until(10**6, *command).stderr.count("counted\n")
    kills = [1, whole // 3, whole // 3]
    for units in kills:
        killed = run_until(units, *command, "--resume", str(kept))
        assert (killed.returncode, killed.stderr.count("counted\n")) == (-9, units)
        assert kept.exists()
    done = run_until(10**6, *command, "--json", "--resume", str(kept))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
    assert done.stderr.count("counted\n") == whole - sum(kills), "no unit is counted twice"
    assert f"{sum(kills)} of {whole} units had been counted by an earlier run" in done.stderr
    assert not list(folder.glob("unfinished*"))


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_a_killed_search_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, *_ = searched_files(tmp_path)
    for path in Path(tmp_path, "reports").glob("*.ovsb"):
        path.unlink()
    check_resumed(tmp_path, capsys, *command)


@pytest.mark.slow
def test_a_killed_reading_of_exported_folders_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_parts(monkeypatch.setattr)
    (tmp_path / "metrics.toml").write_text(registry_toml())
    fill(f"sqlite:///{tmp_path}/store.db", registry())
    export_all(f"sqlite:///{tmp_path}/store.db", registry(), tmp_path / "exported")
    command = ("decode", str(tmp_path / "exported"), "--registry", str(tmp_path / "metrics.toml"), "--metric", "size")
    check_resumed(tmp_path, capsys, *command)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_what_another_search_left_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Levels depend on the answers of those before: a file of another question is not taken for this one."""
    command, *_ = searched_files(tmp_path)
    kept = tmp_path / "unfinished"
    assert run_until(40, *command, "--resume", str(kept)).returncode == -9
    Path(f"{kept}.1").replace(kept)
    assert main([*command, "--resume", str(kept)]) == 2
    assert "this is of a run over other files or parameters" in capsys.readouterr().err
