"""Every program in examples/ runs, and does what its first lines say."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from overstory.client import Client
from overstory.client.consent import CI_VARIABLES
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import RowState
from overstory.client.state.state import State
from overstory.planning.kinds import plan_registry
from overstory.privacy.registry.cost import HIGH, yearly
from overstory.protocol.metrics import parse_registry
from support.console_blocks import shown_commands
from support.gateway_samples import served, uploads
from support.registry_texts import KEYS_HEX

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = {"embed.py", "compare.py", "gateway.py"}
FORBIDDING = {*CI_VARIABLES, "DO_NOT_TRACK", "OVERSTORY"}


def run(folder, program, *options, typed=""):
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


@pytest.mark.parametrize("answer", ["on\n", "off\n", "\n", "maybe\n", ""])
def test_the_program_that_embeds_asks_and_obeys(tmp_path, answer):
    printed = run(tmp_path, "embed.py", typed=answer)
    outcome = re.search(r"record: (\S+)\n", printed)[1]
    assert outcome in ({"recorded", "unasked"} if answer == "on\n" else {"off"})
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
    day = ("--day", (datetime.now(UTC) - timedelta(days=1)).date().isoformat())
    with served(tmp_path) as url:
        first = run(tmp_path, "gateway.py", "--server", url)  # yesterday's readings, unless a day is named
        assert "48 periods reported" in first
        assert "48 handed over, 0 refused, 0 waiting" in first
        assert "0 periods reported" in run(tmp_path, "gateway.py", *day, "--server", url)
        assert len(uploads(tmp_path)) == 48
        assert "48 periods reported" in run(tmp_path, "gateway.py", *day, "--state", "local")
        with State(StatePaths(tmp_path / "local")).snapshot() as rows:
            assert rows.outbox.tally()[RowState.LOCAL] == 48
        later = run(tmp_path, "gateway.py", *day, "--state", "local", "--server", url)
        assert "0 handed over, 0 refused, 0 waiting" in later
    assert {path.name for path in tmp_path.iterdir()} == {"meter", "local"}


# What a benchmark takes from the package is there: no other test runs most of them, and no type checker reads them
BENCH = Path(__file__).parents[2] / "bench"


def is_there(module, name):
    return hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}") is not None


def missing(source):
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if (node.module or "").partition(".")[0] in {"overstory", "papers"}]
    names = [(node.module, alias.name) for node in ours for alias in node.names]
    return [f"{module}.{name}" for module, name in names if not is_there(module, name)]


def test_every_imported_name_is_there():
    scripts = sorted(BENCH.glob("*.py"))
    assert scripts
    assert {script.name: gone for script in scripts if (gone := missing(script.read_text(encoding="utf-8")))} == {}


def test_a_name_that_is_gone_is_noticed():
    assert missing("from overstory.analysis import nothing_such") == ["overstory.analysis.nothing_such"]
    assert missing("from overstory import analysis\nfrom overstory.analysis import oracle\nimport json") == []


# Every registry that we show keeps a year within epsilon 8, whatever a person holds, or says in itself why not
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITES = ("cat > metrics.toml <<", "(cat <<", "printf 'registry = ")
"""How a page's command begins that writes a registry."""


def shown_registries():
    for page in PAGES:
        for shown in shown_commands(page):
            if shown.command.startswith(WRITES) and "[metrics." in shown.command:
                yield page, shown.command


SHOWN = list(shown_registries())


def unreasoned(text):
    registry = parse_registry(plan_registry(text, None)[0])
    return yearly([metric for metric in registry.values() if metric.yearly_reason is None], registry.budget).epsilon


@pytest.mark.parametrize(("page", "command"), SHOWN, ids=[page.stem for page, _ in SHOWN])
def test_the_registries_of_the_pages(page, command, tmp_path):
    (tmp_path / "public-keys").write_text(f'keys = "{KEYS_HEX}"\n')
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=60)
    assert unreasoned((tmp_path / "metrics.toml").read_text()) <= HIGH


def test_no_page_is_left_out():
    texts = {page: page.read_text("utf-8") for page in PAGES}
    written = {page for page, text in texts.items() if 'registry = "' in text and "\n> [metrics." in text}
    assert len(written) >= 12
    assert written <= {page for page, _ in SHOWN}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.toml")), ids=lambda path: path.name)
def test_the_registries_of_the_examples(path):
    text = path.read_text("utf-8")
    if "[metrics." in text:
        assert unreasoned(text) <= HIGH
    else:
        assert path.parent.name == "deploy", "settings of a server, which name a registry"


def test_a_registry_that_reveals_much_is_noticed():
    text = (ROOT / "examples" / "notes.toml").read_text("utf-8")
    often = "\n".join(line for line in text.splitlines() if not line.startswith(("panel", "budget")))
    assert unreasoned(often) > HIGH
    assert unreasoned(f'{often}\nyearly_reason = "None, but one is stated."\n') == 0
