"""The pages with results: support counts and estimates, streamed, bounded, and decoded out of the way of reports."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from overstory.analysis.selection import Adjustment, Correction, IntervalKind
from overstory.collector.http.endpoint import ALWAYS_TEXT
from overstory.protocol.errors import ParameterError
from overstory.queries.counts import parse_range, read_store, with_sums
from overstory.queries.readings import Aggregation, EstimateOptions
from overstory.queries.streams import Answer, Form, Piece, Shape, check_counts, counts_text, estimates_answer

if TYPE_CHECKING:
    from overstory.collector.store import StoreReader
    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.queries.counts import PeriodCounts

READERS: Final = 2
"""Pieces of answers that are worked on at once; others wait."""
FEW_VALUES: Final = 1_000
"""At most so many values are estimated in a thread; more, in a second process, while the collector takes reports."""
NICENESS: Final = 10
"""The niceness of that process, which yields the processor to the collector."""
MEDIA_TYPES: Final = {"json": "application/json", "csv": "text/csv; charset=utf-8"}

Result = TypeVar("Result")


class CountsQuery(BaseModel):
    """What the page of counts may be asked."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    first: str | None = Field(
        None,
        alias="from",
        description="The first period, such as 2026-11-21, or the day of shorter periods. Default: the first stored.",
    )
    last: str | None = Field(
        None, alias="to", description="The last period, in the same form. Default: the last stored."
    )
    group: str | None = Field(
        None, description="Reports of this group alone, of a metric with groups. Default: of all devices."
    )
    form: Form = Field(
        "json", alias="format", description="spreadsheet: CSV in which no cell can be read as a formula."
    )


class EstimatesQuery(CountsQuery):
    """What the page of estimates may be asked: every choice of `overstory decode`."""

    reading: Aggregation = Field(
        "total",
        description="total: one estimate of the range; per-period: one of each period; cumulative: one of each period "
        "together with all earlier ones.",
    )
    interval: IntervalKind | None = Field(
        None,
        description="What intervals describe: these reports, or all devices like these (population). "
        "Default: reports for a total, else population.",
    )
    adjustment: Adjustment = Field(
        "fcr",
        description="The intervals of detected values: fcr, wider, so that the level holds for those too; conditional, "
        "given the detection, with a corrected estimate; none, plain.",
    )
    candidates: list[str] = Field(
        [], description="Strings to look for, instead of the registry's list: the parameter once for each."
    )
    alpha: float = Field(0.05, gt=0, lt=1, description="The bound of the correction, a fraction.")
    correction: Correction = Field(
        "fdr", description="alpha bounds the false discovery rate, or the chance of any false detection."
    )
    method: str = Field(
        "gls", pattern="^(gls|lasso)$", description="For Bloom filters: least squares, or the RAPPOR paper's Lasso."
    )
    complete: bool = Field(
        False, description="There are no other values: the candidates' counts add up to all reports."
    )
    steps: str = Field("", description="Names of post-processing steps, in order, with commas: base-cut,norm-sub.")
    reports_per_device: float | None = Field(
        None,
        ge=1,
        description="Reports of one device in the range (if uneven: sum of squares over sum). Default: the number of "
        "periods with reports.",
    )
    level: float = Field(0.95, gt=0, lt=1, description="The confidence level of the intervals.")
    limit: int | None = Field(None, ge=1, description="At most so many values of each range, the most frequent.")

    def options(self) -> EstimateOptions:
        steps = tuple(name.strip() for name in self.steps.split(",") if name.strip())
        selecting = self.alpha, self.correction, self.method, self.complete
        return EstimateOptions(
            self.reports_per_device,
            tuple(self.candidates) or None,
            *selecting,
            steps,
            self.interval,
            self.adjustment,
        )


class Decoding:
    """Runs what takes long: small work in a thread, large work in a second process that is started for it."""

    def __init__(self) -> None:
        self._readers = asyncio.Semaphore(READERS)
        self._pool: ProcessPoolExecutor | None = None

    async def read(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, from a thread."""
        async with self._readers:
            return await asyncio.to_thread(work)

    async def text(self, piece: Piece, *, is_long: bool) -> str:
        """Return a piece of an answer as text; HTTPException 503 when the process ended."""
        if not is_long:
            return await self.read(piece.text)
        async with self._readers:
            try:
                return await asyncio.get_running_loop().run_in_executor(self._process(), Piece.text, piece)
            except BrokenProcessPool as error:
                self._pool = None
                raise HTTPException(503, "The process that decodes has ended; ask again.") from error

    def _process(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # A fork of a process with threads may stop at a lock that one of them held.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_stand_back)
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _stand_back() -> None:
    """Prepare the process: it leaves processors to the collector, and ends when the collector was killed."""
    with suppress(OSError, AttributeError):  # not every system has priorities
        os.nice(NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def add_result_pages(
    app: FastAPI, decoding: Decoding, registry: MetricRegistry, store: StoreReader, guarded: dict[str, Any]
) -> None:
    """Add the two pages; `guarded` has their dependencies and their answers in case of an error."""

    def counted(metric: Metric, query: CountsQuery) -> PeriodCounts:
        ends = parse_range(metric, query.first, query.last)
        check_counts(metric, _periods(store, metric, *ends))
        return with_sums(store, read_store(store, metric, *ends, group=query.group))

    @app.get("/v1/metrics/{metric}/counts", summary="Support counts by period", **guarded)
    async def counts(metric: str, query: Annotated[CountsQuery, Query()], request: Request) -> StreamingResponse:
        _check_once(request)
        asked = registry[metric]
        read = await decoding.read(lambda: counted(asked, query))
        return _streamed(_blocks(counts_text(read, query.form)), query.form)

    @app.get("/v1/metrics/{metric}/estimates", summary="Estimates: total, by period, or cumulative", **guarded)
    async def estimates(metric: str, query: Annotated[EstimatesQuery, Query()], request: Request) -> StreamingResponse:
        _check_once(request)
        asked, shape = registry[metric], Shape(query.form, query.limit, query.level)

        def prepared() -> Answer:
            return estimates_answer(counted(asked, query), query.reading, query.options(), shape)

        answer = await decoding.read(prepared)
        is_long = answer.num_values > FEW_VALUES
        # The first piece comes before the status: an option that does not fit is an answer 400.
        first = [await decoding.text(piece, is_long=is_long) for piece in answer.pieces[:1]]

        async def texts() -> AsyncIterator[str]:
            yield answer.head + "".join(first)
            for piece in answer.pieces[1:]:
                yield answer.between + await decoding.text(piece, is_long=is_long)
            yield answer.tail

        return _streamed(texts(), query.form)


def _check_once(request: Request) -> None:
    for name in request.query_params:
        if name != "candidates" and len(request.query_params.getlist(name)) > 1:
            raise ParameterError(f"{name}: give it once")


def _periods(store: StoreReader, metric: Metric, first: int | None, last: int | None) -> int:
    """Return how many periods of a range have reports."""
    return sum(
        (first is None or period >= first) and (last is None or period <= last) for period in store.periods(metric.id)
    )


BLOCK: Final = 1 << 16


def _blocks(texts: Iterator[str]) -> Iterator[str]:
    """Join short texts: each block is one step of a thread and one write."""
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= BLOCK:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _streamed(texts: AsyncIterator[str] | Iterator[str], form: Form) -> StreamingResponse:
    return StreamingResponse(texts, headers=ALWAYS_TEXT | {"content-type": MEDIA_TYPES.get(form, MEDIA_TYPES["csv"])})
