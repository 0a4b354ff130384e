"""What a client declares, what it is asked, phase by phase, what it answers, and who it is: a command, or our own.

Questions are lines of ``client,cohort,value``, with a coin for every fresh device. Answers are reports.csv, with the
columns ``client``, ``cohort`` and ``irr``; clients come in any order, the reports of one in the order of its lines.
Reports of bits, and of subsets, are written as bits, most significant first; symbols and points as numbers.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.files.io import bit_string, blocks, integer, reading, records, row_parser, short, split_header, utf8
from overstory.files.reports import OTHER_NAMES
from overstory.presentation.formats import plural, printable
from overstory.presentation.render_text import quoted
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Mechanism, Report
from overstory.protocol.kinds.registry import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overstory.protocol.metrics.metric import Metric

Column = NDArray[np.int64]

OTHERS: Final = 64  # how many values are asked in addition to the pair
LOOKED_AT: Final = 64  # in how many cohorts two values are compared to choose the pair


@dataclass(frozen=True, eq=False)
class Declared:
    """A mechanism and values: the first two are the pair that the guessing game is played with."""

    mechanism: Mechanism
    values: tuple[Any, ...]  # as the mechanism encodes them
    texts: tuple[str, ...]  # as the client reads them, one for each value
    afresh: bool = False  # whether each report of a device has a cohort and noise of its own: a panel's answers

    @property
    def num_cohorts(self) -> int:
        return self.mechanism.num_cohorts

    @property
    def are_vectors(self) -> bool:
        """Whether a value is encoded as bits, and a report has each of them with its own noise."""
        return self.mechanism.payload == "bits"

    @property
    def are_bits(self) -> bool:
        """Whether a report is written as bits: those of a vector, or of a subset."""
        return self.are_vectors or self.mechanism.payload_weight is not None

    @property
    def epsilon(self) -> float:
        return self.mechanism.epsilon_report

    def encoded(self, values: Column, cohorts: Column) -> NDArray[Any]:
        """Return what each value is before any noise: a row of bits, a symbol; where there is none, its place."""
        pairs, rows = np.unique(values * self.num_cohorts + cohorts, return_inverse=True)
        table = []
        for value, cohort in (divmod(pair, self.num_cohorts) for pair in pairs.tolist()):
            payload = self.mechanism.encode(self.values[value], cohort)
            table.append(value if payload is None else payload)
        return (self._bits(table) if self.are_vectors else np.array(table, np.int64))[rows]

    def packed(self, payloads: Sequence[int]) -> NDArray[Any]:
        return self._bits(payloads) if self.are_bits else np.array(payloads, np.int64)

    def _bits(self, payloads: Sequence[int]) -> NDArray[np.uint8]:
        bits = self.mechanism.payload_bits
        octets = b"".join(payload.to_bytes((bits + 7) // 8, "little") for payload in payloads)
        packed = np.frombuffer(octets, np.uint8).reshape(len(payloads), -1)
        return np.unpackbits(packed, axis=1, count=bits, bitorder="little")

    def set_of(self, encoded: int) -> NDArray[np.bool_]:
        """Return of each output whether it is in the set of what a value is encoded as."""
        outputs = range(self.mechanism.payload_limit)
        if self.mechanism.payload == "symbols":
            return np.asarray(np.array(outputs) == encoded)
        return np.array([self.mechanism.supports(Report(0, each), self.values[encoded]) for each in outputs])


def declare(mechanism: Any, *, metric: Metric | None = None, most: int = 2 + OTHERS) -> Declared:
    """Return what is audited, with the pair of values first that differs in the most bits, or cohorts."""
    if mechanism.name not in REGISTRY:
        names = ", ".join(sorted(REGISTRY))
        raise ParameterError(f"an audit reads no reports of {mechanism.name}; it reads those of {names}")
    labels: Sequence[str] = () if metric is None else metric.labels
    values: Sequence[Any]
    if mechanism.domain_size is None:
        values = texts = [labels[place] for place in _spread(len(labels), most)] or [f"value-{n}" for n in range(most)]
    else:
        values = _spread(mechanism.domain_size, most)
        # A program would record a name, or a number.
        examples = range(mechanism.domain_size) if metric is None else metric.domain.examples()
        named = labels if any(isinstance(value, tuple) for value in examples) else examples
        texts = [str(named[place]) for place in values]
    many = len(values)
    if many < 2:
        raise ParameterError("an audit asks for at least two values: give a metric with two of them")
    declared = Declared(mechanism, tuple(values), tuple(texts), metric is not None and metric.panel is not None)
    cohorts = np.array(_spread(declared.num_cohorts, LOOKED_AT), np.int64)
    encoded = declared.encoded(np.repeat(np.arange(many), len(cohorts)), np.tile(cohorts, many)).reshape(many, -1)
    apart = np.array([(encoded != row).sum(axis=1) for row in encoded])
    pair = divmod(int(np.argmax(apart)), many)
    if not apart[pair]:
        raise ParameterError("no two of the values differ in their bits: an audit needs two that do")
    order = [*pair, *sorted({*range(many)}.difference(pair))]
    return replace(declared, values=tuple(values[each] for each in order), texts=tuple(texts[each] for each in order))


def _spread(many: int, most: int) -> list[int]:
    return list(dict.fromkeys(int(place) for place in np.linspace(0, many - 1, min(many, most)))) if many else []


PAIR_SHARE: Final = 7 / 8  # of the fresh reports, how many are of the pair; the rest are of the other values


@dataclass(frozen=True, eq=False)
class Questions:
    """The lines that one run of the client reads; arrays have one element for each."""

    phase: str  # what the run is for, in words
    prefix: str
    clients: Column  # numbers; names have `prefix` before them
    cohorts: Column | None  # None where clients choose their own
    values: Column  # places in the declared values
    metric: int = 0  # 1 for another metric of the same parameters

    def __len__(self) -> int:
        return len(self.clients)

    def take(self, rows: Any) -> Questions:
        cohorts = None if self.cohorts is None else self.cohorts[rows]
        return replace(self, clients=self.clients[rows], cohorts=cohorts, values=self.values[rows])

    def names(self) -> list[str]:
        return [f"{self.prefix}{client}" for client in self.clients.tolist()]

    def write(self, path: Path, declared: Declared) -> None:
        texts = [quoted(text) for text in declared.texts]
        cohorts = [""] * len(self) if self.cohorts is None else self.cohorts.tolist()
        lines = zip(self.names(), cohorts, self.values.tolist(), strict=True)
        body = "".join(f"{name},{cohort},{texts[value]}\n" for name, cohort, value in lines)
        path.write_text("client,cohort,value\n" + body, encoding="utf-8")


def fresh(declared: Declared, many: int, rng: np.random.Generator, *, choose: bool, prefix: str = "c") -> Questions:
    """Return a line each for devices that nobody has seen before."""
    cohorts = None if choose else rng.integers(0, declared.num_cohorts, many)
    # A fair coin between the pair, and now and then one of the others.
    values, others = rng.integers(0, 2, many), len(declared.values) - 2
    if others:
        values = np.where(rng.random(many) >= PAIR_SHARE, 2 + rng.integers(0, others, many), values)
    return Questions("fresh devices", prefix, np.arange(many), cohorts, values)


def twins(declared: Declared, many: int, rng: np.random.Generator, *, choose: bool) -> tuple[Questions, ...]:
    """Return what three processes read that start at once: twice the same lines, and once those of other clients."""
    lines = fresh(declared, many, rng, choose=choose, prefix="p")
    return tuple(replace(lines, phase="three processes at once", prefix=prefix) for prefix in ("p", "p", "r"))


def repeated(declared: Declared, devices: int, repeats: int, rng: np.random.Generator, *, choose: bool) -> Questions:
    """Return lines in which every device has one value and then another, `repeats` times, devices taking turns."""
    lines = fresh(declared, devices, rng, choose=choose, prefix="d")
    second = (lines.values + rng.integers(1, len(declared.values), devices)) % len(declared.values)
    values = np.tile(np.concatenate((lines.values, second)), repeats)
    return replace(lines.take(np.tile(np.arange(devices), 2 * repeats)), phase="repeats", values=values)


NEEDED: Final = ("client", "cohort", "irr")


@dataclass(frozen=True, eq=False)
class Answers:
    """A report for every line that was asked, in the order of the questions."""

    questions: Questions
    cohorts: Column
    reports: NDArray[Any]  # uint8, shape (n, bits), bit i in column i; or symbols: int64, shape (n,)

    def __len__(self) -> int:
        return len(self.cohorts)

    @property
    def values(self) -> Column:
        return self.questions.values

    def take(self, rows: Any) -> Answers:
        return Answers(self.questions.take(rows), self.cohorts[rows], self.reports[rows])

    def then(self, again: Answers) -> Answers:
        """Return these lines and, after them, the same ones as another run answered them."""
        twice = self.questions.take(np.tile(np.arange(len(self)), 2))
        both = np.concatenate((self.cohorts, again.cohorts)), np.concatenate((self.reports, again.reports))
        return Answers(twice, *both)

    def holding(self, value: int) -> Answers:
        """Return the same reports as of devices that all hold this one of the declared values."""
        return replace(self, questions=replace(self.questions, values=np.full(len(self), value)))


def read_answers(path: Path, questions: Questions, declared: Declared) -> Answers:
    """Read what a client wrote, and put it into the order of the questions."""
    source = f"the reports of {questions.phase}"
    names: list[str] = []
    columns = []
    with reading(path) as stream:
        header, rest = split_header(blocks(stream, source), source, NEEDED, OTHER_NAMES)
        parse = _row_parser(header, declared)
        for rows in (list(records(block, source, parse)) for block in rest):
            names += [row[0] for row in rows]
            if rows:  # as arrays: a run may have ten million
                columns.append((np.array([row[1] for row in rows]), declared.packed([row[2] for row in rows])))
    if not names:
        raise FormatError(f"it has a header and no report; expected {plural(len(questions), 'report')}", source=source)
    cohorts, reports = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    asked = questions.names()
    if names != asked:
        order = _order(names, asked, source)
        cohorts, reports = cohorts[order], reports[order]
    if questions.cohorts is not None and (moved := np.flatnonzero(cohorts != questions.cohorts)).size:
        row = int(moved[0])
        problem = f"client {asked[row]} was asked in cohort {questions.cohorts[row]} and reported from {cohorts[row]}"
        hint = "give --own-cohorts if clients choose their cohorts"
        raise FormatError(f"{problem}: {hint}", source=source, field="cohort")
    return Answers(questions, cohorts, reports)


def _order(names: list[str], asked: list[str], source: str) -> Column:
    """Return which report answers each line: a client's first one its first line."""
    wanted, found = Counter(asked), Counter(names)
    if unknown := next((name for name in found if name not in wanted), None):
        raise FormatError(f"client {short(unknown)} has a report and was not asked", source=source, field="client")
    for name, lines in wanted.items():
        if found[name] != lines:
            counts = f"{plural(lines, 'line')} and {plural(found[name], 'report')}"
            problem = f"client {short(name)} has {counts}; expected a report for every line, {len(asked):,} in all"
            raise FormatError(f"{problem}, found {len(names):,}", source=source, field="client")
    order = np.empty(len(asked), np.int64)
    lines_by_name, reports_by_name = (sorted(range(len(asked)), key=each.__getitem__) for each in (asked, names))
    order[lines_by_name] = reports_by_name
    return order


def _row_parser(names: list[str], declared: Declared) -> Any:
    """Return what reads a record as a client's name, its cohort and a report of the declared parameters."""
    mechanism = declared.mechanism
    bits, limit, weight = mechanism.payload_bits, mechanism.payload_limit, mechanism.payload_weight
    report = partial(bit_string, num_bits=bits) if declared.are_bits else partial(integer, low=0, high=limit - 1)
    cohort = partial(integer, low=0, high=declared.num_cohorts - 1)

    def weighed(text: str) -> int:
        payload: int = report(text)
        if weight is not None and payload.bit_count() != weight:
            raise FormatError(f"expected {weight} of the bits to be 1, found {payload.bit_count()}")
        return payload

    places = (names.index(name) for name in NEEDED)
    return row_parser(len(names), zip(places, NEEDED, (utf8, cohort, weighed), strict=True))


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
        text = shlex.join(command)
        self._shown = printable(text if len(text) <= 100 else text[:100] + "...")

    def answer(self, declared: Declared, questions: Sequence[Questions]) -> list[Answers]:
        """Run the command once for each list of questions, all at the same time."""
        with tempfile.TemporaryDirectory(prefix="overstory-audit-") as folder, contextlib.ExitStack() as running:
            asked_at = {Path(folder, str(number)): asked for number, asked in enumerate(questions)}
            for path, asked in asked_at.items():
                asked.write(path.with_suffix(".values"), declared)
            processes = []
            for path, asked in asked_at.items():
                processes.append(self._start(path, self.metrics[asked.metric]))
                running.callback(self._end, processes[-1])
            for process, (path, asked) in zip(processes, asked_at.items(), strict=True):
                self._wait(process, path, asked)
            return [read_answers(path.with_suffix(".reports"), asked, declared) for path, asked in asked_at.items()]

    def _start(self, path: Path, metric: str) -> subprocess.Popen[bytes]:
        with (
            path.with_suffix(".values").open("rb") as values,
            path.with_suffix(".reports").open("wb") as reports,
            path.with_suffix(".errors").open("wb") as errors,
        ):
            try:
                return subprocess.Popen(  # noqa: S603 - the person's own command
                    [word.replace(METRIC, metric) for word in self.command],
                    stdin=values,
                    stdout=reports,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise ParameterError(f"the command {self._shown} does not start: {reason}") from error

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
        problem = ""
        while not problem and process.poll() is None:
            if time.monotonic() > end:
                problem = f"has not ended after {self.timeout:g} seconds: give fewer --reports"
            elif reports.stat().st_size > most:
                problem = f"wrote more than {most:,} bytes for {len(asked):,} lines: expected a report for each"
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PAUSE)
        if process.returncode:
            signalled = process.returncode < 0
            problem = f"was ended by signal {-process.returncode}" if signalled else f"left with {process.returncode}"
        elif not problem and not reports.stat().st_size:
            problem = "wrote nothing: expected a header with client,cohort,irr and a report for each line"
        if problem:
            last = path.with_suffix(".errors").read_bytes()[-2000:].decode("utf-8", "replace").strip().split("\n")[-1]
            last_words = f"; its last line on standard error: {printable(last[:200])}" if last else ""
            run = f"the command {self._shown}, run for {asked.phase} ({len(asked):,} lines)"
            raise ParameterError(f"{run}, {problem}{last_words}")


class OwnClient:
    """The library's own `Randomizer`, a device for every client; what it drew for a client stays for this audit."""

    takes_metric = True

    def __init__(self) -> None:
        self._secrets: dict[tuple[int, str], bytes] = {}

    def answer(self, declared: Declared, questions: Sequence[Questions]) -> list[Answers]:
        """Return the reports of devices with a secret each; runs at the same time have different secrets."""
        first = 1 if len(questions) > 1 else 0
        return [self._run(declared, asked, process) for process, asked in enumerate(questions, first)]

    def _run(self, declared: Declared, asked: Questions, process: int) -> Answers:
        from overstory.client.randomizer import Randomizer
        from overstory.client.session import key_of_answer

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
