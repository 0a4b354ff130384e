"""The fleet, the table, the benchmarks' command."""

from typing import Any

import pytest

import overstory
from overstory.cli import checkout
from overstory.cli.analysis.decode import estimate_blocks
from overstory.cli.main import main
from overstory.presentation.render_text import as_text


def test_the_summary_says_what_alpha_bounds() -> None:
    about = {
        "detected": 1, "candidates": 2, "reports": 10, "alpha": 0.05, "correction": "bonferroni", "allocated_mass": 0.5,
        "residual_dispersion": 1.0, "method": "gls", "interval": "population", "epsilon_report": 1.0,
        "epsilon_permanent": None, "notes": [], "adjustment": "none",
    }  # fmt: skip
    text = as_text(estimate_blocks([], about, None))
    assert "chance of any false detection at most 5%" in text
    assert "intervals: of all devices like these (noise, and the sampling of people)" in text
    assert "without bound for any number of reports" in text


def test_bench_lists_runs_and_refuses(tmp_path: Any, monkeypatch: Any, capfd: Any) -> None:
    (tmp_path / "speed_of_light.py").write_text("print('299792458')")
    (tmp_path / "failing.py").write_text("raise SystemExit(3)")
    (tmp_path / "_shared.py").write_text("raise SystemExit(4)")
    monkeypatch.setattr(checkout, "folder", lambda name, what: tmp_path)
    assert main(["bench"]) == 0
    assert capfd.readouterr().out == "failing\nspeed_of_light\n"
    assert main(["bench", "light"]) == 0
    assert capfd.readouterr().out == "299792458\n"
    assert main(["bench", "light", "failing"]) == 3
    assert main(["bench", "absent"]) == 2
    assert "choose from failing, speed_of_light" in capfd.readouterr().err


@pytest.mark.parametrize(("arguments", "place"), [(["bench", "light"], "bench/"), (["reproduce", "--list"], "papers/")])
def test_what_needs_a_checkout_says_so(arguments, place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(overstory, "__file__", str(tmp_path / "site" / "overstory" / "__init__.py"))
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{place} of the source: clone the repository" in line
