"""A3: the person's commands know the applications that are here, and what each asks for; other names are refused."""

import json
import os
from pathlib import Path

import pytest

from overstory.client import Client
from overstory.client.consent import read_consent
from overstory.client.outcomes import StateError
from overstory.client.person.commands import main
from overstory.client.state.files import StatePaths, applications, is_state, left_registry, read_application
from overstory.client.state.state import State, erase
from overstory.protocol.metrics import MetricRegistry
from support.devices import DEFAULT, REGISTRY, Clock, registry


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return {"XDG_STATE_HOME": str(tmp_path / "home"), "LOCALAPPDATA": str(tmp_path / "home"), "HOME": str(tmp_path)}


def started(home, name, *values, choice=None, asks=REGISTRY):
    """Run a program that records, as it does on a person's machine; return where its state is."""
    with Client(name, registry=asks, environ=home, policy="none", clock=Clock()) as client:
        if choice is not None:
            client.consent(choice)
        for value in values or ("red",):
            client.record("colour", value)
    return client.paths


@pytest.fixture
def run(home, capsys):
    def ran(*argv):
        status = main([*argv], environ=home)
        told = capsys.readouterr()
        return status, told.out + told.err

    return ran


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_one_application_is_the_one_that_is_meant(home, run):
    paths = started(home, "notes", choice="on")
    for command in (("status",), ("view",), ("off",), ("forget", "--yes")):
        status, told = run(*command)
        assert status == 0
        assert told.startswith("application: notes\n")
    assert not paths.secret.exists()


def test_several_are_a_table_in_status_and_a_question_in_other_commands(home, run):
    started(home, "notes")
    started(home, "editor", choice="on")
    status, told = run("status")
    assert status == 0
    lines = told.splitlines()
    assert lines[0].split() == ["application", "now", "waiting", "sent", "because", "of"]
    assert lines[1].split()[:4] == ["editor", "on", "1", "0"]
    assert lines[2].split()[:4] == ["notes", "off", "0", "0"]
    assert lines[2].endswith("the person has not been asked")
    before = everything(Path(home["XDG_STATE_HOME"]))
    for command in ("on", "local", "off", "forget", "view"):
        status, told = run(command)
        assert status == 2
        assert "Which application? Use --app NAME (here: editor, notes)." in told
    assert everything(Path(home["XDG_STATE_HOME"])) == before


@pytest.mark.parametrize("command", ["status", "view", "off", "forget", "on", "local"])
def test_a_name_or_a_folder_that_is_not_here_is_refused_and_nothing_is_made(home, run, tmp_path, command):
    started(home, "notes", choice="on")
    before = everything(tmp_path)
    status, told = run(command, "--app", "ntoes")
    assert (status, told.endswith("; there are: notes\n")) == (2, True)
    assert "no application 'ntoes' has a state here" in told
    if command != "forget":
        status, told = run(command, "--app", "./sttae")
        assert (status, "sttae: there is no state here" in told) == (2, True)
    assert everything(tmp_path) == before
    assert not list(tmp_path.rglob("ntoes")) + list(tmp_path.rglob("sttae"))


def test_where_nothing_is_here_status_says_so(home, run):
    assert run("status") == (0, "no application of yours has a state here: nothing is recorded, and nothing is sent\n")
    status, told = run("off")
    assert status == 2
    assert f"no application has a state here, in {home['XDG_STATE_HOME']}/overstory" in told
    assert run("off", "--all")[0] == 0
    assert not Path(home["XDG_STATE_HOME"]).exists()


def test_the_folder_that_the_environment_names_is_the_only_one(home, run, tmp_path):
    started(home, "editor")
    home["OVERSTORY_STATE"] = str(tmp_path / "own")
    started(home, "notes", choice="on")
    assert run("status")[1].startswith("application: notes\non: ")
    assert "\nAll reports of the first year: there is no known limit" in run("status")[1]
    status, told = run("off", "--app", "editor")
    assert status == 2
    assert told.endswith("no application 'editor' has a state here; there are: notes\n")
    assert run("off", "--app", "notes")[0] == 0


def test_what_is_no_state_is_not_listed(home):
    folder = Path(home["XDG_STATE_HOME"]) / "overstory"
    (folder / "empty").mkdir(parents=True)
    (folder / "no name").mkdir()
    (folder / "a-file").write_text("x")
    assert applications(home) == {}
    paths = started(home, "forgotten", choice="on")
    paths.application.unlink()
    erase(paths)
    assert [path.name for path in paths.folder.iterdir()] == ["lock"]
    assert applications(home) == {}
    paths.lock.write_bytes(b"begun\n")  # what is lost is there
    assert list(applications(home)) == ["forgotten"]


def test_off_for_all(home, run):
    begun = [started(home, name, choice="on") for name in ("notes", "editor")]
    status, told = run("off", "--all")
    assert status == 0
    assert [line.partition(",")[0] for line in told.splitlines()[:2]] == ["editor: off", "notes: off"]
    assert "has to ask first" in told
    for paths in begun:
        assert read_consent(paths).choice == "off"
    status, told = run("status", "--json")
    assert [one["choice"] for one in json.loads(told)["applications"]] == ["off", "off"]
    assert [one["waiting"] for one in json.loads(told)["applications"]] == [0, 0]


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_off_for_all_goes_on_where_one_cannot_be_turned_off(home, run, monkeypatch):
    from overstory.client import consent

    begun = [started(home, name, choice="on") for name in ("editor", "notes")]
    write = consent.write_atomically

    def full(path, content):
        if path.parent.name == "editor":
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(consent, "write_atomically", full)
    monkeypatch.setattr(consent, "overwrite", full)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    status, told = run("off", "--all")
    assert status == 2
    assert "editor: " in told
    assert "cannot be written: No space left" in told
    assert read_consent(begun[1]).choice == "off"


def test_all_and_one_do_not_go_together(home, run):
    started(home, "notes")
    status, told = run("off", "--all", "--app", "notes")
    assert status == 2
    assert "--all is every application: leave --app out" in told


def test_a_program_that_offers_the_commands_is_the_one_that_is_meant(home, run, capsys):
    started(home, "notes", choice="on")
    assert main(["off"], app="editor", registry=REGISTRY, environ=home) == 0  # its own first run
    assert main(["off", "--all"], app="editor", registry=REGISTRY, environ=home) == 2
    assert "unrecognized arguments: --all" in capsys.readouterr().err
    assert read_consent(applications(home)["editor"]).choice == "off"


def test_no_command_needs_a_file(home, run):
    started(home, "notes")
    status, told = run("on", "--yes")
    assert status == 0
    assert f"- {REGISTRY['colour'].title}: " in told
    with Client("notes", registry=REGISTRY, environ=home, policy="none") as client:
        assert client.record("colour", "red") == "recorded"
    assert "colour: 1 report from 1 noisy answer" in run("status", "--details")[1]
    assert run("forget", "--yes")[0] == 0
    assert run("on", "--yes")[0] == 0, "what is asked for is no secret, and stays"


def test_a_later_version_of_the_program_leaves_its_registry(home):
    paths = started(home, "notes")
    later = registry(version="2027-01-01", colour=DEFAULT["colour"])
    started(home, "notes", asks=later)
    assert left_registry(paths) == later
    built = MetricRegistry(later.metrics, later.version)  # made by a program, from no text
    started(home, "notes", asks=built)
    assert not left_registry(paths)


def test_what_was_left_is_written_once(home, monkeypatch):
    started(home, "notes")
    written = []
    monkeypatch.setattr("overstory.client.state.files.write_atomically", lambda path, *_, **__: written.append(path))
    started(home, "notes")
    assert written == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": "notes"}', b'{"name": 3, "registry": ""}', b"[" * 9999])
def test_what_cannot_be_read_is_not_used_and_written_again(home, run, content):
    """A power failure may leave the file empty."""
    paths = started(home, "notes", choice="on")
    paths.application.write_bytes(content)
    assert read_application(paths).registry is None
    status, told = run("status")
    assert status == 0
    assert "note: no registry is kept in this state" in told
    started(home, "notes")
    assert left_registry(paths) == REGISTRY


def test_a_registry_of_a_later_version_is_named_and_off_is_heard(home, run):
    paths = started(home, "notes", choice="on")
    left = json.loads(paths.application.read_text())
    paths.application.write_text(json.dumps(left | {"registry": REGISTRY.text + "\nnew = 1\n"}))
    for command, status in (("on", 2), ("status", 0), ("view", 0), ("off", 0)):
        ran, told = run(command)
        assert ran == status
        assert ("application.json" in told) == (command != "off")
    assert read_consent(paths).choice == "off"


def test_a_state_without_a_registry_says_so(home, run):
    folder = Path(home["XDG_STATE_HOME"]) / "overstory" / "notes"
    folder.parent.mkdir(parents=True)
    State(StatePaths(folder)).begin()
    assert list(applications(home)) == ["notes"]
    for command, status in (("status", 0), ("view", 0), ("on", 2), ("local", 2)):
        ran, told = run(command)
        assert ran == status
        assert "no registry is kept in this state" in " ".join(told.split())
        assert "give --registry FILE" in " ".join(told.split())
    assert not is_state(StatePaths(folder / "none"))
    started(home, "notes")
    assert "no registry" not in run("status")[1]


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_registry_that_others_could_have_written_is_not_shown(home, run):
    """T20: who can write to the folder would say what a person agrees to."""
    paths = started(home, "notes")
    paths.application.chmod(0o666)
    status, told = run("on", "--yes")
    assert status == 2
    assert f"chmod 600 {paths.application}" in told
    assert read_consent(paths) is None
    with pytest.raises(StateError, match="chmod 600"):
        left_registry(paths)
