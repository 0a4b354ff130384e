"""The commands that a page of documentation shows, and what it says they print."""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:  # a command, and the lines shown under it (none: nothing is claimed)
    command: str
    output: str


def shown_commands(page: Path) -> list[Shown]:
    """Return the commands of a page's console blocks, in order.

    A line that starts with ``$ `` is a command, with ``> `` its continuation; other lines are its output.
    """
    found: list[Shown] = []
    for block in FENCE.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Shown(line[2:], ""))
            elif not found:
                raise ValueError(f"{page}: a console block starts with {line!r}, which is no command")
            elif line.startswith("> "):
                found[-1] = Shown(f"{found[-1].command}\n{line[2:]}", "")
            else:
                found[-1] = Shown(found[-1].command, f"{found[-1].output}{line}\n")
    return found
