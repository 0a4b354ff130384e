"""What the screens read: a registry, a store, the time, and estimates of closed and running periods."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from overstory.console.estimates import BoundedCache, Estimates, WorkerError
from overstory.console.view import ScreenError
from overstory.presentation.formats import date_words
from overstory.protocol.errors import ParameterError
from overstory.queries.counts import PeriodCounts, read_store
from overstory.queries.readings import PLAIN, Aggregation, EstimateOptions, Reading

if TYPE_CHECKING:
    from overstory.collector.store import Store
    from overstory.protocol.metrics import Metric, MetricRegistry
    from overstory.queries.estimates import EstimateSeries


PeriodState = Literal["running", "settling", "final"]
"""A running period is not over; a settling one is over and still takes late reports; a final one takes none."""


class ConsoleData:
    """A registry and a store, as the screens read them."""

    def __init__(
        self,
        registry: MetricRegistry,
        store: Store,  # only read
        clock: Callable[[], float] = time.time,
        decoder: Estimates | None = None,
    ) -> None:
        self.registry, self.store, self.clock = registry, store, clock
        self.lists = CandidateLists()
        self.decoder = decoder or Estimates()

    def metric(self, name: str) -> Metric:
        if name in self.registry:
            return self.registry[name]
        near = get_close_matches(name, list(self.registry), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ScreenError(404, f"the registry has no metric {name!r}{hint}")

    def reports(self, metric: Metric, first: int, last: int) -> dict[int, int]:
        """Return the number of reports of each period, whatever parameters they were made with."""
        reports: Counter[int] = Counter()
        for (period, _), number in self.store.tally(metric.id, first, last).items():
            reports[period] += number
        return reports

    def words(self, label: str) -> str:
        return date_words(label, dt.datetime.fromtimestamp(self.clock(), dt.UTC).year)

    def state(self, metric: Metric, period: int) -> PeriodState:
        now = self.clock()
        if now < metric.period.start(period + 1):
            return "running"
        return "settling" if now < metric.final_from(period) else "final"

    def counts(
        self, metric: Metric, first: int | None = None, last: int | None = None, group: str = ""
    ) -> PeriodCounts:
        """Return the counts of a range of periods, all unless given; ScreenError 400 for an unknown or hidden group."""
        try:
            return read_store(self.store, metric, first, last, group=group or None)
        except ParameterError as error:
            raise ScreenError(400, f"group: {error}" if group else str(error)) from error

    def estimates(
        self, counts: PeriodCounts, reading: Aggregation = "total", options: EstimateOptions = PLAIN
    ) -> EstimateSeries:
        """Return estimates, each decoded once; ScreenError 400: unfit option, 202: ask again, 503: too much waits."""
        return self.all_estimates([counts], reading, options)[0]

    def all_estimates(
        self, several: Sequence[PeriodCounts], reading: Aggregation = "total", options: EstimateOptions = PLAIN
    ) -> list[EstimateSeries]:
        with _as_screen_errors():
            return self.decoder.read_all(several, reading, options)

    def reading(self, counts: PeriodCounts, kind: Aggregation = "total", options: EstimateOptions = PLAIN) -> Reading:
        with _as_screen_errors():
            return self.decoder.read_reading(counts, kind, options)


@contextmanager
def _as_screen_errors() -> Iterator[None]:
    """Give what can go wrong with an estimate the status of its page."""
    try:
        yield
    except WorkerError as error:
        raise ScreenError(503, str(error)) from error
    except ParameterError as error:
        raise ScreenError(400, str(error)) from error


class CandidateLists:
    """Lists by name, as many as a `BoundedCache` holds."""

    def __init__(self) -> None:
        self._texts = BoundedCache()

    def hold(self, candidates: Sequence[str]) -> str:
        text = "\n".join(candidates).encode("utf-8", "surrogatepass")
        name = hashlib.sha256(text).hexdigest()
        self._texts.put(name, text, len(text))
        return name

    def find(self, name: str) -> tuple[str, ...] | None:
        text = self._texts.get(name)
        return None if text is None else tuple(text.decode("utf-8", "surrogatepass").split("\n"))
