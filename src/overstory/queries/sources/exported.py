"""Exported files, read as a store is: an engine counts the reports of each period and group, once for all readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from overstory.analysis.alarms.sums import PAIR_REPORTS, ReportSums, Watch, symmetric
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.driver import Run, check_label, read_unit
from overstory.engines.places import ExportedSet, place_of
from overstory.engines.units import Job, Unit, read_contents, unit_bytes, units_of
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.metrics import Metric
from overstory.queries.counts import sum_by_key

if TYPE_CHECKING:
    from overstory.privacy.payloads.shuffle import Released


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
        upper = sums.pairs[np.triu_indices(len(sums.pairs))]
        row = np.concatenate((np.array([sums.pair_reports]), sums.ones, upper, sums.seeds))
        return SupportCounts([sums.num_reports], row[None, :])

    def sums(self, summed: SupportCounts) -> ReportSums:
        watch = self.watch
        assert watch is not None
        row = summed.ones[0]
        ones, upper, seeds = np.split(row[1:], [watch.num_cells, len(row) - 1 - watch.num_buckets])
        return ReportSums(summed.num_reports, ones, int(row[0]), symmetric(upper), seeds)


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

    def releases(self, metric_id: str, first: int, last: int) -> Mapping[int, Released]:  # noqa: ARG002
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
        of_address = {one.address(part): numbers[_key(metric, one)] for one in chosen for part in one.manifest.parts}
        places = sorted(
            (place_of(one, part) for one in chosen for part in one.manifest.parts), key=attrgetter("address")
        )
        contents = read_contents(places)
        for file in contents[:1]:  # the others are of the same parameters
            check_label(file.label.digest, metric.mechanism, file.place.shown)
        units = units_of(contents, unit_bytes(contents, self.workers))
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
