"""What a scene is, and what scenes are played with: commands, and processes in which nothing is by chance."""

import contextlib
import functools
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from normal import parsed

FROZEN = Path(__file__).with_name("frozen.py")
KEPT = ("PATH", "VIRTUAL_ENV", "SYSTEMROOT", "TMPDIR")
"""What a process keeps of the environment: nothing that forbids reporting, such as the variables of a CI service."""

Scene = Callable[[Path], str]
SCENES = {}  # by name: given a folder with the inputs, each gives the text that is compared


def scene(play):
    """Add a scene under the name of its function."""
    name = play.__name__.replace("_", "-")
    assert name not in SCENES, name
    SCENES[name] = play
    return play


@functools.cache
def _main():
    (script,) = entry_points(group="console_scripts", name="overstory")
    return script.load()


def run(place, line, *files):
    """Run a command in this process; its outcome, and the files that it wrote."""
    arguments = shlex.split(line)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.chdir(place), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = _main()(arguments)
    out.seek(0)
    return shown(line, status, out.read(), err.getvalue()) + "".join(_file(place / name, name) for name in files)


def run_each(place, *lines):
    return "".join(run(place, line) for line in lines)


def _file(path, name):
    return f"--- {name}\n{parsed(path.read_text('utf-8')) if path.exists() else '(not written)'}\n"


def shown(line, status, out, err):
    """The outcome of a command as text."""
    parts = (("", parsed(out)), ("--- errors\n", err))
    return f"$ overstory {line}\nexit {status}\n" + "".join(head + text for head, text in parts if text)


def environment(place):
    """An environment of a few variables, and with its home in the scene's folder."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(("PYTHON", "NUMBA_"))}
    home = str(place / "home")
    return kept | {"HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home, "LANG": "C.UTF-8", "TZ": "UTC"}


def play_frozen(place, *steps):
    """Play steps in one process in which nothing is by chance; a text is a command."""
    asked = [{"run": shlex.split(step)} if isinstance(step, str) else step for step in steps]
    ran = subprocess.run(
        [sys.executable, FROZEN],
        input=json.dumps(asked),
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return [_outcome(step, came) for step, came in zip(asked, json.loads(ran.stdout), strict=True)]


def _outcome(step, came):
    if "recorded" in came:
        pairs = zip(step["record"], came["recorded"], strict=True)
        return "".join(f"record {metric} {json.dumps(value)}: {result}\n" for (metric, value), result in pairs)
    return shown(shlex.join(step["run"]), came["status"], came["out"], came["err"])


@contextlib.contextmanager
def serving(place, *arguments, **settings):
    """Run a collector in a process in which nothing is by chance; give its address."""
    words = [sys.executable, str(FROZEN), "overstory", "serve", "--port", "0", *arguments]
    variables = {f"OVERSTORY_{name}": value for name, value in settings.items()}
    with subprocess.Popen(
        words,
        cwd=place,
        env=environment(place) | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if " serves http://" in line:
                    break
            address = lines[-1].partition(" serves ")[2].split(": ")[0] if lines else ""
            assert address, "".join(lines)
            yield address, process
        finally:
            process.terminate()
            process.stderr.read()
