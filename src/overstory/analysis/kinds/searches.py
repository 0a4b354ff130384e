"""The server's half of a search: it counts how many devices answered each question, and keeps their answers.

What a search finds depends on the answers themselves, which `overstory.discovery` reads from the stored reports.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Cohorts
from overstory.analysis.kinds.split import SplitSupport
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.protocol.errors import ParameterError
from overstory.protocol.search import SearchMechanism


def answers_of(mechanism: SearchMechanism, batch: ReportBatch, group: int) -> ReportBatch:
    """Return the answers to one group's question, as reports of the question's own mechanism."""
    return SearchSupport(mechanism).reports_of(batch, group)


class SearchSupport(SplitSupport):
    """How many devices answered each question; what they would answer."""

    def part_of(self, cohorts: Cohorts) -> NDArray[np.int64]:
        mechanism = self.mechanism
        groups: NDArray[np.int64] = np.searchsorted(mechanism.bounds, cohorts.astype(np.int64), side="right") - 1
        if groups.size and int(groups.max()) >= len(mechanism.questions):
            raise ParameterError(f"a report's number is not below {mechanism.num_cohorts}")
        return groups

    def part_key(self, key: bytes, place: int) -> bytes:  # noqa: ARG002 - a seed of its own tells the questions apart
        return key

    def project(self, table: NDArray[Any], symbols: NDArray[Any], place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        question = self.mechanism.questions[place]
        return self.halves[place].table([self.mechanism.given(question, code) for code in table]), symbols

    def count(self, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:  # noqa: ARG002
        """Return the number of answers to each question: a row for each, with one count."""
        totals = np.bincount(self.part_of(batch.cohorts), minlength=len(self.halves))
        return SupportCounts(totals, totals[:, None])

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:  # noqa: ARG002 - none is listed
        return len(self.halves), 1

    def count_names(self, size: int, labels: Sequence[str]) -> list[str]:  # noqa: ARG002 - none is listed
        return ["answers"] * size

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the codes, as objects: they have up to 264 bits."""
        codes = np.empty(len(values), object)
        codes[:] = list(values)
        return codes


IN_MEMORY: Final = 1 << 20
"""Answers up to which no temporary file is written."""


@contextmanager
def sorted_answers(
    search: SearchMechanism,
    batches: Iterable[ReportBatch],
    expected: int,
    progress: Callable[[str, float], object] | None = None,
) -> Iterator[Sequence[ReportBatch]]:
    """Yield the answers to each question, in the order of the questions; in temporary files where they are many."""
    with ExitStack() as stack:
        groups = range(len(search.questions))
        kept: list[list[ReportBatch]] = [[] for _ in groups]
        spill = (
            _Spill(Path(stack.enter_context(tempfile.TemporaryDirectory())), search) if expected > IN_MEMORY else None
        )
        done = 0
        for batch in batches:
            for group in groups:
                answers = answers_of(search, batch, group)
                if spill is None:
                    kept[group].append(answers)
                else:
                    spill.add(group, answers)
            done += len(batch)
            if progress:
                progress("reading the answers", min(done / max(expected, 1), 1.0))
        yield [spill.read(group) if spill else _joined(search, group, kept[group]) for group in groups]


def _joined(search: SearchMechanism, group: int, parts: Sequence[ReportBatch]) -> ReportBatch:
    asked = search.questions[group].mechanism
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
        asked = self._search.questions[group].mechanism
        paths = [self._folder / f"{group}.{name}" for name in ("seeds", "bits")]
        if not all(path.exists() and path.stat().st_size for path in paths):
            return _joined(self._search, group, ())
        seeds, bits = (np.memmap(path, dtype, "r") for path, dtype in zip(paths, self._types[group], strict=True))
        return ReportBatch(seeds, bits.reshape(len(seeds), -1), asked.payload_bits, asked.num_cohorts)
