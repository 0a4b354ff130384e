"""``overstory plan`` and ``compare``: what is asked reaches the planner; oracles, and randomizers of numbers."""

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


DATA = "state,n\nOhio,1\nUtah,2\nOhio,3\n,4\nIowa,5\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.csv").write_text(DATA)
    return tmp_path


def test_the_trial_orders_the_oracles_and_says_how_surely(folder):
    (folder / "many.csv").write_text("state\n" + "".join(f"s{i % 7 * i % 11}\n" for i in range(2_000)))
    shown = within("compare", "--epsilon", 2, "many.csv", "--column", "state", "--json", cwd=folder).stdout
    rows = json.loads(shown)["oracles"]
    assert {row["measured_runs"] for row in rows} == {20}
    off = [(row["measured_error"] - row["standard_error"]) / row["measured_standard_error"] for row in rows]
    assert max(map(abs, off)) < 6  # a spread from 20 runs: t with 19 degrees of freedom
    exact, measured = ([row[name] for row in rows] for name in ("standard_error", "measured_error"))
    worse = [i for i, error in enumerate(exact) if error > 1.3 * exact[0]]
    assert worse
    assert all(measured[i] > measured[0] for i in worse)


WARNING = (
    "warning: with grr a crafted report counts for 59 honest ones: 1% liars raise any value's share by 59 percentage"
)


def test_an_oracle_is_warned_of_with_which_a_liar_has_more_than_ten_votes(folder):
    def compared(epsilon):
        ask = ("--domain-size", 100, "--epsilon", epsilon, "--reports", 100_000)
        return " ".join(within("compare", *ask, cwd=folder).stdout.split())

    warned = compared(1.0)
    assert WARNING in warned
    assert "warning: with oue" not in warned
    assert "warning: with grr" not in compared(4.0)
