"""``overstory privacy METRIC``: which metric is meant, and that its page is the registry's."""

import json
from pathlib import Path

import pytest

from support.running import within

EXAMPLE = Path(__file__).parents[2] / "examples" / "metrics.toml"


def test_reports_and_values_asked_about_come_beside_the_metrics_own(tmp_path):
    ran = within(
        "privacy", "search-engine", "--registry", EXAMPLE, "--reports", 20, "--values", 2, "--json", cwd=tmp_path
    )
    read = json.loads(ran.stdout)
    assert {"10", "20"} <= set(read["epsilon_n"])
    assert read["epsilon_values"] == pytest.approx(2 * read["epsilon_permanent"])


def test_the_registry_of_this_folder_is_the_default(tmp_path):
    (tmp_path / "metrics.toml").write_bytes(EXAMPLE.read_bytes())  # its candidate files are not needed
    ran = within("privacy", "theme", cwd=tmp_path)
    assert ran.returncode == 0
    assert ran.stdout.startswith(
        "theme: Colour theme, one report every week, of at most 2 values, until 2027-05-31\n\nl-grr:"
    )
    assert "2 distinct values" in ran.stdout


def test_a_name_that_is_both_is_the_oracle_and_it_is_said(tmp_path):
    (tmp_path / "metrics.toml").write_text(EXAMPLE.read_text().replace("[metrics.theme]", "[metrics.rappor]"))
    ran = within("privacy", "rappor", "--json", cwd=tmp_path)
    assert "metric" not in json.loads(ran.stdout)
    assert (
        "rappor is an oracle, and a metric of metrics.toml: this is the oracle; give --registry metrics.toml"
        in ran.stderr
    )
    ran = within("privacy", "rappor", "--registry", "metrics.toml", "--json", cwd=tmp_path)
    assert (json.loads(ran.stdout)["metric"], json.loads(ran.stdout)["mechanism"], ran.stderr) == (
        "rappor",
        "l-grr",
        "",
    )


def test_oracles_work_beside_a_registry_with_faults(tmp_path):
    (tmp_path / "metrics.toml").write_text("registry = \n")
    ran = within("privacy", "rappor", "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = within("privacy", "theme", cwd=tmp_path)
    assert ran.returncode == 2
    assert "metrics.toml, line 1: no TOML" in ran.stderr
