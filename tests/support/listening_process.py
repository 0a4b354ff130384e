"""A real server: a command in a process of its own, which announces where it listens, to be stopped or killed."""

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, Self

ANNOUNCED: Final = re.compile(r"listening on https?://(\S+):(\d+)")


def assigned(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words of a command, and its variables: what is among them as ``OVERSTORY_NAME=VALUE``."""
    variables = [word for word in words if word.startswith("OVERSTORY_")]
    pairs = (word.partition("=") for word in variables)
    return [word for word in words if word not in variables], {name: value for name, _, value in pairs}


class ListeningProcess:  # one server, which may be started again after its end
    address: tuple[str, int] | None = None
    said: list[str]
    _process: subprocess.Popen[str] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self, log: Path | None = None, **more) -> tuple[str, int]:
        """Start it, and return where it listens once it does; `log` is added to by its standard error."""
        errors: IO[bytes] | int = subprocess.STDOUT if log is None else log.open("ab")
        command, variables = assigned(self.command())
        more["env"] = more.get("env", os.environ) | variables
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True, **more
        )
        if not isinstance(errors, int):
            errors.close()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)
            if announced := ANNOUNCED.search(line):
                self.address = (announced[1], int(announced[2]))
                return self.address
        said = "".join(self.said) + ("" if log is None else log.read_text())
        raise AssertionError(f"the server ended with {self._process.wait()} before it listened:\n{said}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        assert self.address is not None
        return "http://{}:{}".format(*self.address)

    @property
    def resident(self) -> int:
        """Bytes of memory that it has in use (Linux)."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM: finish and go; return the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process, self.address = self._process, None, None
        if process is None:
            return 0
        os.killpg(process.pid, how)
        status = process.wait(60)
        assert process.stdout is not None
        process.stdout.close()
        return status
