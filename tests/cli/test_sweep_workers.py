"""Sweeps in several processes give what one process gives; a process that is lost is an error."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from overstory.cli.main import main
from overstory.cli.workers import LostWorkerError, each_cell

COMPARE = ["compare", "--domain-size", "4", "--epsilon", "1", "--reports", "400", "--measure", "2", "--json"]


def test_cells_come_in_their_order() -> None:
    done: list[int] = []
    assert each_cell(math.factorial, [5, 1, 3], 2, lambda: done.append(1)) == [120, 1, 6]
    assert len(done) == 3


def test_a_process_that_ends_is_an_error() -> None:
    with pytest.raises(LostWorkerError, match="a process ended before its part was computed"):
        each_cell(os._exit, [1, 1], 2, lambda: None)


@pytest.mark.slow
def test_oracles_are_compared_alike_by_any_number_of_processes(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for workers in ("1", "2", "3"):
        assert main([*COMPARE, "--workers", workers]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[1:] == printed[:1] * 2
    assert main([*COMPARE, "--seed", "1"]) == 0
    assert capsys.readouterr().out != printed[0]


@pytest.mark.slow
def test_results_are_reproduced_alike_by_any_number_of_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results: list[Any] = []
    for workers in ("1", "2"):
        names = ["rappor-75-of-100", "rappor-epsilons"]
        assert (
            main(["reproduce", *names, "--quick", "--workers", workers, "-o", str(tmp_path / workers), "--json"]) == 0
        )
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1]
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "2").iterdir())
