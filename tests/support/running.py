"""Run the installed command as a person would: a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from overstory.cli.main import main


def overstory(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``overstory`` with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "overstory", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def within(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``overstory`` in this process: for the many cases where only what it does and says is asked."""
    out, err = io.StringIO(), io.StringIO()
    texts = [str(argument) for argument in arguments]
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(texts)
    return subprocess.CompletedProcess(texts, status, out.getvalue(), err.getvalue())


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run some Python in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
