"""Standard output, whatever it leads to: a terminal that lacks letters or obeys them, or a reader that leaves early."""

from __future__ import annotations

import io
import os
import sys
from typing import Final

PIPE_CLOSED: Final = 141  # the exit status of a program whose reader has left


def write_anything() -> None:
    """Let a terminal that lacks a character show its escape instead of failing, and a closed stream take what comes."""
    # Under cron, some supervisors and `pythonw` they are closed and None; in order, no other file gets their numbers.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def close_quietly() -> None:
    """Let the interpreter's own last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def printable(text: str) -> str:
    """Return `text` with what could steer a terminal escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
