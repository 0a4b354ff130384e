"""The person's commands, in process and as programs of their own."""

import io
import os
import subprocess
import sys

import pytest

from overstory.cli.main import main as overstory
from overstory.client import Client
from overstory.client.consent import read_consent
from overstory.client.person.command_line import COMMANDS
from overstory.client.person.commands import main
from overstory.client.state.files import StatePaths
from support.devices import NOON, Clock
from support.registry_texts import COLOURS, metric_table, registry_of

ENGINES = '{kind = "strings", candidates = "engines.txt"}'
LISTED = {
    "colour": {"title": '"Favourite colour"', "domain": COLOURS, "max_values": "2"},
    "engine": {"title": '"Search engine"', "domain": ENGINES, "oracle": '"rappor"', "period": '"hour"'},
}
METRICS = registry_of(LISTED, version="2026-11-21", oracle='"basic-rappor"', parameters="{}")

pytestmark = pytest.mark.usefixtures("nothing_forbids")


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "metrics.toml").write_text(METRICS)
    (tmp_path / "engines.txt").write_text("duck.example\nbing.example\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def paths(here) -> StatePaths:
    return StatePaths(here / "state")


def run(*argv: str) -> int:
    return main([*argv])


STATE = ("--app", "./state")
ALL = (*STATE, "--registry", "metrics.toml")


def record(here, *values: str) -> None:
    clock = Clock(NOON)
    client = Client("editor", registry=here / "metrics.toml", state=here / "state", clock=clock, environ={})
    for value in values:
        assert client.record("colour", value) == "recorded"
        clock.tomorrow()
    client.close()


def test_on_says_when_something_else_forbids_it(here, capsys, monkeypatch):
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    assert run("on", *ALL, "--yes") == 0
    assert "all the same it is off now: DO_NOT_TRACK is set" in capsys.readouterr().out


def test_a_new_metric_is_asked_about_again(here, capsys):
    run("on", *ALL, "--yes")
    (here / "metrics.toml").write_text(METRICS + metric_table("shade", domain=COLOURS))
    capsys.readouterr()
    assert run("status", *ALL) == 0
    assert "not asked about yet, so not recorded: shade" in capsys.readouterr().out


def test_looking_makes_no_file(here, capsys):
    before = sorted(here.rglob("*"))
    for command in ("status", "view"):
        assert run(command, *ALL) == 0
        assert run(command, *ALL, "--json") == 0
    assert sorted(here.rglob("*")) == before
    assert "the person has not been asked" in capsys.readouterr().out


def test_view_needs_no_candidate_files(here, capsys):
    run("on", *ALL, "--yes")
    client = Client("editor", registry=here / "metrics.toml", state=here / "state", clock=Clock(NOON), environ={})
    client.record("engine", "duck.example")
    client.close()
    for said in ("duck.example", "has no list of candidates"):
        capsys.readouterr()
        assert run("view", *ALL) == 0
        assert said in capsys.readouterr().out.replace("\n", " ")
        (here / "engines.txt").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("view",), "no application has a state here"),
        (("view", "--app", "no/name"), "no/name: there is no state here"),
        (("view", "--app", "no name"), "app = 'no name'"),
        (("view", *STATE, "--registry", "none.toml"), "none.toml: No such file"),
        (("view", *ALL, "--json", "--html", "view.html"), "two ways to show it"),
        (("view", *ALL, "--html", "none/view.html"), "none/view.html: No such file"),
        (("dance",), "invalid choice"),
        ((), "the following arguments are required: COMMAND"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(here, capsys, argv, said: str) -> None:
    assert run(*argv) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_forget_says_what_it_means_and_asks(here, capsys, monkeypatch):
    assert run("forget", *STATE) == 0
    assert "nothing to forget" in capsys.readouterr().out
    assert not (here / "state").exists()
    run("on", *ALL, "--yes")
    record(here, "red")
    secret = (here / "state" / "secret").read_bytes()
    for answer in ("\n", "yes\n", "forget it\n", ""):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        assert run("forget", *STATE) == 0
        told = capsys.readouterr().out
        assert "What was sent cannot be taken back" in told
        assert "nothing was deleted" in told
    assert (here / "state" / "secret").read_bytes() == secret
    monkeypatch.setattr(sys, "stdin", Terminal("forget\n"))
    assert run("forget", *STATE) == 0
    assert not (here / "state" / "secret").exists()
    assert read_consent(paths(here)) is None


def test_forget_does_not_guess_where_nobody_can_be_asked(here, capsys, monkeypatch):
    run("on", *ALL, "--yes")
    monkeypatch.setattr(sys, "stdin", io.StringIO("forget\n"))
    assert run("forget", *STATE) == 2
    assert "--yes" in capsys.readouterr().err
    assert read_consent(paths(here)) is not None


def test_forget_helps_where_the_state_is_damaged(here, capsys):
    run("on", *ALL, "--yes")
    record(here, "red")
    (here / "state" / "secret").write_bytes(b"not this")
    capsys.readouterr()
    assert run("view", *ALL) == 0
    assert run("forget", *STATE, "--yes") == 0
    run("on", *ALL, "--yes")
    record(here, "red")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(here, capsys, command: str) -> None:
    for way in (main, overstory):
        assert way([command, "--help"]) == 0
        assert f" {command} --app editor" in capsys.readouterr().out


def started(*argv, **environ):
    command = [sys.executable, "-m", "overstory.client", *argv]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | environ)


def test_a_reader_that_leaves_early_is_no_error(here):
    with started("view", *ALL, PYTHONUNBUFFERED="1") as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait(20)) == (b"", 141)


def test_a_terminal_that_lacks_letters_shows_their_escapes(here):
    (here / "metrics.toml").write_text(METRICS.replace("Favourite colour", "Lieblingsfarbe \u2014 \u8272"), "utf-8")
    with started("view", *ALL, PYTHONIOENCODING="ascii") as process:
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, b"")
    assert b"Lieblingsfarbe \\u2014 \\u8272 (colour)" in out
