"""Devices divided over parts, each a mechanism with a row of counts; a report's public number says which part."""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Cohorts, ServerHalf, Support, Words, support_of, symbols_of
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.search import SearchMechanism
from overstory.protocol.wire.upload import cohort_width

if TYPE_CHECKING:
    from overstory.kernels.devices import StreamKey


class SplitSupport(ServerHalf[Any]):
    """The server's half of a mechanism of several parts; which part of a value a part is about, a class says."""

    @cached_property
    def halves(self) -> list[Support[Any]]:
        return [support_of(part) for part in self.mechanism.parts]

    def part_supports(self, place: int) -> int:
        """Return how many supports of a part are counted."""
        return self.halves[place].mechanism.domain_size or 0

    @abstractmethod
    def project(self, table: NDArray[Any], symbols: NDArray[Any], place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the table of a part, and each device's place in it."""

    def part_of(self, cohorts: Cohorts) -> NDArray[np.integer[Any]]:
        return np.asarray(cohorts)

    def part_key(self, key: bytes, place: int) -> bytes:
        return bytes(byte ^ place for byte in key)

    def reports_of(self, batch: ReportBatch, place: int) -> ReportBatch:
        """Return the reports of one part, as reports of its own mechanism."""
        part, mine = self.halves[place].mechanism, self.part_of(batch.cohorts) == place
        words = np.ascontiguousarray(batch.bits[mine, : -(-part.payload_bits // 64)])
        return ReportBatch(_seeds(batch.cohorts, part, mine), words, part.payload_bits, part.num_cohorts)

    def counts_of(self, counts: SupportCounts, place: int) -> SupportCounts:
        """Return the counts of one part, as its oracle estimates from them."""
        return SupportCounts([counts.totals[place]], counts.ones[place : place + 1, : self.part_supports(place)])

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return symbols_of(values, self.mechanism.domain_size)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        parts = self.part_of(cohorts)
        out = np.zeros((len(symbols), -(-self.mechanism.payload_bits // 64)), np.uint64)
        for place, half in enumerate(self.halves):
            mine = parts == place
            if not mine.any():
                continue
            own, held = self.project(table, symbols, place)
            seeds = _seeds(cohorts, half.mechanism)
            # Of all devices, so that a report does not depend on the rows that it is computed with.
            sent = half.respond(own, held, seeds, replace(stream, key=self.part_key(stream.key, place)))
            out[mine, : sent.shape[1]] = sent[mine]
        return out

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:  # noqa: ARG002 - parts have supports of their own
        return len(self.halves), max(self.part_supports(place) for place in range(len(self.halves)))

    def count(self, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:
        self.refuse_values(values, "the cells of its tables, not chosen values")
        totals, ones = np.zeros(len(self.halves), np.int64), np.zeros(self.shape(()), np.int64)
        for place, half in enumerate(self.halves):
            if len(own := self.reports_of(batch, place)):
                totals[place] = len(own)
                ones[place, : self.part_supports(place)] = half.count(own, None).ones.sum(axis=0)
        return SupportCounts(totals, ones)


def _seeds(cohorts: Cohorts, part: Mechanism, mine: NDArray[np.bool_] | None = None) -> Cohorts:
    """Return the cohort of each device, or of some, in a part."""
    if part.num_cohorts == 1:
        return np.zeros(len(cohorts) if mine is None else np.count_nonzero(mine), np.uint16)
    own = cohorts if mine is None else cohorts[mine]
    return (own % np.uint32(part.num_cohorts)).astype(f"u{cohort_width(part.num_cohorts)}")


class DividedSupport(SplitSupport):
    """Devices divided over tables: the support of each table's cells."""

    def project(self, table: NDArray[Any], symbols: NDArray[Any], place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        parts = np.unravel_index(table, self.mechanism.sizes)
        chosen = self.mechanism.tables[place]
        shape = [self.mechanism.sizes[variable] for variable in chosen]
        cells = np.ravel_multi_index([parts[variable] for variable in chosen], shape)
        half = self.halves[place]
        return half.table(range(half.domain_size or 0)), cells.astype(np.int32)[symbols]


class LevelSupport(SplitSupport):
    """Range queries: the bits of every level's nodes."""

    def part_supports(self, place: int) -> int:
        return int(self.halves[place].mechanism.payload_bits)

    def project(self, table: NDArray[Any], symbols: NDArray[Any], place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        half, width = self.halves[place], self.mechanism.leaves_under(place + 1)
        return half.table(range(half.domain_size or 0)), (table // width).astype(np.int32)[symbols]

    def count(self, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:  # noqa: ARG002
        """Count the bits of all levels in one pass; bits past a level's width, which none sends, count for nothing."""
        counts = batch.accumulate()
        widths = np.array([self.part_supports(place) for place in range(len(self.halves))])
        return SupportCounts(counts.totals, np.where(np.arange(counts.num_bits) < widths[:, None], counts.ones, 0))


class SearchSupport(SplitSupport):
    """How many devices answered each question; what they would answer."""

    def part_of(self, cohorts: Cohorts) -> NDArray[np.int64]:
        mechanism = self.mechanism
        groups: NDArray[np.int64] = np.searchsorted(mechanism.bounds, cohorts.astype(np.int64), side="right") - 1
        if groups.size and int(groups.max()) >= len(mechanism.parts):
            raise ParameterError(f"a report's number is not below {mechanism.num_cohorts}")
        return groups

    def part_key(self, key: bytes, place: int) -> bytes:  # noqa: ARG002 - a seed of its own tells the questions apart
        return key

    def project(self, table: NDArray[Any], symbols: NDArray[Any], place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.halves[place].table([self.mechanism.project(code, place) for code in table]), symbols

    def count(self, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:  # noqa: ARG002
        """Return the number of answers to each question: a row for each, with one count."""
        totals = np.bincount(self.part_of(batch.cohorts), minlength=len(self.halves))
        return SupportCounts(totals, totals[:, None])

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:  # noqa: ARG002 - none is listed
        return len(self.halves), 1

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the codes, as objects: they have up to 264 bits."""
        codes = np.empty(len(values), object)
        codes[:] = list(values)
        return codes


IN_MEMORY: Final = 1 << 20  # answers up to which no temporary file is written


@contextmanager
def sorted_answers(
    search: SearchMechanism,
    batches: Iterable[ReportBatch],
    expected: int,
    progress: Callable[[str, float], object] | None = None,
) -> Iterator[Sequence[ReportBatch]]:
    """Yield the answers to each question, in the order of the questions; in temporary files where they are many."""
    with ExitStack() as stack:
        groups, half = range(len(search.parts)), SearchSupport(search)
        kept: list[list[ReportBatch]] = [[] for _ in groups]
        spill = (
            _Spill(Path(stack.enter_context(tempfile.TemporaryDirectory())), search) if expected > IN_MEMORY else None
        )
        done = 0
        for batch in batches:
            for group in groups:
                answers = half.reports_of(batch, group)
                if spill is None:
                    kept[group].append(answers)
                else:
                    spill.add(group, answers)
            done += len(batch)
            if progress:
                progress("reading the answers", min(done / max(expected, 1), 1.0))
        yield [spill.read(group) if spill else _joined(search, group, kept[group]) for group in groups]


def _joined(search: SearchMechanism, group: int, parts: Sequence[ReportBatch]) -> ReportBatch:
    asked = search.parts[group]
    cohorts = np.concatenate([part.cohorts for part in parts] or [np.zeros(0, np.uint32)])
    bits = np.concatenate([part.bits for part in parts] or [np.zeros((0, -(-asked.payload_bits // 64)), np.uint64)])
    return ReportBatch(cohorts, bits, asked.payload_bits, asked.num_cohorts)


class _Spill:
    """Answers in files: for each group one of seeds and one of payloads, read back as they are needed."""

    def __init__(self, folder: Path, search: SearchMechanism) -> None:
        self._folder, self._search = folder, search
        self._types: dict[int, tuple[Any, Any]] = {}

    def add(self, group: int, answers: ReportBatch) -> None:
        self._types[group] = answers.cohorts.dtype, answers.bits.dtype
        for name, column in (("seeds", answers.cohorts), ("bits", answers.bits)):
            with (self._folder / f"{group}.{name}").open("ab") as file:
                file.write(np.ascontiguousarray(column).tobytes())

    def read(self, group: int) -> ReportBatch:
        """Return a group's answers, in memory only as far as they are touched."""
        asked = self._search.parts[group]
        paths = [self._folder / f"{group}.{name}" for name in ("seeds", "bits")]
        if not all(path.exists() and path.stat().st_size for path in paths):
            return _joined(self._search, group, ())
        seeds, bits = (np.memmap(path, dtype, "r") for path, dtype in zip(paths, self._types[group], strict=True))
        return ReportBatch(seeds, bits.reshape(len(seeds), -1), asked.payload_bits, asked.num_cohorts)
