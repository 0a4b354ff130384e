"""Run the installed command as a person would: a process of its own."""

import contextlib
import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from overstory.cli.main import main
from support.listening_process import assigned


def _ran(words: list[str], environment: dict[str, str], timeout: float, cwd: Path | None = None):
    given = {"cwd": cwd, "env": os.environ | environment, "timeout": timeout}
    return subprocess.run([sys.executable, *words], **given, capture_output=True, text=True, check=False)


def overstory(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``overstory`` with these arguments; of the form ``OVERSTORY_NAME=VALUE`` they are variables."""
    words, variables = assigned([str(argument) for argument in arguments])
    return _ran(["-m", "overstory", *words], variables | environment, 120, cwd)


def within(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``overstory`` in this process: for the many cases where only what it does and says is asked."""
    written = io.BytesIO()  # below the text: a file that is written to standard output goes there as bytes
    out, err = io.TextIOWrapper(written, "utf-8", write_through=True), io.StringIO()
    texts, variables = assigned([str(argument) for argument in arguments])
    with (
        patch.dict(os.environ, variables),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = main(texts)
    return subprocess.CompletedProcess(texts, status, written.getvalue().decode("utf-8"), err.getvalue())


def done(cwd: Path, *arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Do the same, and hold the command to its status; an error is one line."""
    ran = within(*arguments, cwd=cwd)
    assert ran.returncode == status, ran.stderr
    assert status == 0 or len(ran.stderr.splitlines()) == 1
    return ran


def at_a_terminal(arguments: str, cwd: Path, stream: str, **environment: str) -> str:
    """What a command writes to a terminal by one of its streams, without colours."""
    ours, theirs = pty.openpty()
    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    command = [sys.executable, "-m", "overstory", *arguments.split()]
    with subprocess.Popen(
        command, cwd=cwd, env=os.environ | {"TERM": "xterm"} | environment, **silent | {stream: theirs}
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the command has ended
            while piece := os.read(ours, 1 << 16):
                shown += piece
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


SHELL = frozenset("|&;<>()$`\\*?[]#~!{}\n")


def simple_command(line: str) -> list[str]:
    """Return the arguments of a line that is one ``overstory`` command, and nothing where a shell has work to do."""
    words = [] if SHELL & set(line) else shlex.split(line)
    return words[1:] if words[:1] == ["overstory"] else []


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return _ran(["-c", code], environment, 60)
