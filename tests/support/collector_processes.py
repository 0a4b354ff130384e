"""Real collectors: `overstory serve` in processes of their own, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

READY: Final = "listening on http://"


@dataclass
class CollectorProcess:
    """One collector on a store.

    Parameters
    ----------
    registry, store
        The metric registry's file, and the store's URL.
    options
        More options of `overstory serve`.
    """

    registry: Path
    store: str
    options: Sequence[str] = ("--open-writes",)
    address: tuple[str, int] | None = field(default=None, init=False)
    said: list[str] = field(default_factory=list, init=False)
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    def start(self) -> tuple[str, int]:
        """Start it, and return where it listens once it does."""
        command = [sys.executable, "-m", "overstory", "serve", "--registry", str(self.registry), "--store", self.store]
        self._process = subprocess.Popen(
            [*command, "--port", "0", *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)
            if READY in line:
                host, _, port = line.split(READY)[1].split()[0].rstrip("/").rpartition(":")
                self.address = (host, int(port))
                return self.address
        raise AssertionError(
            f"the collector ended with {self._process.wait()} before it listened:\n{''.join(self.said)}"
        )

    @property
    def pid(self) -> int:
        """Its process number, while it runs."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM: drain and go; return the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process, self.address = self._process, None, None
        if process is None:
            return 0
        os.killpg(process.pid, how)
        status = process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
        return status
