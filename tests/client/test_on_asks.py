"""A4: `on` shows what is asked for and then asks; a script says --yes; nothing is recorded before."""

import os
import signal
import subprocess
import sys

import pytest

from overstory.client.consent import read_consent
from overstory.client.person.status import SCREEN
from overstory.client.state.files import StatePaths, introduce
from support.devices import DEFAULT, REGISTRY, registry

if sys.platform == "win32":
    pytest.skip("terminals of POSIX", allow_module_level=True)
import pty

ONE = registry(colour=DEFAULT["colour"])
FORBIDDING = {"CI", "DO_NOT_TRACK", "OVERSTORY", "OVERSTORY_STATE"}
COMMAND = [sys.executable, "-m", "overstory.client"]


class Terminal:
    """A command that runs in a terminal of its own."""

    def __init__(self, folder, *argv):
        environ = {name: value for name, value in os.environ.items() if name not in FORBIDDING}
        self._here, there = pty.openpty()
        command, streams = [*COMMAND, *argv], {"stdin": there, "stdout": there, "stderr": there}
        self.process = subprocess.Popen(command, cwd=folder, env=environ, start_new_session=True, **streams)
        os.close(there)
        self.shown = ""

    def until(self, text):
        while text not in self.shown:
            try:
                read = os.read(self._here, 4096)
            except OSError:  # what Linux says where the other end is closed
                break
            if not read:
                break
            self.shown += read.decode()
        return self.shown

    def answer(self, text):
        os.write(self._here, text.encode())

    def end(self):
        self.until("\0")
        os.close(self._here)
        return self.process.wait(20)


def begun(tmp_path, asks=REGISTRY):
    (tmp_path / "metrics.toml").write_text(asks.text)
    return "on", "--app", "./state", "--registry", "metrics.toml"


def test_on_a_terminal_it_asks_after_it_has_shown_one_screen(tmp_path):
    asking = Terminal(tmp_path, *begun(tmp_path))
    shown = asking.until("[y/N] ")
    assert shown.endswith(f"Agree to these {len(REGISTRY)} metrics? [y/N] ")
    asked = shown.count("\r\n- ")
    assert 1 <= asked < len(REGISTRY)
    assert f"and {len(REGISTRY) - asked} more: --details" in shown
    assert shown.count("\n") < SCREEN
    assert "reports go to:" in shown
    assert not (tmp_path / "state").exists(), "nobody has agreed yet"
    asking.answer("Yes\n")
    assert asking.end() == 0
    assert "on, from" in asking.shown
    assert set(read_consent(StatePaths(tmp_path / "state")).metrics) == set(REGISTRY)


def test_a_choice_is_for_the_collector_that_was_shown(tmp_path):
    asking = Terminal(tmp_path, *begun(tmp_path, ONE))
    assert "reports go to: nobody yet" in asking.until("[y/N] ")
    paths = StatePaths(tmp_path / "state")
    introduce(paths, "app", ONE, "https://b.example")  # a program starts while the person reads
    asking.answer("yes\n")
    assert asking.end() == 0
    assert read_consent(paths).server is None


@pytest.mark.parametrize("no", ["\n", "yes please\n", "\x04"])
def test_any_other_answer_changes_nothing(tmp_path, no):
    asking = Terminal(tmp_path, *begun(tmp_path, ONE))
    assert asking.until("[y/N] ").endswith("Agree to this metric? [y/N] ")
    asking.answer(no)
    assert asking.end() == 0
    assert "not agreed: nothing has changed" in asking.shown
    assert not (tmp_path / "state").exists()


def test_an_interrupt_changes_nothing(tmp_path):
    asking = Terminal(tmp_path, *begun(tmp_path, ONE))
    asking.until("[y/N] ")
    asking.process.send_signal(signal.SIGINT)
    assert asking.end() == 130
    assert "Traceback" not in asking.shown
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("more", "answers"), [((), "a file"), (("--json",), "a file"), ((), "a terminal")], ids=["text", "JSON", "terminal"]
)
def test_who_cannot_be_asked_or_cannot_see_the_question_agrees_by_yes_alone(tmp_path, more, answers):
    """An answer may lie ready, or come from a terminal, while what is asked for goes into a file."""
    (tmp_path / "answer").write_text("y\n")
    here, there = pty.openpty()
    with (tmp_path / "answer").open() as answer:
        given = answer if answers == "a file" else there
        settings = {"stdin": given, "capture_output": True, "text": True, "cwd": tmp_path, "timeout": 60}
        ran = subprocess.run([*COMMAND, *begun(tmp_path, ONE), *more], check=False, **settings)
    os.close(here)
    os.close(there)
    assert ran.returncode == 2
    assert ran.stderr.endswith("give --yes\n")
    assert ran.stderr.count("\n") == 1
    assert (f"- {ONE['colour'].title}: " in ran.stdout) == (not more)
    assert not (tmp_path / "state").exists()
