"""The page of support counts: read out of the way of reports, bounded, and streamed a period at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import StreamingResponse

from overstory.analysis.alarms.sums import Watch
from overstory.analysis.kinds.base import server_half
from overstory.presentation.render_data import for_spreadsheet
from overstory.protocol.errors import ParameterError
from overstory.queries.counts import parse_range, read_store, with_sums
from overstory.supervision.answers import ALWAYS_TEXT, JSON
from overstory.supervision.upkeep import in_thread

if TYPE_CHECKING:
    from starlette.requests import Request

    from overstory.collector.store import Store
    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.queries.counts import PeriodCounts

READERS: Final = 2
"""Answers that are read from the store at once; others wait."""
MOST_COUNTS: Final = 10_000_000
"""Counts in one answer: periods times cohorts times bits. As JSON that is about 60 MB."""
BLOCK: Final = 1 << 16
"""Characters that are written at once: each block is one step of a thread and one write."""

PARAMETERS: Final = ("from", "to", "group", "format")
CSV: Final = "text/csv; charset=utf-8"
FORMS: Final = {"json": JSON, "csv": CSV, "spreadsheet": CSV}


class CountsPage:
    """GET /v1/metrics/{metric}/counts."""

    def __init__(self, registry: MetricRegistry, store: Store) -> None:
        self._registry, self._store = registry, store
        self._readers = asyncio.Semaphore(READERS)

    async def answer(self, request: Request) -> StreamingResponse:
        query = read_query(request)
        metric = self._registry[request.path_params["metric"]]
        async with self._readers:
            counted = await in_thread(self._read, metric, query)
        headers = ALWAYS_TEXT | {"content-type": FORMS[query["format"]]}
        return StreamingResponse(_blocks(counts_text(counted, query["format"])), headers=headers)

    def _read(self, metric: Metric, query: dict[str, str]) -> PeriodCounts:
        first, last = parse_range(metric, query.get("from"), query.get("to"))
        periods = [
            period
            for period in self._store.periods(metric.id)
            if (first is None or period >= first) and (last is None or period <= last)
        ]
        check_counts(metric, len(periods))
        return with_sums(self._store, read_store(self._store, metric, first, last, group=query.get("group")))


def read_query(request: Request) -> dict[str, str]:
    """Return the parameters of a request; ParameterError names one that is unknown, malformed or given twice."""
    given = request.query_params.multi_items()
    query = dict(given)
    for name in query:
        if name not in PARAMETERS:
            raise ParameterError(f"{name}: this page has no such parameter")
        if sum(name == other for other, _ in given) > 1:
            raise ParameterError(f"{name}: give it once")
    if query.setdefault("format", "json") not in FORMS:
        raise ParameterError(f"format: give one of {', '.join(FORMS)}")
    return query


def check_counts(metric: Metric, periods: int) -> None:
    """Refuse to read the counts of so many periods where these are too many numbers."""
    watch = Watch.of(metric.mechanism)
    each = server_half(metric.mechanism).num_counts(metric.labels) + (0 if watch is None else watch.num_sums)
    if periods * each > MOST_COUNTS:
        raise ParameterError(
            f"{periods:,} periods of {each:,} counts of {metric.id} are {periods * each:,} numbers, and an answer "
            f"has at most {MOST_COUNTS:,}: ask for at most {MOST_COUNTS // each:,} periods (from=, to=), or run "
            "overstory decode --store"
        )


def counts_text(counted: PeriodCounts, form: str) -> Iterator[str]:
    """Yield the counts as text, a period at a time."""
    if form != "json":
        yield from counted.csv_lines() if form == "csv" else for_spreadsheet(counted.csv_lines())
        return
    yield f'{_json(counted.summary_json())[:-1]},"periods":['
    for number, period in enumerate(counted.periods):
        yield ("," if number else "") + _json(counted.period_json(period))
    yield f'],"other_parameters":{_json(counted.others_json())}}}'


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _blocks(texts: Iterator[str]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= BLOCK:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)
