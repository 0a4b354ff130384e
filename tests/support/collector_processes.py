"""Real collectors: `overstory serve` in processes of their own, to be killed."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.listening_process import ListeningProcess


@dataclass
class CollectorProcess(ListeningProcess):
    """One collector on a store.

    Parameters
    ----------
    registry, store
        The metric registry's file, and the store's URL.
    options
        More options of `overstory serve`.
    program
        What runs that: the command itself, or `support.misfortunes.unlucky`.
    """

    registry: Path
    store: str
    options: Sequence[str] = ("--open-writes",)
    program: Sequence[str] = (sys.executable, "-m", "overstory", "serve")
    said: list[str] = field(default_factory=list, init=False)

    def command(self) -> list[str]:
        files = ["--registry", str(self.registry), "--store", self.store]
        return [*self.program, *files, "--port", "0", *self.options]
