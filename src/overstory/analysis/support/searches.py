"""The server's half of a search: it counts how many devices answered each question, and keeps their answers.

What a search finds depends on the answers themselves, which `overstory.discovery` reads from the stored reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.support.base import Cohorts, ServerHalf, StreamKey, Support, Words
from overstory.analysis.support.symbols import HashSupport, LinearSupport
from overstory.protocol.encodings.symbols import LinearHash, LocalHash
from overstory.protocol.errors import ParameterError
from overstory.protocol.search.mechanism import SearchMechanism
from overstory.protocol.wire.upload import cohort_width

ANSWERS: Final[dict[type, type[Support[Any]]]] = {LinearHash: LinearSupport, LocalHash: HashSupport}
"""What counts the answers to a question, by its encoding: a level of a search, or the expected values."""


def groups_of(mechanism: SearchMechanism, cohorts: Cohorts) -> NDArray[np.int64]:
    """Return the group of each device's number (int64, shape (n,)).

    Raises
    ------
    ParameterError
        When a device is not asked in the mechanism's wave.
    """
    groups: NDArray[np.int64] = np.searchsorted(mechanism.bounds, cohorts.astype(np.int64), side="right") - 1
    if groups.size and not 0 <= int(groups.min()) <= int(groups.max()) < len(mechanism.questions):
        raise ParameterError(f"a report of a device that is not asked in wave {mechanism.wave} of {mechanism.waves}")
    return groups


def answers_of(mechanism: SearchMechanism, batch: ReportBatch, group: int) -> ReportBatch:
    """Return the answers to one group's question, as reports of the question's own mechanism."""
    asked, mine = mechanism.questions[group].mechanism, groups_of(mechanism, batch.cohorts) == group
    seeds = (batch.cohorts[mine] % np.uint32(asked.num_cohorts)).astype(f"u{cohort_width(asked.num_cohorts)}")
    words = -(-asked.payload_bits // 64)
    return ReportBatch(seeds, batch.bits[mine][:, :words], asked.payload_bits, asked.num_cohorts)


@dataclass(frozen=True)
class SearchHalf(ServerHalf[SearchMechanism]):
    """How many devices answered each question; what they would answer."""

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:  # noqa: ARG002 - none is listed
        """Return the number of answers to each question: a cohort for each, with one count."""
        groups = groups_of(self.mechanism, batch.cohorts)
        totals = np.bincount(groups, minlength=len(self.mechanism.questions))
        return SupportCounts(totals, totals[:, None])

    def num_counts(self, labels: Sequence[str]) -> int:  # noqa: ARG002 - none is listed
        """Return the number of questions."""
        return len(self.mechanism.questions)

    def count_names(self, size: int, labels: Sequence[str]) -> list[str]:  # noqa: ARG002 - none is listed
        """Return the name of the one count."""
        return ["answers"] * size

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the codes, as objects: they have up to 264 bits."""
        codes = np.empty(len(values), object)
        codes[:] = list(values)
        return codes

    def assign_cohorts(self, key: bytes, num_devices: int) -> Cohorts:
        """Return the number of each device: uniform among those that are asked."""
        first, *_, stop = self.mechanism.bounds
        drawn: Cohorts = super().assign_cohorts(key, num_devices).astype(np.uint32)
        return (first + drawn.astype(np.uint64) * (stop - first) // self.mechanism.num_cohorts).astype(np.uint32)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Return the packed answers of devices that hold ``table[symbols]``, each to its own question."""
        mechanism, groups = self.mechanism, groups_of(self.mechanism, cohorts)
        answers = np.zeros((len(symbols), -(-mechanism.payload_bits // 64)), np.uint64)
        for group, question in enumerate(mechanism.questions):
            asked, mine = question.mechanism, groups == group
            if not mine.any():
                continue
            support = ANSWERS[type(asked.encoding)](asked)
            names = support.table([mechanism.given(question, code) for code in table])
            seeds = (cohorts % np.uint32(asked.num_cohorts)).astype(f"u{cohort_width(asked.num_cohorts)}")
            # Of all devices, so that an answer does not depend on the rows that it is computed with.
            answered = support.respond(names, symbols, seeds, stream)
            answers[mine, : answered.shape[1]] = answered[mine]
        return answers
