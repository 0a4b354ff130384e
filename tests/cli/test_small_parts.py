"""The table of estimates, and what needs a checkout."""

import overstory
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


def test_what_needs_a_checkout_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(overstory, "__file__", str(tmp_path / "site" / "overstory" / "__init__.py"))
    assert main(["reproduce"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "papers/ of the source: clone the repository" in line
