"""``overstory plan`` end to end: both directions, files, JSON, and one clear message for bad input."""

import json
import re

import pytest

from overstory.cli.main import main
from overstory.files.rappor import RapporParameters, read_params, write_params
from overstory.planning import plan_from_needs, plan_from_parameters
from support.running import within

PAPER = RapporParameters(k=128, h=2, m=16, p=0.5, q=0.75, f=0.5)
NEEDS = [
    "plan",
    "--epsilon",
    "1.0743",
    "--epsilon-permanent",
    "4.3945",
    "--reports",
    "1000000",
    "--candidates",
    "200",
]


@pytest.fixture
def params(tmp_path):
    path = tmp_path / "params.csv"
    write_params(path, PAPER)
    return path


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def test_parameters_to_plan(capsys, params):
    status, out, err = run(capsys, "plan", "--params", params, "--reports", 10**6, "--candidates", 200, "--json")
    read = json.loads(out)
    assert (status, err) == (0, "")
    assert read == plan_from_parameters(PAPER.mechanism(), 10**6, 200).to_json()
    assert read["parameters"] == {"k": 128, "h": 2, "m": 16, "p": 0.5, "q": 0.75, "f": 0.5}
    assert round(read["epsilon_n"]["2"], 3) == 2.017
    assert {"epsilon_report", "epsilon_permanent", "standard_error", "detectable_frequency"} <= set(read)


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


def test_a_person_reads_a_table_and_sentences(capsys):
    status, out, err = run(capsys, *NEEDS, "--share", 0.01)
    assert (status, err) == (0, "")
    assert "the paper's parameters" in out
    assert "share detected half the time" in out
    assert "A string held by 1.000%" in " ".join(out.split())


def test_without_a_ceiling_it_says_so(capsys, tmp_path):
    path = tmp_path / "open.csv"
    write_params(path, RapporParameters(k=16, h=1, m=4, p=0.25, q=0.75, f=0.0))
    status, out, _ = run(capsys, "plan", "--params", path, "--reports", 1000, "--candidates", 5)
    assert status == 0
    assert "no bound" in out
    assert "give it away" in " ".join(out.split())


def test_thrifty(capsys):
    _, out, _ = run(capsys, *NEEDS, "--thrifty", "--json")
    assert json.loads(out)["epsilon_permanent"] < 1.36


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--reports", "5", "--candidates", "3"], "give either --params FILE, or both"),
        (["--epsilon", "1", "--reports", "5", "--candidates", "3"], "or both"),
        (
            ["--epsilon", "2", "--epsilon-permanent", "1", "--reports", "5", "--candidates", "3"],
            "is below epsilon_report",
        ),
        (["--params", "{params}", "--epsilon", "1", "--reports", "5", "--candidates", "3"], "not both"),
        (["--params", "{params}", "--num-bits", "8", "--reports", "5", "--candidates", "3"], "--num-bits: only where"),
        (["--params", "{params}", "--reports", "0", "--candidates", "3"], "reports = 0"),
        (["--params", "{params}", "--reports", "5", "--candidates", "3", "--share", "2"], "share = 2.0"),
        (["--params", "{params}", "--reports", "5", "--candidates", "3", "--alpha", "7"], "alpha = 7.0"),
        (["--params", "nowhere.csv", "--reports", "5", "--candidates", "3"], "nowhere.csv"),
        ([*NEEDS[1:], "--num-bits", "0"], "num_bits (k) = 0"),
        ([*NEEDS[1:], "--num-cohorts", "0"], "num_cohorts (m) = 0"),
        (["--params", "{params}", "--num-hashes", "0", "--reports", "5", "--candidates", "3"], "--num-hashes: only"),
        (
            ["--params", "{params}", "--reports", "5", "--candidates", "3", "--share", "1e-160"],
            "share = 1e-160: no number",
        ),
        (
            ["--domain-size", "9", "--epsilon", "1e-300", "--reports", "5"],
            "reaches epsilon 1e-300",
        ),
        (
            ["--domain-size", "9", "--epsilon", "1e-300", "--epsilon-permanent", "1e-299", "--reports", "5"],
            "reaches epsilon 1e-300",
        ),
        (["--domain-size", "9", "--epsilon", "1", "--reports", "5", "--most", str(10**22)], "number from 1 to 9"),
        (["--domain-size", "9", "--epsilon", "1", "--reports", "5", "--most", str(10**9)], "number from 1 to 9"),
        (["--params", "{params}", "--reports", "many", "--candidates", "3"], "is not a whole number"),
    ],
)
def test_bad_input_is_one_message_and_status_2(capsys, params, arguments, says):
    status, out, err = run(capsys, "plan", *(argument.format(params=params) for argument in arguments))
    assert (status, out) == (2, "")
    assert says in err
    assert "Traceback" not in err


def test_a_malformed_file_names_the_field(capsys, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("k,h,m,p,q,f\n128,2,16,0.5,high,0.5\n")
    status, _, err = run(capsys, "plan", "--params", path, "--reports", 5, "--candidates", 3)
    assert status == 2
    assert "line 2, field q" in err


@pytest.mark.parametrize("reports", [60, 80, 100, 140, 200, 300])
def test_no_share_above_all_and_no_one_strings(reports, tmp_path):
    """A18: "held by 104.213% nine times in ten", "At most 1 strings"."""
    given = ["--epsilon", 1, "--epsilon-permanent", 2, "--reports", reports, "--candidates", 3]
    words = " ".join(within("plan", *given, cwd=tmp_path).stdout.split())
    shares = [float(share) for share in re.findall(r"(?:share of|from) ([0-9.]+)%", words)]
    assert all(share <= 100 for share in shares), words
    assert " 1 strings" not in words
    assert ("and no share nine times in ten" in words) == (len(shares) == 2)
