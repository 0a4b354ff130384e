"""A newcomer at a shell: a new folder, a new home, an empty environment, and the commands of the documentation."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Newcomer:
    """Somebody who has just installed Overstory.

    Attributes
    ----------
    folder
        Where they work.
    bin
        The folder of the installed commands.
    """

    folder: Path
    bin: Path = Path(sys.executable).parent

    def shell(self, line: str, *, status: int = 0) -> str:
        """Run a line as it is typed; return what it printed, errors after results."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        ran = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env={"HOME": str(home), "PATH": f"{self.bin}{os.pathsep}{os.defpath}"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        said = ran.stdout + ran.stderr
        assert ran.returncode == status, f"{line}: status {ran.returncode}\n{said}"
        assert "Traceback" not in said
        return said

    def write(self, name: str, text: str | bytes) -> None:
        """Put a file into the folder."""
        (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    def read(self, name: str) -> str:
        """Return a file's text."""
        return (self.folder / name).read_text(encoding="utf-8")
