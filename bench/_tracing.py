"""Which of our files a piece of work enters: functions that are called, in all its threads.

What runs because a module is imported is apart: such modules are counted, and nothing else. Comprehensions belong to
the function that holds them, and generated methods (of dataclasses) to nobody.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import overstory

SOURCE: Final = str(Path(overstory.__file__).parent) + os.sep
COMPREHENSIONS: Final = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"})


@dataclass
class Walk:
    """What one thread, or several together, entered.

    Attributes
    ----------
    files
        Paths below `src/overstory`, in the order of first entry.
    moves
        Calls from a function in one file to a function in another.
    depth
        The most frames of ours at once.
    imported
        Modules of ours that were imported on the way.
    """

    files: list[str] = field(default_factory=list)
    moves: int = 0
    depth: int = 0
    imported: int = 0

    def joined(self, other: Walk) -> Walk:
        """Return both as one."""
        files = list(dict.fromkeys(self.files + other.files))
        return Walk(files, self.moves + other.moves, max(self.depth, other.depth), self.imported + other.imported)


class _Thread:
    """One thread: its frames since the trace began, each with the file it is in, how deep, and whether it is apart."""

    def __init__(self, name: str, always: set[CodeType]) -> None:
        self.name, self.walk, self.begun = name, Walk(), set[CodeType]()
        self._always = always
        self._frames: list[tuple[FrameType, str | None, int, bool]] = []

    def call(self, frame: FrameType, path: str | None) -> None:
        """Enter a frame; `path` is None where it is not ours."""
        walk, code = self.walk, frame.f_code
        if not self._frames:
            self.begun.add(code)
            # What an event loop does with or without work, such as its ticks, is apart.
            current, depth, apart = None, 0, code in self._always
        else:
            current, depth, apart = self._frames[-1][1:]
        if path is not None and code.co_name == "<module>":
            walk.imported += 1
            apart = True
        elif path is not None and not apart:
            if path not in walk.files:
                walk.files.append(path)
            walk.moves += current not in {None, path}
            current, depth = path, depth + 1
            walk.depth = max(walk.depth, depth)
        self._frames.append((frame, current, depth, apart))

    def leave(self, frame: FrameType) -> None:
        """Leave a frame; one that was entered before the trace began is passed over."""
        if self._frames and self._frames[-1][0] is frame:
            self._frames.pop()


class Trace:
    """Follows the thread that installs it and all that start meanwhile; it counts only what is `within` it."""

    def __init__(self) -> None:
        self._paths: dict[CodeType, str | None] = {}
        self._threads: dict[int, _Thread] = {}
        self._always: set[CodeType] = set()
        self._counting = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Follow this thread, and those that start from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextlib.contextmanager
    def within(self) -> Iterator[dict[str, Walk]]:
        """Count; afterwards the walks are there, by the names of their threads."""
        walks: dict[str, Walk] = {}
        self._threads, self._counting = {}, True
        try:
            yield walks
        finally:
            self._counting = False
            walks.update({thread.name: thread.walk for thread in self._threads.values()})

    def learn_idleness(self, seconds: float = 0.5) -> None:
        """Look for so long at what is called without work; that is no part of any walk."""
        with self.within():
            time.sleep(seconds)
        for thread in self._threads.values():
            self._always |= thread.begun

    def wait_until_quiet(self, seconds: float = 0.2) -> None:
        """Wait until no further file is entered, a few seconds at most: a thread may go on after its answer."""
        entered, until = -1, time.monotonic() + 20 * seconds
        while entered != (entered := self._entered()) and time.monotonic() < until:
            time.sleep(seconds)

    def _entered(self) -> int:
        return sum(len(thread.walk.files) for thread in list(self._threads.values()))

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if not self._counting:
            return
        number = threading.get_ident()
        thread = self._threads.get(number)
        if thread is None:
            thread = self._threads[number] = _Thread(threading.current_thread().name, self._always)
        if event == "call":
            thread.call(frame, self._path(frame.f_code))
        elif event == "return":
            thread.leave(frame)

    def _path(self, code: CodeType) -> str | None:
        if code not in self._paths:
            ours = code.co_filename.startswith(SOURCE) and code.co_name not in COMPREHENSIONS
            self._paths[code] = code.co_filename.removeprefix(SOURCE) if ours else None
        return self._paths[code]


def follow(job: Callable[[], Any]) -> Walk:
    """Run `job`; return what it entered, with the threads that it started."""
    trace, together = Trace(), Walk()
    with trace.installed(), trace.within() as walks:
        job()
    for walk in walks.values():
        together = together.joined(walk)
    return together
