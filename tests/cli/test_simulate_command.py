"""``overstory simulate``: a trial without people, against a real collector."""

import csv
import json
import re
from argparse import Namespace

import pytest

from overstory.cli.service.simulate import _closing
from overstory.collector.store import open_store
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.running import done, overstory, within

TWO = EXAMPLE.replace('"grr"', '"l-grr"').replace("{epsilon = 1.0}", "{epsilon_permanent = 4.0, epsilon_report = 3.0}")


@pytest.fixture
def folder(tmp_path):
    text = re.sub("expires = .*", "expires = 2999-01-01", TWO)
    (tmp_path / "metrics.toml").write_text(text)
    return tmp_path


def test_a_trial_is_counted_whole_and_estimated_near_the_truth(folder):
    given = ["--registry", "metrics.toml", "--devices", "400", "--periods", "2", "--store", "trial.db"]
    ran = overstory("simulate", *given, "--truth", "truth.csv", "--seed", "5", "--change", "0.5", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    table, _, decode = ran.stdout.partition("overstory decode ")
    assert table.splitlines()[1].split() == ["colour", "400", "800", "800", "0"]
    assert decode == "--store trial.db --registry metrics.toml --metric colour\n"
    ran = within("decode", *decode.split(), "--aggregate", "per-period", "--json", cwd=folder)
    reading = json.loads(ran.stdout)
    with (folder / "truth.csv").open() as file:
        truth = {(row["period"], row["string"]): int(row["count"]) for row in csv.DictReader(file)}
    assert len(truth) == 6
    compared = 0
    for part in reading["readings"]:
        assert part["reports"] == 400
        for row in part["estimates"]:
            assert abs(row["raw_count"] - truth[part["from"], row["value"]]) < 6 * row["standard_error"]
            compared += 1
    assert compared == 6


def test_values_come_from_a_column_in_its_form_and_quiet_keeps_the_table(folder):
    (folder / "data.txt").write_text("oak; red\nash; none\nelm; mauve\n")
    line = "simulate --registry metrics.toml --devices 40 --store trial.db --data data.txt --column 2 --quiet"
    form = ["--csv=no-header", "--csv=delimiter=;", "--csv=tidy", "--csv=missing=none"]
    ran = within(*line.split(), *form, "--truth", "truth.csv", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split() for line in ran.stdout.splitlines()[1:]] == [["colour", "40", "40", "40", "0"]]
    with (folder / "truth.csv").open() as file:
        assert {row["string"] for row in csv.DictReader(file)} == {"red", "outside the domain"}


YEARLY = """
panel = {cycle = "year"}
budget = {epsilon = 1.0, per = "year"}
"""


def test_a_fleet_lives_through_two_years_of_a_panel(folder):
    text = (folder / "metrics.toml").read_text().replace("4.0, epsilon_report = 3.0", "2.0, epsilon_report = 1.0")
    head, _, entry = text.partition("[metrics.colour]")
    (folder / "metrics.toml").write_text(f"{head}{YEARLY}[metrics.colour]{entry}[metrics.shape]{entry}")
    given = ["--registry", "metrics.toml", "--devices", "300", "--years", "2", "--store", "trial.db", "--seed", "3"]
    printed, again = (json.loads(done(folder, "simulate", *given, "--json").stdout) for _ in range(2))
    assert printed["year"]["most_reports"] == 1
    assert printed["year"]["headline"]["about"].endswith("in any year: 1 answer to one of 2 questions")
    assert printed["year"]["headline"]["epsilon"] == pytest.approx(1.0, abs=1e-4)
    made = {name: outcome["reports"] for name, outcome in printed["metrics"].items()}
    # 104 weeks of 54 places: every device answers once or twice, and 100 of 108 places are two answers.
    assert sum(made.values()) == pytest.approx(300 * 104 / 54, abs=5 * (300 * 4 / 54 * 50 / 54) ** 0.5)
    assert all(outcome["accepted"] == outcome["reports"] for outcome in printed["metrics"].values())
    assert again["metrics"] == printed["metrics"]
    with open_store(str(folder / "trial.db")) as store:
        weeks, came = store.periods("colour"), store.tally("colour", 0, 1 << 20)
    assert sum(came.values()) == made["colour"], "the same reports: each is counted once"
    assert max(weeks) - min(weeks) > 95


def test_no_password_of_a_store_is_printed():
    metrics = list(parse_registry(EXAMPLE).values())
    password = "postgresql://me:geheim@db/reports?sslpassword=geheim"
    lines = _closing(Namespace(store=password, registry="metrics.toml", candidates=None, truth=None), metrics, 1.0)
    assert "***" in "".join(lines)
    assert "geheim" not in "".join(lines)
