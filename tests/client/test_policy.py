"""The effective state: every source is a ceiling, and the cause is told."""

import os
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import pytest

from overstory.client import Choice, Outcome
from overstory.client.consent import CI_VARIABLES, PermissionSources, choose, effective, of_environment, read_consent
from overstory.client.state.files import policy_file, state_folder
from overstory.protocol.errors import ParameterError
from support.collector_doubles import CountingCollector
from support.devices import BINS, DEFAULT, NOON, REGISTRY, Clock, device, queue_report, registry
from support.processes import in_child

TODAY = date(2026, 11, 21)
posix = pytest.mark.skipif(sys.platform == "win32", reason="file modes of POSIX")


def test_nobody_asked_is_off_and_says_so(paths, policy):
    found = effective(paths, {}, policy)
    assert (found.choice, found.cause, found.asked) == (Choice.OFF, "the person has not been asked", False)
    for choice in Choice:
        choose(paths, REGISTRY, choice, TODAY)
        found = effective(paths, {}, policy)
        assert (found.choice, found.cause, found.asked) == (choice, "the person's choice of 2026-11-21", True)


@pytest.mark.parametrize(
    ("environ", "allowed", "cause"),
    [
        ({"OVERSTORY": "off"}, "off", "OVERSTORY=off"),
        ({"OVERSTORY": " OFF "}, "off", "OVERSTORY= OFF "),
        ({"OVERSTORY": "0"}, "off", "OVERSTORY=0"),
        ({"OVERSTORY": "local"}, "local", "OVERSTORY=local"),
        ({"OVERSTORY": "nonsense"}, "off", "not off, local or on"),
        ({"OVERSTORY": "on"}, "on", "the person's choice"),
        ({"OVERSTORY": ""}, "on", "the person's choice"),
        ({"DO_NOT_TRACK": "1"}, "off", "DO_NOT_TRACK is set"),
        ({"DO_NOT_TRACK": "true"}, "off", "DO_NOT_TRACK is set"),
        ({"DO_NOT_TRACK": "0"}, "on", "the person's choice"),
        ({"DO_NOT_TRACK": ""}, "on", "the person's choice"),
        ({"OVERSTORY": "local", "DO_NOT_TRACK": "1"}, "off", "DO_NOT_TRACK is set"),
        ({"OVERSTORY": "off", "DO_NOT_TRACK": "1"}, "off", "OVERSTORY=off"),
        ({"OVERSTORY": "on", "CI": "true"}, "off", "CI is set"),
        ({"CI": "false"}, "on", "the person's choice"),
        *[({name: "1"}, "off", f"{name} is set: a continuous-integration") for name in CI_VARIABLES],
    ],
)
def test_the_environment_is_honoured(paths, policy, environ, allowed, cause):
    choose(paths, REGISTRY, "on", TODAY)
    found = effective(paths, environ, policy)
    assert found.choice == allowed
    assert cause in found.cause


def test_no_word_of_the_environment_or_the_administrator_stands_in_for_consent(paths, policy):
    policy.write_text('{"reporting": "ask"}')
    assert effective(paths, {"OVERSTORY": "on", "DO_NOT_TRACK": "0"}, policy).choice is Choice.OFF
    choose(paths, REGISTRY, "off", TODAY)
    assert effective(paths, {"OVERSTORY": "on"}, policy).choice is Choice.OFF
    assert of_environment({"OVERSTORY": "on"}).choice is Choice.ON


FORBIDDING = ['{"reporting": "off"}', '{"reporting": "on"}', '{"reporting": ["off"]}', '{"report": "ask"}']
NOT_UNDERSTOOD = ["[]", "null", "{", "", "[" * 100_000, b"\xff\xfe\x00"]


@pytest.mark.parametrize(
    ("content", "allowed"),
    [
        *((content, "off") for content in (*FORBIDDING, *NOT_UNDERSTOOD)),
        ('{"reporting": "local"}', "local"),
        ('{"reporting": "ask"}', "on"),
        ('{"reporting": "ask", "reason": "more keys are for later versions"}', "on"),
    ],
)
def test_the_administrators_policy_is_honoured_and_one_that_is_not_understood_forbids(paths, policy, content, allowed):
    choose(paths, REGISTRY, "on", TODAY)
    policy.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = effective(paths, {}, policy)
    assert found.choice == allowed
    if allowed != "on":
        assert str(policy) in found.cause


def test_the_policy_comes_first_among_those_that_forbid_as_much(paths, policy):
    policy.write_text('{"reporting": "off"}')
    assert "administrator" in effective(paths, {"OVERSTORY": "off"}, policy).cause
    policy.write_text('{"reporting": "local"}')
    assert effective(paths, {"OVERSTORY": "off"}, policy).cause == "OVERSTORY=off"


def test_a_policy_that_is_a_folder_forbids(paths, tmp_path):
    choose(paths, REGISTRY, "on", TODAY)
    found = effective(paths, {}, tmp_path)
    assert found.choice is Choice.OFF
    assert "cannot be read" in found.cause


@posix
def test_a_choice_that_cannot_be_read_is_off(tmp_path, paths, policy):
    choose(paths, REGISTRY, "on", TODAY)
    temporary = Path(tempfile.gettempdir())
    for parent in (paths.folder, *(one for one in paths.folder.parents if temporary in one.parents)):
        parent.chmod(0o711)

    def another_person():
        found = effective(paths, {}, policy)
        assert found.choice is Choice.OFF
        assert "nothing is recorded until it can be read" in found.cause

    in_child(another_person, as_nobody=True)


def test_a_change_by_another_process_is_seen_at_once(paths, policy):
    authority = PermissionSources(paths, {}, policy)
    seen = [authority.now().choice]
    for choice in ("on", "off", "local", "on"):
        choose(paths, REGISTRY, choice, TODAY)
        seen.append(authority.now().choice)
    policy.write_text('{"reporting": "off"}')
    seen.append(authority.now().choice)
    paths.consent.unlink()
    policy.unlink()
    seen.append(authority.now().choice)
    assert seen == ["off", "on", "off", "local", "on", "off", "off"]


def test_files_that_did_not_change_are_not_read_again(paths, policy, monkeypatch):
    choose(paths, REGISTRY, "on", TODAY)
    authority = PermissionSources(paths, {}, policy)
    first = authority.now()
    monkeypatch.setattr("overstory.client.consent.read_consent", lambda _: pytest.fail("read again"))
    assert authority.now() is first


@pytest.mark.parametrize("choice", ["yes", "", None, 1, "ON"])
def test_there_are_three_choices(paths, choice):
    with pytest.raises(ParameterError, match="choose one of off, local, on"):
        choose(paths, REGISTRY, choice, TODAY)
    assert not paths.folder.exists()


def test_a_new_metric_asks_again_and_the_others_go_on(tmp_path):
    device(tmp_path)
    later = registry(version="2027-01-01", **DEFAULT, extra=BINS)
    client = device(tmp_path, registry=later, choice=None)
    assert client.record("extra", 1) is Outcome.NOT_ASKED
    assert client.record("colour", "red") is Outcome.RECORDED
    assert client.status().missing == {"extra": ("it is new",)}
    client.consent("on")
    assert client.record("extra", 1) is Outcome.RECORDED
    assert client.flush().written == {"queued": 2}  # a renewed consent does not take back what it covers
    assert read_consent(client.paths).registry == "2027-01-01"


def test_off_is_an_answer_to_what_is_asked_later_too(tmp_path):
    device(tmp_path, choice="off", registry=registry(colour=DEFAULT["colour"]))
    later = device(tmp_path, choice=None)
    assert later.status().missing == {}
    assert later.record("engine", "x") is Outcome.OFF


@pytest.mark.parametrize(("choice", "left"), [("off", "dropped"), ("local", "local")])
def test_what_waits_does_not_outlive_its_consent(tmp_path, choice, left):
    client = device(tmp_path, spread=0)
    queue_report(client)
    client.record("engine", "x")  # not flushed yet
    client.consent(choice)
    client.consent("on")
    assert client.flush().written == {"withdrawn": 1}
    assert {state: n for state, n in client.status().outbox.items() if n} == {left: 1}


@pytest.mark.parametrize("environ", [{"DO_NOT_TRACK": "1"}, {"OVERSTORY": "off"}, {"CI": "1"}], ids=str)
def test_what_waits_stays_while_something_else_forbids_and_leaves_after_it(tmp_path, environ):
    """It is the person's own `off` that drops what waits."""
    collector = CountingCollector()
    sends = {"server": "http://c", "transport": collector, "spread": 0}
    first = device(tmp_path, **sends | {"spread": 3600})
    assert queue_report(first).written == {"queued": 1}
    clock = Clock(NOON + 4 * 3600)
    for forbids in (environ, {}):
        client = device(tmp_path, choice=None, clock=clock, environ=forbids, **sends)
        client.flush()
        assert client.status().outbox["waiting"] == len(forbids) == 1 - len(collector.bodies)


def test_a_choice_made_elsewhere_between_record_and_flush_is_obeyed(tmp_path):
    client = device(tmp_path)
    client.record("colour", "red")
    choose(client.paths, REGISTRY, "local", TODAY)
    assert client.flush().written == {"withdrawn": 1}
    client.consent("on")
    assert client.record("colour", "red") is Outcome.RECORDED  # its period was not taken
    client._sources._policy.write_text('{"reporting": "local"}')
    os.utime(client._sources._policy, (time.time() + 5,) * 2)
    assert client.flush().written == {"kept": 1}
    assert client.record("engine", "x") is Outcome.RECORDED  # for the person alone
    client._sources._policy.unlink()
    assert client.flush().written == {"kept": 1}


def test_rows_that_could_not_be_withdrawn_then_are_withdrawn_before_the_next_consent(tmp_path, monkeypatch):
    client = device(tmp_path)
    queue_report(client)
    with monkeypatch.context() as patched:
        from overstory.client.outcomes import Fault, StateError

        def busy(*_):
            raise StateError(Fault.BUSY, "busy")

        patched.setattr("overstory.client.consent._withdraw", busy)
        client.consent("off")
        assert client.status().outbox["waiting"] == 1
        with pytest.raises(StateError):
            client.consent("on")
        assert read_consent(client.paths).choice is Choice.OFF
    client.consent("on")
    assert client.status().outbox["waiting"] == 0


@pytest.mark.parametrize(
    ("environ", "platform", "folder"),
    [
        ({"HOME": "/home/ann"}, "linux", "/home/ann/.local/state/overstory/app"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "/x"}, "linux", "/x/overstory/app"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "x"}, "linux", "/home/ann/.local/state/overstory/app"),
        ({"HOME": "/Users/ann"}, "darwin", "/Users/ann/Library/Application Support/overstory/app"),
        ({"LOCALAPPDATA": "C:/Users/ann/AppData/Local"}, "win32", "C:/Users/ann/AppData/Local/overstory/app"),
        ({"USERPROFILE": "C:/Users/ann"}, "win32", "C:/Users/ann/AppData/Local/overstory/app"),
        ({"OVERSTORY_STATE": "/srv/s", "HOME": "/home/ann"}, "linux", "/srv/s"),
    ],
)
def test_the_folder_is_the_platforms(environ, platform, folder):
    assert state_folder("app", environ, platform).as_posix() == folder


@pytest.mark.parametrize("app", ["", "a b", "../up", ".hidden", "x" * 65, None, "é"])
def test_an_application_needs_a_name_that_a_folder_can_have(app):
    with pytest.raises(ParameterError, match="app = "):
        state_folder(app, {"HOME": "/home/ann"}, "linux")


def test_the_policy_file_is_where_administrators_keep_them():
    assert policy_file({}, "linux").as_posix() == "/etc/overstory/policy.json"
    assert policy_file({}, "darwin").as_posix() == "/Library/Application Support/overstory/policy.json"
    assert policy_file({"PROGRAMDATA": "D:/PD"}, "win32").as_posix() == "D:/PD/overstory/policy.json"
