"""The person: a program on this machine uses Overstory, and docs/how-to/person.md is what they read."""

import os
import subprocess

import pytest

from support.playing import INIT, PLAYS, Newcomer

pty = pytest.importorskip("pty", reason="terminals of POSIX")

PROGRAM = """\
import sys
from overstory.client import Client

with Client(sys.argv[1], registry="metrics.toml", server="http://127.0.0.1:9") as client:
    print(client.record("theme", "dark"))
"""


@pytest.fixture(params=PLAYS)
def person(request, tmp_path):
    newcomer = Newcomer(tmp_path, processes=request.param)
    newcomer.write("program.py", PROGRAM)
    newcomer.shell(INIT)
    return newcomer


def answered(newcomer, line, answer):
    """Run a line in a terminal, and type the answer where a question ends; return what the terminal showed."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        ["/bin/sh", "-c", line],
        cwd=newcomer.folder,
        env=newcomer.environment,
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
    )
    os.close(there)
    shown = ""
    try:
        while read := os.read(here, 4096):
            shown += read.decode()
            if shown.endswith("[y/N] "):
                os.write(here, answer)
    except OSError:  # the end of a terminal
        pass
    os.close(here)
    assert process.wait(20) == 0
    return shown


def test_before_any_program(person):
    assert "nothing is recorded, and nothing is sent" in person.shell("overstory status")
    for command in ("on --yes", "off", "view", "forget --yes", "off --app notes"):
        assert "overstory: error: no application" in person.shell(f"overstory {command}", status=2)
    assert not list((person.folder / "home").rglob("*")), "looking made something"


def test_one_program_asks_and_is_answered_at_a_terminal(person):
    """A4: `on` showed and agreed at once. A3: a person needed the registry's file."""
    assert person.shell("python program.py notes") == "not-asked\n"
    assert "off: the person has not been asked" in person.shell("overstory status")
    assert "give --yes" in person.shell("overstory on", status=2)
    shown = answered(person, "overstory on", b"\n")
    assert "What 30 reports can tell of you" in shown
    assert "not agreed: nothing has changed" in shown.rpartition("[y/N]")[2]
    assert person.shell("python program.py notes") == "not-asked\n"
    assert "on, from " in answered(person, "overstory on", b"y\n")
    assert person.shell("python program.py notes") == "recorded\n"
    assert "waiting: 1, due within" in person.shell("overstory status")


def test_looking_stopping_and_forgetting(person):
    person.shell("python program.py notes && overstory on --yes && python program.py notes")
    shown = person.shell("overstory view")
    for part in ("Exactly what was or will be sent", "What the collector could infer", "Privacy spent"):
        assert part in shown
    explained = person.shell("overstory view --explain theme=dark")
    assert "theme = dark, explained" in explained
    assert "written: view.html" in person.shell("overstory view --html view.html")
    assert "<script" not in person.read("view.html")
    assert person.shell("DO_NOT_TRACK=1 python program.py notes") == "off\n"
    assert "off: DO_NOT_TRACK is set" in person.shell("DO_NOT_TRACK=1 overstory status")
    assert "on: the person's choice" in person.shell("overstory status")
    assert "off, from " in person.shell("overstory off")
    assert "waiting: 0" in person.shell("overstory status")
    assert person.shell("python program.py notes") == "off\n"
    assert "give --yes" in person.shell("overstory forget", status=2)
    assert "forgotten: " in person.shell("overstory forget --yes")
    assert "the person has not been asked" in person.shell("overstory status")
    assert person.shell("python program.py notes") == "not-asked\n"


def test_two_programs_and_a_typo(person):
    """A3: `off --app TYPO` succeeded, made a folder, and the real application went on."""
    person.shell("python program.py notes; python program.py editor; overstory on --app notes --yes")
    person.shell("python program.py notes")
    rows = [line.split() for line in person.shell("overstory status").splitlines()]
    assert ["editor", "off"] in [row[:2] for row in rows]
    assert ["notes", "on", "1"] in [row[:3] for row in rows]
    for command in ("off", "view", "on --yes", "forget --yes", "status"):
        said = person.shell(f"overstory {command} --app ntoes", status=2)
        assert "no application 'ntoes' has a state here" in said
        assert "there are: editor, notes" in said
    assert "Which application? Use --app NAME (here: editor, notes)." in person.shell("overstory off", status=2)
    assert person.shell("overstory off --all").startswith("editor: off, from ")
    assert "ntoes" not in person.shell("overstory status")
    assert person.shell("python program.py notes") == "off\n"
