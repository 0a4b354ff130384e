"""The command `store`: every action as its operator runs it, on a file."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from overstory.collector.auth import sha256
from overstory.collector.store import open_store
from overstory.files.parquet import read_parquet
from support.registry_texts import plain_registry
from support.running import within
from support.store_samples import received, registry, reports

REGISTRY = plain_registry("colour", domain='{kind = "categories", names = ["red", "green", "blue"]}')
DAY = 20_000
EXPORT = ("export", "reports.db", "--registry", "metrics.toml", "--metric", "colour", "-o", "out.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a registry and a store of thirty reports, ten of them long past retention."""
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    metric, rng = registry()["colour"], random.Random(1)
    done = within("store", "create", "reports.db", "--registry", "metrics.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "sqlite:///reports.db: created, schema 1\n")
    with open_store(str(tmp_path / "reports.db")) as store:
        store.add(
            [received(metric, DAY, reports(metric, 10, rng)), received(metric, DAY + 1, reports(metric, 20, rng))]
        )
    return tmp_path


def answer(folder: Path, *arguments: object) -> Any:
    done = within("store", *arguments, "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_store_is_made_once(folder: Path) -> None:
    assert answer(folder, "create", "reports.db") == {"url": "sqlite:///reports.db", "schema": 1, "made": False}


def test_compact_retain_and_summary(folder: Path) -> None:
    summary = answer(folder, "summary", "reports.db")
    assert [(one["metric"], one["counted"], one["waiting"]) for one in summary["metrics"]] == [("colour", 0, 30)]
    assert answer(folder, "compact", "reports.db") == {
        "reports": 30,
        "rows": 2,
        "forgotten": 2,
        "waiting": [],
        "remains": [],
    }
    heading, row = within("store", "summary", "reports.db", cwd=folder).stdout.splitlines()[-2:]
    assert heading.split("  ")[-3:] == ["reports counted", "still stored", "in the inbox"]
    assert row.split()[:2] == ["colour", "grr"]
    assert row.split()[-3:] == ["30", "30", "0"]
    assert answer(folder, "retain", "reports.db") == {"reports": 30, "chunks": 2, "remains": []}
    assert "0 reports past retention deleted" in within("store", "retain", "reports.db", cwd=folder).stdout
    (found,) = answer(folder, "summary", "reports.db")["metrics"]
    assert (found["counted"], found["kept"], found["first"], found["last"]) == (30, 0, "2024-10-04", "2024-10-05")


def test_backup_and_restore(folder: Path) -> None:
    assert answer(folder, "backup", "reports.db", "monday.db") == {"file": "monday.db", "reports": 30}
    again = within("store", "backup", "reports.db", "monday.db", cwd=folder)
    assert (again.returncode, again.stderr) == (
        2,
        "overstory: error: monday.db: this file exists: give the backup another name\n",
    )
    assert answer(folder, "restore", "monday.db", "new.db") == {"url": "sqlite:///new.db", "reports": 30}
    assert answer(folder, "summary", "new.db")["metrics"] == answer(folder, "summary", "reports.db")["metrics"]
    assert within("store", "restore", "monday.db", "new.db", cwd=folder).returncode == 2


def test_export(folder: Path) -> None:
    assert answer(folder, *EXPORT) == {"output": "out.parquet", "reports": 30}
    assert answer(folder, *EXPORT, "--from", "2024-10-05") == {"output": "out.parquet", "reports": 20}
    assert answer(folder, *EXPORT, "--to", "2024-10-04")["reports"] == 10
    assert sum(len(batch) for batch in read_parquet(folder / "out.parquet")) == 10
    wrong = within("store", *EXPORT, "--to", "yesterday", cwd=folder)
    assert (wrong.returncode, "'yesterday' is no day" in wrong.stderr) == (2, True)
    unknown = within("store", *EXPORT[:5], "tree", *EXPORT[6:], cwd=folder)
    assert (unknown.returncode, "there is no metric 'tree'" in unknown.stderr) == (2, True)


def test_tokens_are_shown_once_listed_and_revoked(folder: Path) -> None:
    adding = ("tokens", "add", "reports.db", "--role", "write", "--application", "trees", "--expires", "2030-01-02")
    shown = answer(folder, *adding)
    plain = within("store", *adding, cwd=folder).stdout.strip()
    with open_store(str(folder / "reports.db")) as store:
        found = store.find_token(sha256(plain))
        assert found is not None
        assert (found.role, found.application, found.expires) == ("write", "trees", 1_893_542_400)
    listed = within("store", "tokens", "list", "reports.db", cwd=folder).stdout
    assert shown["token"] not in listed
    assert plain not in listed
    assert f"{shown['id']}  write  trees        20" in listed
    assert answer(folder, "tokens", "revoke", "reports.db", shown["id"]) == {"revoked": shown["id"]}
    (revoked,) = [one for one in answer(folder, "tokens", "list", "reports.db")["tokens"] if one["revoked"]]
    assert (revoked["id"], revoked["expires"]) == (shown["id"], "2030-01-02")
    assert (revoked["state"], revoked["last_used"]) == ("revoked", None)


def test_an_expired_token_is_listed_as_expired_with_its_last_day_of_use(folder: Path) -> None:
    """FINDINGS A16: `--expires 2020-01-01` was taken, and listed as any other."""
    past = "tokens", "add", "reports.db", "--role", "write", "--application", "elms", "--expires", "2020-01-01"
    refused = within("store", *past, cwd=folder)
    assert (refused.returncode, "would be refused at once" in refused.stderr) == (2, True)
    with open_store(str(folder / "reports.db")) as store:
        found = store.find_token(sha256(store.add_token("write", "elms", expires=1_577_836_800)))
        assert found is not None
        store.note_token_days({found.id: 18_000})
    listed = within("store", "tokens", "list", "reports.db", cwd=folder).stdout
    (line,) = [line for line in listed.splitlines() if line.startswith(found.id)]
    assert line.endswith("expired 2020-01-01  2019-04-14")
    (shown,) = [one for one in answer(folder, "tokens", "list", "reports.db")["tokens"] if one["id"] == found.id]
    assert (shown["state"], shown["last_used"]) == ("expired", "2019-04-14")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["summary", "no.db"], "no.db: there is no such store; make it first: overstory store create no.db"),
        (["summary", "metrics.toml"], "sqlite:///metrics.toml: this file is not a SQLite database"),
        (["summary", "mysql://root@db/x"], "a store is named by sqlite:///FILE"),
        (["tokens", "revoke", "reports.db", "beef"], "there is no token beef"),
        (
            ["tokens", "add", "reports.db", "--role", "admin", "--application", "a", "--expires", "soon"],
            "--expires soon: give a date such as 2027-11-21",
        ),
        (
            ["tokens", "add", "reports.db", "--role", "admin", "--application", "a", "--expires", "2027-11-21T00+05"],
            "--expires 2027-11-21T00+05: give a date such as 2027-11-21",
        ),
        (
            ["tokens", "add", "reports.db", "--role", "admin", "--application", "a", "--expires", "2027-W47"],
            "--expires 2027-W47: give a date such as 2027-11-21",
        ),
        (
            [*EXPORT, "--from", "2024-10-05", "--to", "2024-10-04"],
            "the range from 2024-10-05 to 2024-10-04 ends before it begins",
        ),
        (["restore", "no.db", "new.db"], "no.db: there is no such store"),
        (["compact", "reports.db", "--registry", "no.toml"], "no.toml: no such file or directory"),
    ],
)
def test_bad_input_is_one_sentence(folder: Path, arguments: list[str], said: str) -> None:
    done = within("store", *arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("overstory: error: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_every_action_has_an_example_in_its_help(folder: Path) -> None:
    actions = ("create", "summary", "compact", "retain", "backup", "restore", "export", "tokens")
    for words in (*((one,) for one in actions), *(("tokens", verb) for verb in ("add", "list", "revoke"))):
        done = within("store", *words, "--help", cwd=folder)
        assert done.returncode == 0
        assert "example:\n  overstory store" in done.stdout


def test_notes_are_added_listed_and_removed(folder: Path) -> None:
    adding = "notes", "add", "reports.db", "Version 3 is out"
    release = answer(folder, *adding, "--kind", "release", "--day", "2026-11-16", "--metric", "colour")
    assert {**release, "id": ""} == {
        "id": "",
        "metric": "colour",
        "day": "2026-11-16",
        "kind": "release",
        "text": "Version 3 is out",
    }
    plain = within("store", *adding, "--day", "2026-11-17", cwd=folder).stdout.strip()
    listed = within("store", "notes", "list", "reports.db", cwd=folder).stdout
    assert f"{release['id']}  2026-11-16  release  colour       Version 3 is out\n" in listed
    assert f"{plain}  2026-11-17  note     all metrics  Version 3 is out\n" in listed
    assert answer(folder, "summary", "reports.db")["notes"] == 2
    assert "0 collectors seen within a week, 2 notes" in within("store", "summary", "reports.db", cwd=folder).stdout
    assert answer(folder, "notes", "remove", "reports.db", release["id"]) == {"removed": release["id"]}
    assert [note["id"] for note in answer(folder, "notes", "list", "reports.db", "--metric", "colour")["notes"]] == [
        plain
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("add", "reports.db", "x", "--day", "yesterday"), "--day yesterday: give a date such as 2026-11-21"),
        (("add", "reports.db", "x", "--day", "2026-W47"), "--day 2026-W47: give a date such as 2026-11-21"),
        (("add", "reports.db", "x", "--kind", "rumour"), "a note is of kind release, incident or note; not 'rumour'"),
        (("add", "reports.db", "x", "--metric", "tree"), "the store remembers no metric tree: it remembers colour"),
        (("add", "reports.db", "two\nlines"), "a note is one line of printable characters"),
        (("remove", "reports.db", "00"), "there is no note 00: overstory store notes list shows the ids"),
    ],
)
def test_a_note_that_makes_no_sense_is_refused_in_a_sentence(folder: Path, arguments: Any, why: str) -> None:
    done = within("store", "notes", *arguments, cwd=folder)
    assert (done.returncode, why in done.stderr, done.stderr.count("\n")) == (2, True, 1)
