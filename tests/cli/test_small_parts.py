"""The fleet, the table, the benchmarks' command."""

from typing import Any

import pytest

import overstory
from overstory.cli import checkout
from overstory.cli.main import main
from overstory.cli.output import estimate_blocks
from overstory.cli.rappor.devices import Fleet
from overstory.files.rappor import Holding, epsilon_text, privacy
from overstory.presentation.formats import finite
from overstory.presentation.render_text import as_text
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.wire.upload import decode_batch


def test_a_forgotten_device_comes_back_the_same() -> None:
    rappor = mechanism("rappor", num_bits=16, num_cohorts=2)
    holdings = [Holding(f"c{i % 7}", i % 2, f"v{i % 3}") for i in range(60)]
    large, small = Fleet(rappor, "1"), Fleet(rappor, "1", most=2)
    assert [large.row(one) for one in holdings] == [small.row(one) for one in holdings]
    assert large.sent == 60


def test_the_packed_form_is_the_same_reports() -> None:
    rappor = mechanism("rappor", num_bits=16, num_cohorts=2)
    holdings = [Holding(f"c{i}", i % 2, "v") for i in range(9)]
    rows = [Fleet(rappor, "1").row(one) for one in holdings[:1]]
    packed = [report for raw in Fleet(rappor, "1").batches(iter(holdings)) for report in decode_batch(raw)]
    assert [report.cohort for report in packed] == [one.cohort for one in holdings]
    assert packed[0].bits == rows[0].irr


def test_no_reports_are_one_empty_batch() -> None:
    raws = list(Fleet(mechanism("rappor"), "1").batches(iter([])))
    assert [decode_batch(raw).num_reports for raw in raws] == [0]


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert printable("Île 日本") == "Île 日本"


def test_epsilons_are_rounded_up() -> None:
    spent = privacy(mechanism("rappor", f=0.5, p=0.5, q=0.75))
    assert epsilon_text(spent["epsilon_report"]) == "1.0743"
    assert epsilon_text(spent["epsilon_permanent"]) == "4.3945"
    assert privacy(mechanism("rappor", f=0.0))["epsilon_permanent"] is None
    assert finite(float("nan")) is None


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


@pytest.mark.parametrize("command", [("store", "create"), ("store", "summary")])
def test_a_folder_is_no_store(tmp_path, capsys, command):
    """B: `the database file cannot be opened: are its folder and its rights as they should be?`"""
    assert main([*command, str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith(f"this is a folder; name a file in it, such as {tmp_path}/reports.db\n")


def test_several_missing_parameters_are_a_plural():
    with pytest.raises(ParameterError, match=r"^grr needs the parameters domain_size, epsilon$"):
        mechanism("grr")


@pytest.mark.parametrize(("epsilon", "noted"), [(9, False), (11, True), (100, True)])
def test_a_report_that_hides_next_to_nothing_is_called_so(tmp_path, capsys, epsilon, noted):
    """A18, B: `collect --epsilon 100` ran without a word."""
    (tmp_path / "c.csv").write_text("c\noak\nash\n")
    line = ["collect", str(tmp_path / "c.csv"), "--column", "c", "-o", str(tmp_path), "--epsilon", str(epsilon)]
    assert main(line) == 0
    assert ("a report hides next to nothing" in capsys.readouterr().out) == noted
