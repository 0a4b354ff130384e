"""The tables of docs/how-to/client.md are the code's: settings, outcomes, files and what the database holds."""

import inspect
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from overstory.client import Client, Outcome
from overstory.client.outcomes import MADE
from overstory.client.state import rows as schema
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import Bounds
from overstory.client.upload.http import Response
from overstory.protocol.wire.upload import decode_uploads
from support.devices import DAY, DEFAULT, Clock, device, queue_report, registry

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "client.md").read_text(encoding="utf-8")
SETTINGS, OUTCOMES, FILES = "| setting | default |", "| outcome | meaning |", "| file | holds |"
ABOUT = {
    "schema": "the schema's version",
    "fingerprint": "the secret's fingerprint",
    "machine": "the machine's mark",
    "kept copied": "whether a copy has reported",
    "kept failures": "recent failures",
    "kept resume": "until when it is left alone",
    "kept pause": "until when it is left alone",
    "kept problem": "what somebody has to see to",
    "kept since": "since which day",
    "kept asked": "the collector that was asked last",
    "length colour": "the length of its periods",
    "first colour": "the first one that may still be reported on",
    "kept sent colour": "the period in which a report was last sent",
    "kept attribute colour": "its attribute",
}
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
    return set(re.findall(r"CREATE TABLE (\w+)", " ".join(schema.TABLES)))


def faults(page):
    """Rows that the code does not have, and what has no row."""
    paths = StatePaths(Path("state"))
    code = {
        SETTINGS: set(parameters()),
        OUTCOMES: set(Outcome),
        FILES: {path.name for path in (paths.application, paths.consent, paths.secret, paths.database, paths.lock)},
        TABLES: tables_of_the_schema(),
    }
    return [name for head, names in code.items() for name in sorted(names ^ set(table(page, head)))]


def test_every_setting_outcome_file_and_table_has_its_row():
    assert faults(PAGE) == []


@pytest.mark.parametrize("change", [("`strict`", "`entropy`"), ("`spent`", "`none`"), ("`keys`", "`old`")])
def test_a_row_of_another_version_is_noticed(change):
    assert len(faults(PAGE.replace(*change))) == 2


def test_what_holds_unless_given_is_what_the_code_gives():
    rows, bounds = table(PAGE, SETTINGS), Bounds()
    given = {name: one.default for name, one in parameters().items()}
    required = {name for name, default in given.items() if default is inspect.Parameter.empty}
    assert {name for name, row in rows.items() if row.startswith("required")} == required
    assert f"no, {given['interval']:g} s |" in rows["interval"]
    kept = f"{bounds.waiting_rows} reports, {bounds.waiting_bytes >> 20} MiB; {bounds.kept_rows} kept |"
    assert rows["bounds"].startswith(kept)


def test_the_page_says_after_which_outcomes_there_is_a_report():
    rows = table(PAGE, OUTCOMES)
    assert {name for name, row in rows.items() if "is in memory" in row} == MADE
    silent = set(Outcome) - MADE - {Outcome.ALREADY, Outcome.UNAVAILABLE, Outcome.CLOSED}
    assert {name for name, row in rows.items() if row.startswith("no report")} == silent


def test_the_page_lists_all_that_a_state_remembers_in_about(tmp_path, monkeypatch):
    monkeypatch.setattr("overstory.client.state.rows.PERIODS_KEPT", 2)
    asked, clock = registry(colour=DEFAULT["colour"] + 'attribute = "looks"\nmax_values = 2\n'), Clock()
    asked_for = []

    def transport(request):
        asked_for.append(request)
        (upload,) = decode_uploads(request.body, 1)
        said = {"results": [{"batch": upload.batch.hex(), "duplicate": True}]}
        return Response(503) if len(asked_for) == 1 else Response(200, {}, json.dumps(said).encode())

    more = {"server": "https://one.example", "transport": transport}
    client = device(tmp_path, registry=asked, clock=clock, spread=0, **more)
    for _ in range(5):
        queue_report(client)
        clock.now += DAY
    with closing(sqlite3.connect(tmp_path / "state" / "state.db")) as database:
        found = {key for (key,) in database.execute("SELECT key FROM about")}
    assert found | {"machine"} == set(ABOUT)  # a machine without an id leaves no mark
    row = table(PAGE, TABLES)["about"]
    assert [said for said in ABOUT.values() if said not in row] == []
