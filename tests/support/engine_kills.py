"""Processes that are killed while they count a unit, by any engine; every run counts right, or ends in an error."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.driver import EngineError, count
from overstory.engines.units import Job
from support.rounds import rounds

KILLS: Final = rounds(3)  # how many processes a test kills
BETWEEN: Final = (1, 8)  # units that begin between two kills: a run gets on, and one unit is seldom hit again and again
PAUSE: Final = 0.1  # seconds that a unit takes at least, so that it can be hit


@dataclass(frozen=True)
class WatchedJob(Job):
    """A job whose units can be seen: each has a file in a folder, which is renamed once the unit is counted."""

    folder: str = ""

    @classmethod
    def watching(cls, job: Job, folder: Path) -> WatchedJob:
        return cls(**vars(job), folder=str(folder))

    def count(self, batch: ReportBatch) -> SupportCounts:
        if len(batch) == 0:  # the driver's counts of no reports
            return super().count(batch)
        mark = Path(self.folder, f"{os.getpid()}-{uuid.uuid4().hex}")
        mark.touch()
        time.sleep(PAUSE)
        counts = super().count(batch)
        mark.rename(mark.with_suffix(".done"))
        return counts


def itself(pid: int, _: random.Random) -> int:
    """Return the process to kill where the one that counts is the worker."""
    return pid


class Kills:
    """Kills, one at a time, what is counting a unit just then, or what that belongs to, until so many are killed."""

    def __init__(self, left: int, seed: str, victim: Callable[[int, random.Random], int | None] = itself) -> None:
        self.left, self._victim, self._random = left, victim, random.Random(seed)
        self.killed = self.hit = self.again = self.runs = self.failed = 0

    def __str__(self) -> str:
        return (
            f"{self.killed} processes killed in {self.runs} runs, {self.hit} of them while they counted a unit; "
            f"{self.again} units counted again; {self.failed} runs ended in an error, the others counted right"
        )

    @contextlib.contextmanager
    def during(self, folder: Path) -> Iterator[None]:
        """Kill what leaves its marks in a folder, until the run ends."""
        ended = threading.Event()
        thread = threading.Thread(target=self._kill, args=(folder, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _kill(self, folder: Path, ended: threading.Event) -> None:
        struck: set[Path] = set()
        due = self._random.randint(*BETWEEN)
        while self.left and not ended.wait(0.01):
            begun = sorted(folder.iterdir())
            counting = [mark for mark in begun if mark.suffix != ".done" and mark not in struck]
            if len(begun) < due or not counting:
                continue
            mark = self._random.choice(counting)
            struck.add(mark)
            with contextlib.suppress(ProcessLookupError, psutil.Error):  # it has just ended: another is found
                victim = self._victim(int(mark.name.partition("-")[0]), self._random)
                if victim is None:
                    continue
                os.kill(victim, signal.SIGKILL)
                self.hit += mark.exists()
                self.killed += 1
                self.left -= 1
                due = len(begun) + self._random.randint(*BETWEEN)


def count_while_killing(engine, job, units, expected, kills, *, folder, limit):
    """Count again and again until all kills are made; each run must count right, or fail for `limit` kills at least."""
    for attempt in range(kills.left + 5):
        watched = folder / f"run {attempt}"
        watched.mkdir()
        before = kills.killed
        kills.runs += 1
        try:
            with kills.during(watched):
                run = count(engine(), WatchedJob.watching(job, watched), units)
        except EngineError:
            if kills.killed - before < limit:
                raise
            kills.failed += 1
        else:
            assert run.counts == expected
            kills.again += len(list(watched.iterdir())) - len(units)
        if not kills.left:
            print(kills)  # noqa: T201 - `pytest -rP` shows it
            return
    raise AssertionError(f"{kills.left} processes were never found while they counted: {kills}")
