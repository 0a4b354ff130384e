"""The file of what a run has finished: never one of its results or inputs, and no obstacle where it is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_searches import METRIC, in_files

from overstory.cli.main import main
from overstory.protocol.metrics import load_registry
from overstory.protocol.search.mechanism import SearchMechanism
from support.engine_files import Collection


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
    (tmp_path / "metrics.toml").write_text(METRIC)
    reports = tmp_path / "reports"
    reports.mkdir()
    search = load_registry(tmp_path / "metrics.toml")["port"].mechanism
    assert isinstance(search, SearchMechanism)
    in_files(reports, search)
    monkeypatch.chdir(tmp_path)
    command = ("discover", "--reports", "reports", "--registry", "metrics.toml", "--metric", "port", "--quiet")
    assert main([*command, "--resume", "found.svg", option, "./found.svg"]) == 2
    assert f"--resume found.svg and {option} ./found.svg are one file" in capsys.readouterr().err
