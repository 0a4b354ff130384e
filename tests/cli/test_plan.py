"""``overstory plan`` end to end: both directions, files, JSON, and one clear message for bad input."""

import json
import re

import pytest

from overstory.cli.main import main
from overstory.files.rappor import read_params
from overstory.planning import plan_from_needs
from support.running import within

NEEDS = ["plan", "--epsilon", "1.0743", "--epsilon-permanent", "4.3945", "--reports", "1000000", "--candidates", "200"]


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def test_needs_to_plan_to_file_to_plan(capsys, tmp_path):
    path = tmp_path / "planned.csv"
    status, out, _ = run(capsys, *NEEDS, "--num-bits", 128, "--num-cohorts", 16, "-o", path, "--json")
    planned = json.loads(out)
    assert status == 0
    assert planned == plan_from_needs(1.0743, 4.3945, 10**6, 200, num_bits=128, num_cohorts=16).to_json()
    status, out, _ = run(capsys, "plan", "--params", path, "--reports", 10**6, "--candidates", 200, "--json")
    read = json.loads(out)
    assert read["parameters"] == planned["parameters"]
    assert read["epsilon_report"] == planned["epsilon_report"] <= 1.0743
    assert read["standard_error"] == planned["standard_error"]
    assert read_params(path).h == 1


def test_thrifty(capsys):
    _, out, _ = run(capsys, *NEEDS, "--thrifty", "--json")
    assert json.loads(out)["epsilon_permanent"] < 1.36


@pytest.mark.parametrize("reports", [60, 80, 100, 140, 200, 300])
def test_no_share_above_all_and_no_one_strings(reports, tmp_path):
    given = ["--epsilon", 1, "--epsilon-permanent", 2, "--reports", reports, "--candidates", 3]
    words = " ".join(within("plan", *given, cwd=tmp_path).stdout.split())
    shares = [float(share) for share in re.findall(r"(?:share of|from) ([0-9.]+)%", words)]
    assert all(share <= 100 for share in shares), words
    assert " 1 strings" not in words
    assert ("and no share nine times in ten" in words) == (len(shares) == 2)
