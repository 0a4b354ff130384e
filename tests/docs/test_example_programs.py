"""Every program in examples/ runs, and does what its first lines say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from overstory.client import Client
from overstory.client.consent.policy import CI_VARIABLES

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = {"embed.py", "compare.py", "gateway.py"}
FORBIDDING = {*CI_VARIABLES, "DO_NOT_TRACK", "OVERSTORY"}


def run(folder, program, *options, typed=""):
    """Run a program in a folder, as where no person's settings forbid reports; return what it prints."""
    environ = {name: value for name, value in os.environ.items() if name not in FORBIDDING}
    ran = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / program, *options],
        cwd=folder,
        env=environ | {"XDG_STATE_HOME": str(folder / "home")},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran.stdout


def test_each_program_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == RUN | {
        "own_oracle.py"
    }  # tests/contract/test_laws.py runs it


@pytest.mark.parametrize("answer", ["on", "off", ""])
def test_the_program_that_embeds_asks_and_obeys(tmp_path, answer):
    printed = run(tmp_path, "embed.py", typed=f"{answer}\n")
    outcome = re.search(r"record: (\S+)\n", printed)[1]
    assert outcome in ({"recorded", "unasked"} if answer == "on" else {"off"})
    outbox = {"recorded": "outbox: {'waiting': 1, ", "unasked": "outbox: {'waiting': 0, ", "off": "outbox: {}"}[outcome]
    assert outbox in printed
    again = run(tmp_path, "embed.py")  # nobody is asked again
    assert again.startswith(f"record: {'already' if outcome == 'recorded' else outcome}")
    assert outbox in again


def test_it_records_on_one_device_in_54(tmp_path):
    """All of 1,600 devices have another week in one run of 10^13."""
    for number in range(1600):
        with Client(
            "example-notes", registry=EXAMPLES / "notes.toml", state=tmp_path / str(number), environ={}
        ) as client:
            client.consent("on")
            outcome = client.record("theme", "dark")
            client.flush()
            assert dict(client.status().outbox).get("waiting", 0) == (outcome == "recorded")
        if outcome == "recorded":
            break
    assert outcome == "recorded"
    assert run(tmp_path, "embed.py", "--state", str(number)).startswith("record: already\noutbox: {'waiting': 1, ")


def test_its_registry_has_neither_faults_nor_warnings():
    command = [sys.executable, "-m", "overstory", "metrics", "lint", EXAMPLES / "notes.toml"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert printed.endswith("notes.toml: 1 metric, no fault\n")


def test_oracles_are_compared(tmp_path):
    lines = run(tmp_path, "compare.py", "--people", "20000", "--oracles", "grr", "hadamard").splitlines()
    assert lines[0] == "20,000 people, 64 values, epsilon 1"
    rows = {line.split()[0]: [float(cell) for cell in re.findall(r"([\d.]+)%", line)] for line in lines[2:]}
    assert set(rows) == {"grr", "hadamard"}
    for predicted, trial in rows.values():
        assert 0.6 * predicted < trial < 1.6 * predicted
    assert rows["hadamard"][0] < rows["grr"][0]


def test_a_meter_reports_each_period_once(tmp_path):
    first = run(tmp_path, "gateway.py")
    assert "48 periods reported" in first
    assert (tmp_path / "reports.ovsu").stat().st_size > 0
    assert "0 periods reported" in run(tmp_path, "gateway.py")
