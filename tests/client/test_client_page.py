"""The tables of docs/client.md are the code's: settings, outcomes, files and what the database holds."""

import inspect
import re
from pathlib import Path

import pytest

from overstory.client import Client, Outcome, schema
from overstory.client.outbox import Bounds
from overstory.client.outcomes import MADE
from overstory.client.paths import StatePaths

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
SETTINGS, OUTCOMES, FILES = "| setting | unless given |", "| outcome | meaning |", "| file | holds |"
TABLES = "| table of `state.db` | holds |"


def table(page, head):
    """The rows of a table: what stands in backquotes in the first column, to the others."""
    lines = page[page.index(head) :].splitlines()[2:]
    rows = {}
    for line in lines:
        if not line.startswith("|"):
            break
        first, rest = line.strip("| ").split(" | ", 1)
        rows |= dict.fromkeys(re.findall(r"`([^`]+)`", first), rest)
    return rows


def parameters():
    return {name: one for name, one in inspect.signature(Client).parameters.items() if name != "self"}


def tables_of_the_schema():
    statements = " ".join((*schema.FIRST, *(statement for step in schema.STEPS for statement in step)))
    return set(re.findall(r"CREATE TABLE (\w+)", statements))


def faults(page):
    """Rows that the code does not have, and what has no row."""
    paths = StatePaths(Path("state"))
    code = {
        SETTINGS: set(parameters()),
        OUTCOMES: set(Outcome),
        FILES: {path.name for path in (paths.consent, paths.secret, paths.database, paths.lock)},
        TABLES: tables_of_the_schema(),
    }
    return [name for head, names in code.items() for name in sorted(names ^ set(table(page, head)))]


def test_every_setting_outcome_file_and_table_has_its_row():
    assert faults(PAGE) == []


@pytest.mark.parametrize("change", [("`exit_timeout`", "`entropy`"), ("`spent`", "`none`"), ("`legacy`", "`old`")])
def test_a_row_of_another_version_is_noticed(change):
    assert len(faults(PAGE.replace(*change))) == 2


def test_what_holds_unless_given_is_what_the_code_gives():
    rows, bounds = table(PAGE, SETTINGS), Bounds()
    given = {name: one.default for name, one in parameters().items()}
    required = {name for name, default in given.items() if default is inspect.Parameter.empty}
    assert {name for name, row in rows.items() if row.startswith("required")} == required
    assert f"no, {given['interval']:g} s |" in rows["interval"]
    assert rows["exit_timeout"].startswith(f"{given['exit_timeout']:g} s |")
    kept = f"{bounds.waiting_rows} reports, {bounds.waiting_bytes >> 20} MiB; {bounds.kept_rows} kept |"
    assert rows["bounds"].startswith(kept)


def test_the_page_says_after_which_outcomes_there_is_a_report():
    rows = table(PAGE, OUTCOMES)
    assert {name for name, row in rows.items() if "is in memory" in row} == MADE
    silent = set(Outcome) - MADE - {Outcome.ALREADY, Outcome.UNAVAILABLE, Outcome.CLOSED}
    assert {name for name, row in rows.items() if row.startswith("no report")} == silent
