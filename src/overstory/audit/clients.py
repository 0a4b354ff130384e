"""Who answers: a command that reads values and writes reports, or the library's own randomizer in this process."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.audit.answers import Answers, read_answers
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.audit.answers import Declared, Questions


TIMEOUT: Final = 600.0
LEAST_BYTES: Final = 1 << 24
BYTES_PER_LINE: Final = 256  # how much a run may write: beyond it, a command that never ends would fill the disk
PAUSE: Final = 0.02
METRIC: Final = "{metric}"  # stands for the metric's id in a command


class Program:
    """A command of any language: it gets the values on its standard input and writes reports to its standard output."""

    def __init__(
        self,
        command: Sequence[str],
        timeout: float = TIMEOUT,  # seconds that a run may take
        metrics: tuple[str, str] = ("first", "second"),  # replace `METRIC` in the command
    ) -> None:
        self.command, self.timeout, self.metrics = list(command), timeout, metrics
        self.takes_metric = any(METRIC in word for word in command)

    def answer(self, declared: Declared, questions: Sequence[Questions]) -> list[Answers]:
        """Run the command once for each list of questions, all at the same time."""
        with tempfile.TemporaryDirectory(prefix="overstory-audit-") as folder:
            paths = [Path(folder, str(number)) for number in range(len(questions))]
            for path, asked in zip(paths, questions, strict=True):
                asked.write(path.with_suffix(".values"), declared)
            with contextlib.ExitStack() as running:
                processes = [
                    running.enter_context(self._started(path, self.metrics[asked.metric]))
                    for path, asked in zip(paths, questions, strict=True)
                ]
                for process, path, asked in zip(processes, paths, questions, strict=True):
                    self._wait(process, path, asked)
            return [self._read(path, asked, declared) for path, asked in zip(paths, questions, strict=True)]

    @contextlib.contextmanager
    def _started(self, path: Path, metric: str) -> Iterator[subprocess.Popen[bytes]]:
        with (
            path.with_suffix(".values").open("rb") as values,
            path.with_suffix(".reports").open("wb") as reports,
            path.with_suffix(".errors").open("wb") as errors,
        ):
            try:
                process = subprocess.Popen(  # noqa: S603 - the person's own command
                    [word.replace(METRIC, metric) for word in self.command],
                    stdin=values,
                    stdout=reports,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise ParameterError(f"the command {self._shown} does not start: {reason}") from error
        try:
            yield process
        finally:
            self._end(process)

    @property
    def _shown(self) -> str:
        text = shlex.join(self.command)
        return printable(text if len(text) <= 100 else text[:100] + "...")

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """End the process and its children; one that has ended is left alone."""
        if process.poll() is None:
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()

    def _wait(self, process: subprocess.Popen[bytes], path: Path, asked: Questions) -> None:
        """Wait for a run's end, and say what is wrong with it."""
        most = LEAST_BYTES + BYTES_PER_LINE * len(asked) + 8 * path.with_suffix(".values").stat().st_size
        end, reports = time.monotonic() + self.timeout, path.with_suffix(".reports")
        while process.poll() is None:
            if time.monotonic() > end:
                problem = f"has not ended after {self.timeout:g} seconds: give fewer --reports"
                raise ParameterError(self._failure(asked, problem, path))
            if reports.stat().st_size > most:
                problem = f"wrote more than {most:,} bytes for {len(asked):,} lines: expected a report for each"
                raise ParameterError(self._failure(asked, problem, path))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PAUSE)
        if process.returncode:
            signalled = process.returncode < 0
            ended = f"was ended by signal {-process.returncode}" if signalled else f"left with {process.returncode}"
            raise ParameterError(self._failure(asked, ended, path))

    def _failure(self, asked: Questions, problem: str, path: Path) -> str:
        last = path.with_suffix(".errors").read_bytes()[-2000:].decode("utf-8", "replace").strip().split("\n")[-1]
        last_words = f"; its last line on standard error: {printable(last[:200])}" if last else ""
        return f"the command {self._shown}, run for {asked.phase} ({len(asked):,} lines), {problem}{last_words}"

    def _read(self, path: Path, asked: Questions, declared: Declared) -> Answers:
        reports = path.with_suffix(".reports")
        if not reports.stat().st_size:
            problem = "wrote nothing: expected a header with client,cohort,irr and a report for each line"
            raise ParameterError(self._failure(asked, problem, path))
        return read_answers(reports, asked, declared)


class OwnClient:
    """The library's own `Randomizer`, a device for every client; what it drew for a client stays for this audit."""

    takes_metric = True

    def __init__(self) -> None:
        self._secrets: dict[tuple[int, str], bytes] = {}

    def answer(self, declared: Declared, questions: Sequence[Questions]) -> list[Answers]:
        """Return the reports of devices with a secret each; runs at the same time have different secrets."""
        if len(questions) > 1:
            return [self._run(declared, asked, process) for process, asked in enumerate(questions, 1)]
        return [self._run(declared, asked, 0) for asked in questions]

    def _run(self, declared: Declared, asked: Questions, process: int) -> Answers:
        from overstory.client.randomizer import Randomizer
        from overstory.client.recorder import key_of_answer

        mechanism: Any = declared.mechanism
        cohorts, payloads = np.zeros(len(asked), np.int64), []
        given = None if asked.cohorts is None else asked.cohorts.tolist()
        devices: dict[str, Randomizer] = {}
        answers: Counter[str] = Counter()  # of a panel, each in a period of its own
        for line, (name, value) in enumerate(zip(asked.names(), asked.values.tolist(), strict=True)):
            device = devices.get(name)
            if device is None:
                secret = self._secrets.setdefault((process, name), os.urandom(32))
                cohort = None if given is None else given[line]
                if declared.afresh:
                    secret = key_of_answer(secret, answers[name])
                    answers[name] += 1
                device = Randomizer(mechanism, secret=secret, metric=f"audit{asked.metric}", cohort=cohort)
                if not declared.afresh:
                    devices[name] = device
            cohorts[line], payload = device.report(declared.values[value])
            payloads.append(payload)
        return Answers(asked, cohorts, declared.packed(payloads))
