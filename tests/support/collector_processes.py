"""Real collectors: `overstory serve` in processes of their own, to be killed."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.listening_process import ListeningProcess


@dataclass
class CollectorProcess(ListeningProcess):  # one collector on a store
    registry: Path
    store: str
    options: Sequence[str] = ("--open-writes",)
    program: Sequence[str] = (sys.executable, "-m", "overstory", "serve")  # or what `support.misfortunes.unlucky` says
    said: list[str] = field(default_factory=list, init=False)

    def command(self) -> list[str]:
        files = ["--registry", str(self.registry), "--store", self.store]
        return [*self.program, *files, "--port", "0", *self.options]
