"""The file of what a run has finished: never one of its results or inputs, and no obstacle where it is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from overstory.cli.main import main
from overstory.files import io
from support.engine_files import Collection
from support.searched_files import searched_files


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-o", "c.csv", "--resume", "c.csv"], "--resume c.csv and -o c.csv are one file"),
        (["-o", "c.csv", "--resume", "sub/../c.csv"], "and -o c.csv are one file"),
        (["-o", "link.csv", "--resume", "c.csv"], "and -o link.csv are one file"),
        (["-o", "k.1", "--resume", "k"], "and -o k.1 are one file"),
        (["-o", "c.csv", "--resume", "reports/a.parquet"], "and the input reports/a.parquet are one file"),
    ],
)
def test_a_result_is_not_the_file_that_a_run_removes(
    collection: Callable[..., Collection],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    says: str,
) -> None:
    made = collection()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.csv").symlink_to("c.csv")
    before = (made.folder / "a.parquet").read_bytes()
    assert main(["sum", "reports/a.parquet", "--quiet", *options]) == 2
    assert says in capsys.readouterr().err
    assert (made.folder / "a.parquet").read_bytes() == before
    assert not (tmp_path / "c.csv").exists()


@pytest.mark.parametrize("option", ["--csv", "--plot", "--candidates-out"])
def test_a_search_does_not_remove_what_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    command, *_ = searched_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--quiet", "--resume", "found.svg", option, "./found.svg"]) == 2
    assert f"--resume found.svg and {option} ./found.svg are one file" in capsys.readouterr().err


DAMAGED = [b"", b"PAR1", b'{"run": "a", "parts": []}\n', b"\0" * 300]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_that_nobody_named_is_no_obstacle(
    collection: Callable[..., Collection], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    made = collection()
    counts, unfinished = tmp_path / "c.csv", tmp_path / "c.csv.unfinished"
    assert main(["sum", str(made.folder), "--quiet", "-o", str(tmp_path / "right.csv")]) == 0
    unfinished.write_bytes(content)
    assert main(["sum", str(made.folder), "--quiet", "-o", str(counts)]) == 0
    assert f"{unfinished} is damaged: counting from the start" in capsys.readouterr().err
    assert counts.read_bytes() == (tmp_path / "right.csv").read_bytes()
    assert not unfinished.exists()


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_that_is_named_is_refused_by_its_name(
    collection: Callable[..., Collection], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    named = tmp_path / "kept"
    named.write_bytes(content)
    command = ["sum", str(collection().folder), "--quiet", "-o", str(tmp_path / "c.csv"), "--resume", str(named)]
    assert main(command) == 2
    assert f"{named}: this is no file of a run that was cut short, or a damaged one" in capsys.readouterr().err
    assert named.read_bytes() == content


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the name may be there after a power cut, and its content not."""
    steps: list[tuple[str, str]] = []
    replace = Path.replace
    monkeypatch.setattr(io, "sync", lambda path: steps.append(("sync", path.name)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (steps.append(("replace", to.name)), replace(self, to))[1])
    with io.replacing(tmp_path / "c.csv") as name:
        Path(name).write_text("1")
    assert steps == [("sync", Path(name).name), ("replace", "c.csv"), ("sync", tmp_path.name)]
