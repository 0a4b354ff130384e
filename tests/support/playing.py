"""A newcomer at a shell: a new folder, a new home, an empty environment, and the commands of the documentation.

What a shell has nothing to do for runs in the process of the test, and so without the second that an interpreter takes
to start; `make test-all` plays every newcomer a second time with a process for each command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from support.running import simple_command, within

INIT = (
    "overstory metrics init --id theme --values light,dark,system --description 'The theme in use.'"
    " --owner 'Notes team' --purpose https://example.org/issues/7 --epsilon 2 --yes"
)


@dataclass(frozen=True)
class Newcomer:
    """Somebody who has just installed Overstory.

    Attributes
    ----------
    folder
        Where they work.
    bin
        The folder of the installed commands.
    processes
        Whether each command is a process of its own.
    """

    folder: Path
    bin: Path = Path(sys.executable).parent
    processes: bool = True

    @property
    def environment(self) -> dict[str, str]:
        """A home of their own and the installed commands, nothing else."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {"HOME": str(home), "PATH": f"{self.bin}{os.pathsep}{os.defpath}"}

    def shell(self, line: str, *, status: int = 0) -> str:
        """Run a line as it is typed; return what it printed, errors after results."""
        arguments = [] if self.processes else simple_command(line)
        ran = self._inside(arguments) if arguments else self._process(line)
        said = ran.stdout + ran.stderr
        assert ran.returncode == status, f"{line}: status {ran.returncode}\n{said}"
        assert "Traceback" not in said
        return said

    def _process(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )

    def _inside(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        environment = mock.patch.dict(os.environ, self.environment, clear=True)
        with Path(os.devnull).open(encoding="utf-8") as nothing, environment, mock.patch("sys.stdin", nothing):
            return within(*arguments, cwd=self.folder)

    @contextmanager
    def serving(self, line: str) -> Iterator[Serving]:
        """Run `overstory serve` until SIGTERM; its log is in serve.log."""
        with (self.folder / "serve.log").open("w") as log:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {line}"],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            assert process.stdout is not None
            listening = process.stdout.readline()
            assert listening.startswith("listening on "), self.read("serve.log")
            yield Serving(self, process, listening.split()[-1])
        finally:
            process.terminate()
            process.communicate(timeout=30)

    def write(self, name: str, text: str | bytes) -> None:
        """Put a file into the folder."""
        (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    def read(self, name: str) -> str:
        """Return a file's text."""
        return (self.folder / name).read_text(encoding="utf-8")


PLAYS = [pytest.param(False, id="inside"), pytest.param(True, id="processes", marks=pytest.mark.slow)]
"""What the fixture of a newcomer is played with: commands in the process of the test, and as processes."""


@dataclass(frozen=True)
class Serving:
    """A collector that a newcomer started."""

    newcomer: Newcomer
    process: subprocess.Popen[str]
    url: str

    def logged(self, text: str) -> str:
        """Wait until the log has the text; return the log."""
        end = time.monotonic() + 20
        while text not in (log := self.newcomer.read("serve.log")):
            assert time.monotonic() < end, f"no {text!r} in the log:\n{log}"
            time.sleep(0.05)
        return log
