"""Where counts are read from, besides a store: exported folders, which an engine counts; a collector's address."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.client import HTTPException
from operator import attrgetter
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np

from overstory.analysis.alarms.sums import PAIR_REPORTS, ReportSums, Watch
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.driver import Run, check_label, read_unit
from overstory.engines.places import ExportedSet
from overstory.engines.units import Job, Unit, read_contents, unit_bytes, units_of
from overstory.protocol.errors import FormatError, OverstoryError, ParameterError
from overstory.protocol.metrics import Metric
from overstory.protocol.metrics.metric_table import metric_from_json
from overstory.protocol.wire.reasons import check_token, problem_detail
from overstory.queries.counts import PeriodCounts, sum_by_key


@dataclass(frozen=True)
class SumsJob(Job):
    """Sums the reports of each unit; the sums travel and are added as one row of counts."""

    @property
    def watch(self) -> Watch | None:
        return Watch.of(self.mechanism())

    def count(self, batch: ReportBatch) -> SupportCounts:
        return self._sum(batch, PAIR_REPORTS)

    def counting(self, unit: Unit) -> Callable[[ReportBatch], SupportCounts]:
        """Return what sums the batches of a unit, which look for pairs in its first reports alone."""
        left = unit.watched

        def sum_next(batch: ReportBatch) -> SupportCounts:
            nonlocal left
            summed = self._sum(batch, left)
            left = max(left - len(batch), 0)
            return summed

        return sum_next

    def _sum(self, batch: ReportBatch, pair_reports: int) -> SupportCounts:
        watch = self.watch
        assert watch is not None
        sums = watch.sum(batch, pair_reports)
        row = np.concatenate((np.array([sums.pair_reports]), sums.ones, sums.upper, sums.seeds))
        return SupportCounts([sums.num_reports], row[None, :])

    def sums(self, summed: SupportCounts) -> ReportSums:
        watch = self.watch
        assert watch is not None
        row = summed.ones[0]
        ones, upper, seeds = np.split(row[1:], [watch.num_cells, len(row) - 1 - watch.num_buckets])
        return ReportSums(summed.num_reports, ones, int(row[0]), upper, seeds)


Counting = Callable[[Job, Sequence[Unit]], "Run"]  # counts units by an engine


class Counted(NamedTuple):
    """Reports that are counted together: those of a metric, a period and a group, counted in one way."""

    metric: str
    counts_digest: bytes
    period: int
    group: str


@dataclass
class ExportedReports:
    """The reports of exported folders, with the methods of a store that `read_store` calls."""

    sets: Sequence[ExportedSet]
    counting: Counting
    workers: int = 8  # units that are counted at a time, about
    _known: dict[type[Job], dict[Counted, SupportCounts]] = field(default_factory=dict, repr=False)

    def periods(self, metric_id: str) -> list[int]:
        return sorted({one.manifest.period for one in self.sets if one.manifest.metric == metric_id})

    def groups(self, metric_id: str) -> list[str]:
        return sorted({one.manifest.group for one in self.sets if one.manifest.metric == metric_id})

    def tally(
        self, metric_id: str, first: int, last: int, *, groups: Collection[str] | None = None
    ) -> dict[tuple[int, bytes], int]:
        reports: Counter[tuple[int, bytes]] = Counter()
        for manifest in (one.manifest for one in self.sets if groups is None or one.manifest.group in groups):
            if manifest.metric == metric_id and first <= manifest.period <= last:
                reports[manifest.period, manifest.label.digest] += manifest.num_reports
        return dict(sorted(reports.items()))

    def releases(self, metric_id: str, first: int, last: int) -> Mapping[int, Any]:  # noqa: ARG002
        """Return nothing: what relays released together is in the store alone."""
        return {}

    def counts(
        self, metric: Metric, first: int, last: int, *, groups: Collection[str] | None = None
    ) -> dict[int, SupportCounts]:
        return sum_by_key(self._counted(Job.of(metric.mechanism), metric, first, last, groups))

    def sums(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[int, ReportSums]:
        job = SumsJob.of(metric.mechanism)
        if job.watch is None:
            return {}
        counted = self._counted(job, metric, first, last, groups)
        return sum_by_key((period, job.sums(summed)) for period, summed in counted)

    def reports(self, metric: Metric, first: int, last: int) -> Iterator[ReportBatch]:
        for unit in self._units(metric, self._chosen(metric, first, last)):
            yield from read_unit(unit, metric.mechanism)

    def _chosen(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> list[ExportedSet]:
        chosen = []
        for one in self.sets:
            manifest = one.manifest
            if manifest.metric != metric.id or not first <= manifest.period <= last:
                continue
            if manifest.period_seconds != metric.period.seconds:
                lengths = f"{manifest.period_seconds:,} seconds, those of {metric.id} {metric.period.seconds:,}"
                raise FormatError(f"its periods have {lengths}: give the registry of that time", source=one.source)
            if manifest.label.digest == metric.mechanism.digest and (groups is None or manifest.group in groups):
                chosen.append(one)
        return chosen

    def _counted(
        self, job: Job, metric: Metric, first: int, last: int, groups: Collection[str] | None
    ) -> list[tuple[int, SupportCounts]]:
        """Return what a job makes of each period and group, which is counted once."""
        known, chosen = self._known.setdefault(type(job), {}), self._chosen(metric, first, last, groups)
        if missing := [one for one in chosen if _key(metric, one) not in known]:
            collections = self.counting(job, self._units(metric, missing)).collections
            known.update((key, collections[number]) for number, key in enumerate(_keys(metric, missing)))
        return [(key.period, known[key]) for key in _keys(metric, chosen)]

    def _units(self, metric: Metric, chosen: Sequence[ExportedSet]) -> list[Unit]:
        if not chosen:
            return []
        numbers = {key: number for number, key in enumerate(_keys(metric, chosen))}
        collections = {one.place(part): numbers[_key(metric, one)] for one in chosen for part in one.manifest.parts}
        contents = read_contents(sorted(collections, key=attrgetter("address")))
        for file in contents[:1]:  # the others are of the same parameters
            check_label(file.label.digest, metric.mechanism, file.place.shown)
        units = units_of(contents, unit_bytes(contents, self.workers))
        of_address = {place.address: number for place, number in collections.items()}
        return list(_watched(replace(unit, collection=of_address[unit.address]) for unit in units))


def only_metric(sets: Iterable[ExportedSet]) -> str:
    """Return the only metric that there are exported reports of; ParameterError when there are several."""
    names = sorted({one.manifest.metric for one in sets})
    if len(names) != 1:
        raise ParameterError(f"reports of {', '.join(names)} are there: choose one by --metric")
    return names[0]


def _key(metric: Metric, one: ExportedSet) -> Counted:
    return Counted(metric.id, metric.counts_digest, one.manifest.period, one.manifest.group)


def _keys(metric: Metric, chosen: Iterable[ExportedSet]) -> list[Counted]:
    return sorted({_key(metric, one) for one in chosen})


def _watched(units: Iterable[Unit]) -> Iterator[Unit]:
    """Yield units that watch the first reports of each collection, as many as a store does."""
    before: Counter[int] = Counter()
    for unit in units:
        room = max(PAIR_REPORTS - before[unit.collection], 0)
        yield replace(unit, watched=min(room, unit.num_reports))
        before[unit.collection] += unit.num_reports


SECONDS: Final = 60.0  # to wait for the collector
MOST_BYTES: Final = 1 << 30  # a longer answer is not read to its end: no counts are as large


class RemoteError(OverstoryError):
    """A collector cannot be reached, or refuses, or its answer cannot be read."""


def read_remote(
    url: str, token: str, metric: Metric, first: int | None = None, last: int | None = None, *, group: str | None = None
) -> PeriodCounts:
    """Ask a collector for the counts of a range of periods, by default of all; an admin token is needed."""
    ends = {name: None if p is None else metric.period.label(p) for name, p in (("from", first), ("to", last))}
    asked = ends | {"group": group}
    query = urlencode({name: text for name, text in asked.items() if text is not None})
    address = f"{_checked_url(url)}/v1/metrics/{quote(metric.id)}/counts" + (f"?{query}" if query else "")
    counted = PeriodCounts.from_json(metric, _fetch_json(address, token))
    if counted.group != group:
        raise RemoteError(f"{address}: the answer is of the group {counted.group}: upgrade the collector")
    return counted


def read_remote_metric(url: str, name: str) -> Metric:
    """Ask the collector at `url` for a metric of its public registry, which has no candidates."""
    address = f"{_checked_url(url)}/v1/metrics/{quote(name, safe='')}"
    try:
        return metric_from_json(_fetch_json(address, ""))
    except FormatError as error:
        raise RemoteError(f"{address}: {error}; give --registry FILE") from error


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.netloc) and not parts.query and not parts.fragment
    except ValueError:  # half an IPv6 address
        usable = False
    if not usable:
        raise RemoteError(f"{url!r} is no collector's address: give one such as https://collector.example")
    return url.rstrip("/")


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: a token goes to the given address and to no other."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse."""


def _fetch_json(address: str, token: str) -> Any:
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {check_token(token)}"} if token else {})
    try:
        request = Request(address, headers=headers)  # noqa: S310 - the scheme was checked
        with build_opener(_NoRedirects).open(request, timeout=SECONDS) as response:
            raw = response.read(MOST_BYTES + 1)
    except HTTPError as error:
        raise RemoteError(f"{address}: {_refusal(error, token)}") from error
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise RemoteError(f"{address}: no answer from a collector: {getattr(error, 'reason', error)}") from error
    if len(raw) > MOST_BYTES:
        raise RemoteError(f"{address}: the answer has more than {MOST_BYTES >> 30} GiB: ask for fewer periods")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RemoteError(f"{address}: the answer is not JSON: is a collector listening there?") from error


def _refusal(error: HTTPError, token: str) -> str:
    if error.code == HTTPStatus.UNAUTHORIZED:
        problem = "the collector does not take this token" if token else "the collector wants an admin token"
        return f"{problem}: give one with OVERSTORY_ADMIN_TOKEN ({_reason(error)})"
    return f"the collector refused ({error.code}): {_reason(error)}"


def _reason(error: HTTPError) -> str:
    try:
        problem = json.loads(error.read(1 << 16))
    except (ValueError, RecursionError, HTTPException, OSError):
        problem = None
    detail = problem_detail(problem) if isinstance(problem, dict) else None
    return str(error.reason) if detail is None else detail
