"""What a client is asked, phase by phase, and what it answers.

Questions are lines of ``client,cohort,value``, with a coin for every fresh device. Answers are reports.csv, with the
columns ``client``, ``cohort`` and ``irr``, in any order of lines. Reports of bits, and of subsets, are written as bits,
most significant first; symbols and points as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.files.columns.reader import SMALLEST, read_block
from overstory.files.csv import Block, bit_string, blocks, integer, records, row_parser, short, split_header, utf8
from overstory.files.io import reading
from overstory.files.reports import OTHER_NAMES, packed_text
from overstory.presentation.render_data import quoted
from overstory.privacy.text import plural
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from overstory.audit.declared import Declared


Column = NDArray[np.int64]

PAIR_SHARE: Final = 7 / 8
"""Of the fresh reports, how many are of the pair; the rest are of the other values."""


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

    def names(self) -> list[str]:
        return [f"{self.prefix}{client}" for client in self.clients.tolist()]

    def write(self, path: Path, declared: Declared) -> None:
        texts = [quoted(text) for text in declared.texts]
        cohorts = [""] * len(self) if self.cohorts is None else self.cohorts.tolist()
        lines = zip(self.names(), cohorts, self.values.tolist(), strict=True)
        body = "".join(f"{name},{cohort},{texts[value]}\n" for name, cohort, value in lines)
        path.write_text("client,cohort,value\n" + body, encoding="utf-8")


def draw_values(declared: Declared, many: int, rng: np.random.Generator) -> Column:
    """Return values drawn by a fair coin between the pair, and now and then one of the others."""
    pair, others = rng.integers(0, 2, many), len(declared.values) - 2
    if not others:
        return pair
    is_other = rng.random(many) >= PAIR_SHARE
    return np.where(is_other, 2 + rng.integers(0, others, many), pair)


def fresh(declared: Declared, many: int, rng: np.random.Generator, *, choose: bool, prefix: str = "c") -> Questions:
    """Return a line each for devices that nobody has seen before."""
    cohorts = None if choose else rng.integers(0, declared.num_cohorts, many)
    return Questions("fresh devices", prefix, np.arange(many), cohorts, draw_values(declared, many, rng))


def twins(declared: Declared, many: int, rng: np.random.Generator, *, choose: bool) -> tuple[Questions, ...]:
    """Return what three processes read that start at once: twice the same lines, and once those of other clients."""
    lines = fresh(declared, many, rng, choose=choose, prefix="p")
    return tuple(
        Questions("three processes at once", prefix, lines.clients, lines.cohorts, lines.values)
        for prefix in ("p", "p", "r")
    )


def repeated(declared: Declared, devices: int, repeats: int, rng: np.random.Generator, *, choose: bool) -> Questions:
    """Return lines in which every device has one value and then another, `repeats` times, devices taking turns."""
    lines = fresh(declared, devices, rng, choose=choose, prefix="d")
    cohorts = None if lines.cohorts is None else np.tile(lines.cohorts, 2 * repeats)
    second = (lines.values + rng.integers(1, len(declared.values), devices)) % len(declared.values)
    values = np.tile(np.concatenate((lines.values, second)), repeats)
    return Questions("repeats", "d", np.tile(lines.clients, 2 * repeats), cohorts, values)


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
        asked = self.questions
        cohorts = None if asked.cohorts is None else asked.cohorts[rows]
        some = replace(asked, clients=asked.clients[rows], cohorts=cohorts, values=asked.values[rows])
        return Answers(some, self.cohorts[rows], self.reports[rows])

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
        table = _Table(source, header, declared)
        for block in rest:
            some, *both = table.quick(block) or table.exact(block)
            names += some
            columns.append(both)
    if not names:
        raise FormatError(f"it has a header and no report; expected {plural(len(questions), 'report')}", source=source)
    cohorts, reports = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    asked = questions.names()
    if names != asked:
        order = _order(names, asked, source)
        cohorts, reports = cohorts[order], reports[order]
    _check_cohorts(cohorts, questions, source)
    return Answers(questions, cohorts, reports)


def _order(names: list[str], asked: list[str], source: str) -> Column:
    """Return which report answers each line: a client's first one its first line."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    wanted: dict[str, int] = {}
    for name in asked:
        wanted[name] = wanted.get(name, 0) + 1
    if unknown := next((name for name in rows if name not in wanted), None):
        raise FormatError(f"client {short(unknown)} has a report and was not asked", source=source, field="client")
    for name, lines in wanted.items():
        if len(rows.get(name, ())) != lines:
            counts = f"{plural(lines, 'line')} and {plural(len(rows.get(name, ())), 'report')}"
            problem = f"client {short(name)} has {counts}; expected a report for every line, {len(asked):,} in all"
            raise FormatError(f"{problem}, found {len(names):,}", source=source, field="client")
    left = {name: iter(places) for name, places in rows.items()}
    return np.array([next(left[name]) for name in asked], np.int64)


def _check_cohorts(cohorts: Column, questions: Questions, source: str) -> None:
    if questions.cohorts is None or np.array_equal(cohorts, questions.cohorts):
        return
    row = int(np.flatnonzero(cohorts != questions.cohorts)[0])
    raise FormatError(
        f"client {questions.prefix}{questions.clients[row]} was asked in cohort {questions.cohorts[row]} and reported "
        f"from {cohorts[row]}: give --own-cohorts if clients choose their cohorts",
        source=source,
        field="cohort",
    )


class _Table:
    """The columns of the file, and what reports of the declared parameters look like."""

    def __init__(self, source: str, names: list[str], declared: Declared) -> None:
        mechanism = declared.mechanism
        self.source, self.declared, self.width = source, declared, len(names)
        self.places = [names.index(name) for name in NEEDED]
        bits, limit = mechanism.payload_bits, mechanism.payload_limit
        report = partial(bit_string, num_bits=bits) if declared.are_bits else partial(integer, low=0, high=limit - 1)
        cohort = partial(integer, low=0, high=declared.num_cohorts - 1)
        parsers = zip(self.places, NEEDED, (utf8, cohort, self._weighed(report)), strict=True)
        self._parse = row_parser(len(names), parsers)

    def _weighed(self, parser: Any) -> Any:
        """Return the parser of a report, all of which may have the same number of ones."""
        weight = self.declared.mechanism.payload_weight
        if weight is None:
            return parser

        def parse(text: str) -> int:
            bits: int = parser(text)
            if bits.bit_count() != weight:
                raise FormatError(f"expected {weight} of the bits to be 1, found {bits.bit_count()}")
            return bits

        return parse

    def exact(self, block: Block) -> tuple[list[str], Column, NDArray[Any]]:
        """Read record by record; the first bad one is named."""
        rows = list(records(block, self.source, self._parse))
        names, cohorts = [row[0] for row in rows], np.array([row[1] for row in rows], np.int64)
        return names, cohorts, self.declared.packed([row[2] for row in rows])

    def quick(self, block: Block) -> tuple[list[str], Column, NDArray[Any]] | None:
        """Read a large block of well-formed records at once, or return None."""
        if len(block.raw) < SMALLEST or b"0x" in block.raw or b"0X" in block.raw:
            return None  # Arrow would read sixteen there
        import pyarrow as pa

        kinds = pa.string(), pa.int64(), pa.binary() if self.declared.are_bits else pa.int64()
        columns = [str(place) for place in self.places]
        table = read_block(block.raw, list(map(str, range(self.width))), dict(zip(columns, kinds, strict=True)))
        if table is None or not table.num_rows:
            return None
        client, cohort, report = (table.column(name).chunk(0) for name in columns)
        cohorts: Column = cohort.to_numpy()
        reports = self._bits(report) if self.declared.are_bits else report.to_numpy()
        if reports is None or not self._within(cohorts, reports):
            return None
        return client.to_pylist(), cohorts, reports

    def _within(self, cohorts: Column, reports: NDArray[Any]) -> bool:
        limits = (cohorts, self.declared.num_cohorts), (reports, self.declared.mechanism.payload_limit)
        return all(each.min() >= 0 and int(each.max()) < limit for each, limit in limits)

    def _bits(self, column: Any) -> NDArray[np.uint8] | None:
        bits, weight = self.declared.mechanism.payload_bits, self.declared.mechanism.payload_weight
        packed = packed_text(column, bits)
        if packed is None:
            return None
        octets = packed.astype("<u8", copy=False).view(np.uint8)
        reports = np.unpackbits(octets, axis=1, count=bits, bitorder="little")
        return reports if weight is None or (reports.sum(axis=1) == weight).all() else None
