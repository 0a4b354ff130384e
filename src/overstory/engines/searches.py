"""A search along prefixes over files of answers: what each level asks of them is one job of an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import pooled
from overstory.analysis.kinds.split import answers_of
from overstory.analysis.kinds.symbols import LinearSupport
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.units import Job
from overstory.protocol.kinds.symbols import SymbolMechanism
from overstory.protocol.search import SearchMechanism

Counting = Callable[[Job], "SupportCounts"]


@dataclass(frozen=True)
class AnswersJob(Job):
    """Counts the answers to one question that support each extension of prefixes."""

    group: int = 0  # the question's
    parents: tuple[int, ...] = ()  # the words of the prefixes
    step: int = 0  # by how many bits they are extended

    @property
    def question(self) -> SymbolMechanism:
        return _search_of(self).questions[self.group].mechanism

    def count(self, batch: ReportBatch) -> SupportCounts:
        answers = answers_of(_search_of(self), batch, self.group)
        support = LinearSupport(self.question)
        ones = support.count_extensions(answers, np.array(self.parents, np.uint64), self.step)
        return pooled(ones.ravel(), len(answers))


class EngineAnswers:
    """The answers to one question, in files; see `overstory.discovery.heavy_hitters.RemoteAnswers`."""

    def __init__(self, counting: Counting, job: AnswersJob, size: int) -> None:
        self._counting, self._job, self._size = counting, job, size
        self.num_bits, self.num_cohorts = job.question.payload_bits, job.question.num_cohorts

    def __len__(self) -> int:
        return self._size

    def count_extensions(self, parents: NDArray[np.uint64], step: int) -> NDArray[np.int64]:
        """Return how many answers support each extension of `parents` by `step` bits, shape (b, 2**step)."""
        asked = replace(self._job, parents=tuple(parents.tolist()), step=step)
        ones: NDArray[np.int64] = self._counting(asked).ones[0].reshape(len(parents), 1 << step)
        return ones


def search_answers(counting: Counting, job: Job) -> list[EngineAnswers]:
    """Return the answers to each question of a search; `counting` counts one job over all files."""
    sizes = counting(job).totals.tolist()
    own = (AnswersJob(job.packed, group=group) for group in range(len(sizes)))
    return [EngineAnswers(counting, asked, size) for asked, size in zip(own, sizes, strict=True)]


def _search_of(job: Job) -> SearchMechanism:
    return cast("SearchMechanism", job.mechanism())
