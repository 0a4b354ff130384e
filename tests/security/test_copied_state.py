"""A state on two machines: the copy notices, records and sends nothing, and asks which of the two it is."""

import io
import logging
import shutil
import sqlite3
import subprocess
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from overstory.client import Client, Outcome
from overstory.client.outcomes import Fault, StateError
from overstory.client.person.commands import main
from overstory.client.state import state as state_module
from overstory.client.state.files import StatePaths
from overstory.client.state.state import State, erase
from overstory.client.upload.http import Response
from overstory.protocol.metrics import parse_registry
from support.devices import DAY, NOON, Clock, device
from support.registry_texts import plain_registry

REGISTRY = parse_registry(plain_registry("m"))


class Machines:
    def __init__(self, folder, monkeypatch):
        self.file = folder / "machine-id"
        monkeypatch.setattr(state_module, "PLACES", (folder / "nothing here", self.file))
        self.be("a" * 32)

    def be(self, identity):
        self.file.write_text(f"{identity}\n")
        state_module.machine_id.cache_clear()


@pytest.fixture
def machines(tmp_path, monkeypatch):
    yield Machines(tmp_path, monkeypatch)
    state_module.machine_id.cache_clear()


def there(folder, day=0):
    """A device on a folder, and what it has sent; its collector takes nothing."""
    sent = []

    def take(request):
        sent.append(request.body)
        return Response(503)

    settings = {"registry": REGISTRY, "clock": Clock(NOON + day * DAY), "server": "https://example.org"}
    return device(folder, choice=None, spread=0, transport=take, **settings), sent


def copied(tmp_path):
    first, _ = there(tmp_path / "first")
    first.consent("on")
    assert first.record("m", 1) is Outcome.RECORDED
    first.flush()
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    return tmp_path / "copy"


def test_a_copy_on_another_machine_records_and_sends_nothing_and_says_why(tmp_path, machines):
    folder = copied(tmp_path)
    machines.be("b" * 32)
    copy, sent = there(folder, 1)
    assert copy.record("m", 2) is Outcome.NOT_ASKED
    assert "begun on another machine" in copy.flush().problem
    assert sent == []
    assert "overstory on --moved" in copy.status().problem
    assert "begun on another machine" in there(folder)[0].status().problem  # before anything is recorded
    assert State(StatePaths(folder / "state")).exists
    with pytest.raises(StateError) as caught:
        copy.consent("on")
    assert caught.value.fault is Fault.ELSEWHERE


def test_the_machine_where_it_was_begun_goes_on(tmp_path, machines):
    copied(tmp_path)
    first, sent = there(tmp_path / "first", 1)
    assert first.record("m", 2) is Outcome.RECORDED
    first.flush()
    assert sent
    assert first.status().problem is None


def test_who_moved_keeps_the_secret_and_the_ledger(tmp_path, machines):
    folder = copied(tmp_path)
    before = State(StatePaths(folder / "state")).begin().fingerprint
    machines.be("b" * 32)
    moved, _ = there(folder, 1)
    moved.consent("on", moved=True)
    assert moved.record("m", 1) is Outcome.RECORDED
    assert moved.flush().problem is None
    state = State(StatePaths(folder / "state"))
    assert state.begin().fingerprint == before
    with state.snapshot() as rows:
        assert [response.reports for response in rows.responses("m")] == [2]
    machines.be("a" * 32)
    assert there(folder)[0].record("m", 1) is Outcome.NOT_ASKED  # bound to the other one now


def test_another_device_begins_anew(tmp_path, machines):
    folder = copied(tmp_path)
    before = State(StatePaths(folder / "state")).begin().fingerprint
    machines.be("b" * 32)
    there(folder)[0].consent("off")  # a no is heard on any machine
    erase(StatePaths(folder / "state"))
    fresh, _ = there(folder, 1)
    fresh.consent("on")
    assert fresh.record("m", 1) is Outcome.RECORDED
    assert State(StatePaths(folder / "state")).begin().fingerprint != before


def test_the_commands_say_so_and_take_the_answer(tmp_path, machines, capsys):
    folder = copied(tmp_path)
    registry = tmp_path / "metrics.toml"
    registry.write_text(REGISTRY.text)
    machines.be("b" * 32)
    words = ["--app", str(folder / "state"), "--registry", str(registry)]
    assert main(["status", *words], environ={}) == 0
    assert "begun on another machine" in capsys.readouterr().out
    assert main(["on", *words], environ={}) == 2
    assert "overstory on --moved" in capsys.readouterr().err
    assert main(["on", "--moved", "--yes", *words], environ={}) == 0
    capsys.readouterr()
    assert main(["status", *words], environ={}) == 0
    assert "another machine" not in capsys.readouterr().out


@pytest.mark.parametrize("identity", ["", "uninitialized"])
def test_a_machine_without_an_id_is_not_checked_and_status_says_so(tmp_path, machines, identity):
    folder = copied(tmp_path)
    machines.be(identity)
    assert state_module.machine_id() is None
    other, _ = there(folder, 1)
    assert other.record("m", 2) is Outcome.RECORDED
    assert any("has no id of its own" in line for line in other.status().words())


def test_a_state_begun_without_an_id_is_bound_when_it_is_opened_with_one(tmp_path, machines):
    folder = copied(tmp_path)
    connection = sqlite3.connect(folder / "state" / "state.db", isolation_level=None)
    connection.execute("DELETE FROM about WHERE key = 'machine'")
    connection.close()
    assert there(folder, 1)[0].record("m", 2) is Outcome.RECORDED
    machines.be("b" * 32)
    assert there(folder, 2)[0].record("m", 2) is Outcome.NOT_ASKED


def test_the_id_itself_is_kept_and_sent_nowhere(tmp_path, machines):
    copied(tmp_path)
    first, sent = there(tmp_path / "first", 1)
    first.record("m", 1)
    first.flush()
    mark = state_module.machine_hash(State(StatePaths(tmp_path / "first" / "state")).begin().fingerprint)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "first" / "state").iterdir())
    assert mark in kept
    for needle in (b"a" * 32, bytes.fromhex("a" * 32)):
        assert needle not in kept + b"".join(sent)
    assert mark not in b"".join(sent)


def test_two_states_on_one_machine_have_marks_that_say_nothing_of_each_other(machines):
    assert state_module.machine_hash(b"a" * 32) != state_module.machine_hash(b"b" * 32)


def test_the_ids_of_other_platforms(monkeypatch):
    said = '{\n  "IOPlatformSerialNumber" = "C02"\n  "IOPlatformUUID" = "8A6D-11"\n}\n'
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=said))
    assert state_module.machine_id("darwin") == "8A6D-11"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="?"))
    assert state_module.machine_id("darwin") == "8A6D-11"  # a process asks once
    state_module.machine_id.cache_clear()
    assert state_module.machine_id("darwin") is None
    for odd in ('"IOPlatformUUID" : odd\n', '"IOPlatformUUID" = ""\n', '"IOPlatformUUID"\n'):
        monkeypatch.setattr(subprocess, "run", lambda *_, said=odd, **__: SimpleNamespace(stdout=said))
        state_module.machine_id.cache_clear()
        assert state_module.machine_id("darwin") is None
    failures = (
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        FileNotFoundError(),
        subprocess.TimeoutExpired("ioreg", 5),
    )
    for failure in failures:
        monkeypatch.setattr(subprocess, "run", Mock(side_effect=failure))
        state_module.machine_id.cache_clear()
        assert state_module.machine_id("darwin") is None
    state_module.machine_id.cache_clear()
    registry = SimpleNamespace(
        HKEY_LOCAL_MACHINE=1, OpenKey=lambda *_: io.StringIO(), QueryValueEx=lambda *_: ("c0ffee", 1)
    )
    monkeypatch.setitem(__import__("sys").modules, "winreg", registry)
    assert state_module.machine_id("win32") == "c0ffee"
    state_module.machine_id.cache_clear()


@pytest.mark.parametrize("server", ["http://collect.example.org", "http://10.0.0.1:8080"])
def test_reports_in_the_clear_are_warned_about_once_and_in_the_status(tmp_path, caplog, server):
    with caplog.at_level(logging.WARNING, logger="overstory.client"):
        client = Client("t", registry=REGISTRY, state=tmp_path / "s", server=server, environ={})
        client.record("m", 1)
        client.flush()
    assert [record.getMessage() for record in caplog.records if "unencrypted" in record.getMessage()] == [
        f"reports and the token travel unencrypted to {server.split('/')[2].split(':')[0]}: give an https:// address"
    ]
    assert any(line.startswith("note: reports and the token travel unencrypted") for line in client.status().words())
    assert client.status().to_json()["notes"]


@pytest.mark.parametrize(
    "server", ["https://collect.example.org", "http://localhost:1", "http://a.localhost:1", "http://127.0.0.1:1", None]
)
def test_an_encrypted_or_a_local_server_is_not_warned_about(tmp_path, caplog, server):
    client = Client("t", registry=REGISTRY, state=tmp_path / "s", server=server, environ={})
    assert not caplog.records
    assert not any("unencrypted" in line for line in client.status().words())


def test_the_machine_is_checked_in_the_connection_that_opens_the_state(tmp_path, machines, monkeypatch):
    """A first record opens the database twice, to open the state and to read the metric's past, bound or not."""
    copied(tmp_path)
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: opened.append(given) or connect(*given, **named))
    assert there(tmp_path / "first", 1)[0].record("m", 2) is Outcome.RECORDED
    assert len(opened) == 2
