"""``overstory plan``: what is asked reaches the planner, and no sentence says what cannot be."""

import json
import re

import pytest

from overstory.cli.main import main
from overstory.planning.yearly import YearPlan
from support.running import within


@pytest.mark.parametrize("reports", [60, 80, 100, 140, 200, 300])
def test_no_share_above_all_and_no_one_strings(reports, tmp_path):
    given = ["--epsilon", 1, "--epsilon-permanent", 2, "--reports", reports, "--candidates", 3]
    words = " ".join(within("plan", *given, cwd=tmp_path).stdout.split())
    shares = [float(share) for share in re.findall(r"(?:share of|from) ([0-9.]+)%", words)]
    assert all(share <= 100 for share in shares), words
    assert " 1 strings" not in words
    assert ("and no share nine times in ten" in words) == (len(shares) == 2)


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


YEAR = ["plan", "--domain-size", 20, "--yearly", 4, "--metrics", 5, "--reports", 10**6]


def test_ways_to_keep_within_a_bound_on_any_year_are_compared(capsys):
    status, out, _ = run(capsys, *YEAR)
    assert status == 0
    assert 'panel = {cycle = "year", answers = 1}\nbudget = {epsilon = 4.0, per = "year"}\noracle = "grr"\n' in out
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert rows["one panel, 1 answer a year"][-5:] == ["grr", "4", "3,704", "0.63%", "4"]
    _, out, _ = run(capsys, *YEAR, "--json")
    assert json.loads(out) == YearPlan(10**6, 20, 4.0, 5).to_json()


@pytest.mark.parametrize("more", [["--epsilon", 1], ["--period", "year"], ["--share", 1]])
def test_what_does_not_fit_a_year_is_refused(capsys, more):
    status, out, err = run(capsys, *YEAR, *more)
    assert (status, out) == (2, "")
    assert err.startswith("overstory: error: ")
