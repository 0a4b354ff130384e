"""Support counts of a metric by period, read from a store; `remote` reads the same from a collector over HTTP."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from overstory.analysis.alarms.sums import ReportSums
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.selection import normal_reach
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.protocol.metrics.groups import OTHER, Groups
from overstory.protocol.metrics.period import DAY, Period

if TYPE_CHECKING:
    from overstory.privacy.payloads.shuffle import ReleasedPeriods

Ordered = TypeVar("Ordered", bound=Any)
Summand = TypeVar("Summand", bound=Any)


class CountsStore(Protocol):
    """The methods of a store that `read_store` calls."""

    def periods(self, metric_id: str) -> list[int]:
        """Periods with reports, ascending."""

    def counts(
        self, metric: Metric, first: int, last: int, *, groups: Collection[str] | None = None
    ) -> dict[int, SupportCounts]:
        """Counts by period, of reports made with the metric's own parameters; of these groups, or of all devices."""

    def groups(self, metric_id: str) -> list[str]:
        """The groups that there are reports of; empty text: reports that name none."""

    def tally(
        self, metric_id: str, first: int, last: int, *, groups: Collection[str] | None = None
    ) -> dict[tuple[int, bytes], int]:
        """Reports that came, by (period, mechanism digest), whatever the parameters; of these groups, or of all."""

    def releases(self, metric_id: str, first: int, last: int) -> Mapping[int, Any]:
        """What shuffling relays released, by period; read of metrics whose reports come through a relay."""

    def reports(self, metric: Metric, first: int, last: int) -> Iterator[ReportBatch]:
        """Stored reports, made with the metric's own parameters."""

    def sums(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[int, ReportSums]:
        """Sums of reports by period, by which crafted ones are noticed."""


@dataclass(frozen=True)
class OtherParameters:
    """Reports of the metric that were made with other parameters: they mean something else."""

    digest: bytes
    first: int
    last: int
    reports: int


@dataclass(frozen=True)
class ActiveDevices:
    """How many devices were active in a period, so that they could be asked: the mean over some periods."""

    estimate: int
    low: int  # as `high`: of the 95% interval
    high: int
    share_asked: float

    @classmethod
    def of(cls, reports: int, asked: Sequence[float]) -> ActiveDevices:
        """Return it from the reports of some periods and the share of the devices that is asked in each."""
        # Of D devices each is asked with probability p, so reports have mean D sum p and variance D sum p (1 - p), or
        # x v with x the mean. Wilson's interval has all x with |reports - x| <= z sqrt(x v).
        total, z = sum(asked), normal_reach(0.95)
        spread = sum(share * (1 - share) for share in asked) / total
        centre = reports + z * z * spread / 2
        reach = z * math.sqrt(spread * (reports + z * z * spread / 4))
        low, high = math.floor((centre - reach) / total), math.ceil((centre + reach) / total)
        return cls(round(reports / total), low, high, total / len(asked))


@dataclass(frozen=True, eq=False)
class PeriodCounts:
    """Support counts of a metric, by period."""

    metric: Metric
    first: int | None  # as `last`: a requested period, both included; None: without reports, and none was requested
    last: int | None
    counts: Mapping[int, SupportCounts]  # periods without reports are not listed
    others: tuple[OtherParameters, ...] = ()
    group: str | None = None  # whose devices are counted; None: all devices
    # What reads the stored reports, which a search needs, while the store is open; None where only counts are here.
    reports: Callable[[], Iterator[ReportBatch]] | None = field(default=None, repr=False)
    released: ReleasedPeriods | None = None  # together, by relays; None for a metric that devices report directly
    sums: Mapping[int, ReportSums] = field(default_factory=dict, repr=False)  # by which crafted reports are noticed
    taken_out: Mapping[int, int] = field(default_factory=dict)  # reports that are in no counts since their retention

    @property
    def num_reports(self) -> int:
        return sum(counts.num_reports for counts in self.counts.values())

    @cached_property
    def periods(self) -> list[int]:
        return sorted(period for period, counts in self.counts.items() if counts.num_reports)

    def most_reports(self, periods: Sequence[int]) -> int:
        """Return how many reports of one device there are in some periods, at most."""
        panel = self.metric.panel
        return len(periods) if panel is None else panel.most_reports(self.metric.period, periods)

    def devices(self, first: int | None = None, last: int | None = None) -> ActiveDevices | None:
        """Return how many devices a panel's reports of some periods come from; None without a panel or reports."""
        panel, length = self.metric.panel, self.metric.period
        came = Counter({period: counts.num_reports for period, counts in self.counts.items()}) + Counter(self.taken_out)
        if panel is None or not came:
            return None
        first = max(min(came), min(came) if first is None else first)
        periods = range(first, 1 + min(max(came), max(came) if last is None else last))
        if not periods:
            return None
        parts = Counter(panel.part_of_questions(length.start(period)) for period in periods)
        asked = [share for part, n in parts.items() for share in [float(panel.share_asked(length, part))] * n]
        return ActiveDevices.of(sum(came[period] for period in periods), asked)

    def devices_json(self, first: int | None = None, last: int | None = None) -> dict[str, Any]:
        """Return the same as JSON values, under ``devices``; nothing where there is none."""
        active = self.devices(first, last)
        return {} if active is None else {"devices": asdict(active)}

    def panel_sentences(self) -> list[str]:
        """Return how few devices are asked, and how many there are; none without a panel."""
        active, each = self.devices(), self.metric.period
        if active is None:
            return []
        among = f"{1 / active.share_asked:,.1f}".removesuffix(".0")
        of = "" if self.group is None else f" of {self.group}"
        were = f"if all reports are in, about {active.estimate:,}{of} were active in a {each}"
        ends = f"95% interval {active.low:,} to {active.high:,}"
        return [f"panel: each {each} 1 of {among} devices is asked; {were} ({ends})"]

    def label(self, period: int | None) -> str | None:
        return None if period is None else self.metric.period.label(period)

    def to_json(self) -> dict[str, Any]:
        about, periods = self.summary_json(), [self.period_json(period) for period in self.periods]
        return {**about, "periods": periods, "other_parameters": self.others_json()}

    def summary_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric.id,
            "digest": self.metric.mechanism.digest.hex(),
            "period": str(self.metric.period),
            **({} if self.group is None else {"group": self.group}),
            "from": self.label(self.first),
            "to": self.label(self.last),
            "reports": self.num_reports,
            **({"taken_out": {self.label(p): n for p, n in self.taken_out.items()}} if self.taken_out else {}),
            **self.central_json(),
        }

    def central_json(self) -> dict[str, Any]:
        """Return the claim about reports that came through a relay, under ``central``; nothing for other metrics."""
        return {} if self.released is None else {"central": self.released.claim(self.metric.mechanism).to_json()}

    def central_sentences(self) -> list[str]:
        return [] if self.released is None else self.released.claim(self.metric.mechanism).sentences()

    def period_json(self, period: int) -> dict[str, Any]:
        counts, more = self.counts[period], {"sums": self.sums[period].to_json()} if period in self.sums else {}
        about: dict[str, Any] = {"period": self.label(period)}
        if self.released is not None:
            about["smallest_release"] = self.released.smallest.get(period, 0)
        return {**about, "totals": counts.totals.tolist(), "ones": counts.ones.tolist(), **more}

    @classmethod
    def from_json(cls, metric: Metric, parsed: Any) -> PeriodCounts:
        """Read what `to_json` wrote."""
        try:
            return cls._from_json(metric, parsed)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise ParameterError(f"these are no counts of {metric.id}: {error!r}") from error

    @classmethod
    def _from_json(cls, metric: Metric, parsed: dict[str, Any]) -> PeriodCounts:
        if parsed["metric"] != metric.id or parsed["digest"] != metric.mechanism.digest.hex():
            raise ParameterError(
                f"the registry here gives {metric.id} the parameters {metric.mechanism.digest.hex()}, the counts are "
                f"of {parsed['metric']} with {parsed['digest']}: read both with the same registry file"
            )
        number = metric.period.parse_label
        counts = {number(row["period"]): SupportCounts(row["totals"], row["ones"]) for row in parsed["periods"]}
        others = [
            OtherParameters(bytes.fromhex(row["digest"]), number(row["from"]), number(row["to"]), int(row["reports"]))
            for row in parsed["other_parameters"]
        ]
        first, last = (None if parsed[end] is None else number(parsed[end]) for end in ("from", "to"))
        sums = {number(row["period"]): ReportSums.from_json(row["sums"]) for row in parsed["periods"] if "sums" in row}
        released = _released(metric, parsed)
        taken_out = {number(label): int(reports) for label, reports in parsed.get("taken_out", {}).items()}
        return cls(
            metric, first, last, counts, tuple(others), parsed.get("group"), None, released, sums, taken_out=taken_out
        )

    def others_json(self) -> list[dict[str, Any]]:
        return [
            {"digest": o.digest.hex(), "from": self.label(o.first), "to": self.label(o.last), "reports": o.reports}
            for o in self.others
        ]


def read_store(
    store: CountsStore,
    metric: Metric,
    first: int | None = None,
    last: int | None = None,
    *,
    group: str | None = None,
    has_sums: bool = False,
) -> PeriodCounts:
    """Read the counts of a range of periods, both included; by default of all with reports, and of all devices.

    With the sums of their reports, crafted ones are noticed.
    """
    chosen = {} if group is None else {"groups": stored_groups(store, metric, group)}
    read_reports = partial(store.reports, metric) if metric.mechanism.reads_reports else None
    periods = store.periods(metric.id)
    first = min([*periods, *([] if last is None else [last])], default=None) if first is None else first
    last = max([*periods, *([] if first is None else [first])], default=None) if last is None else last
    if first is None or last is None:
        return PeriodCounts(metric, None, None, {}, (), group, read_reports and partial(read_reports, 1, 0))
    _check_order(metric, first, last)
    by_digest: dict[bytes, dict[int, int]] = {}
    for (period, digest), number in store.tally(metric.id, first, last, **chosen).items():
        by_digest.setdefault(digest, {})[period] = number
    came = by_digest.pop(metric.mechanism.digest, {})
    ordered = sorted(by_digest.items())
    others = [OtherParameters(digest, min(held), max(held), sum(held.values())) for digest, held in ordered]
    counts = store.counts(metric, first, last, **chosen)
    missing = {period: came.get(period, 0) - of_period.num_reports for period, of_period in counts.items()}
    # More may have come since they were tallied.
    taken_out = {period: reports for period, reports in missing.items() if reports > 0}
    released = None
    if metric.is_oblivious:
        from overstory.privacy.payloads.shuffle import ReleasedPeriods

        held = [period for period, of_period in sorted(counts.items()) if of_period.num_reports]
        found = store.releases(metric.id, held[0], held[-1]) if held else {}
        complete = {period: each.smallest for period, each in found.items() if each.complete}
        released = ReleasedPeriods({period: complete.get(period, 0) for period in held}, metric.groups is not None)
    reports = read_reports and partial(read_reports, first, last)
    sums = store.sums(metric, first, last, **chosen) if has_sums else {}
    return PeriodCounts(metric, first, last, counts, tuple(others), group, reports, released, sums, taken_out)


def _released(metric: Metric, parsed: dict[str, Any]) -> ReleasedPeriods | None:
    if "central" not in parsed:
        return None
    from overstory.privacy.payloads.shuffle import ReleasedPeriods

    smallest = {metric.period.parse_label(row["period"]): int(row["smallest_release"]) for row in parsed["periods"]}
    return ReleasedPeriods(smallest, metric.groups is not None)


def stored_groups(store: CountsStore, metric: Metric, group: str) -> set[str]:
    """Return the stored groups that are one of a metric's: earlier ones, which are no longer listed, are ``other``."""
    listed = check_group(metric, group)
    return {group} if group != OTHER else set(store.groups(metric.id)) - set(listed.shares) - {""}


def check_group(metric: Metric, group: str) -> Groups:
    """Return a metric's groups, or raise ParameterError where it has not this one, or its results are hidden."""
    groups = metric.groups
    if groups is None:
        raise ParameterError(f"{metric.id} has no groups: its reports name none")
    if groups.hidden(group):
        raise ParameterError(
            f"the group {group!r} of {metric.id} has {groups.expected(group):,.0f} expected devices, fewer than the "
            f"floor of {groups.floor:,}: its results are hidden"
        )
    return groups


def parse_range(metric: Metric, first: str | None, last: str | None) -> tuple[int | None, int | None]:
    """Return the numbers of the periods with these labels; a day's label stands for all of its shorter periods."""
    start = None if first is None else _period(metric.period, first, end=False)
    end = None if last is None else _period(metric.period, last, end=True)
    if start is not None and end is not None:
        _check_order(metric, start, end)
    return start, end


def _period(period: Period, label: str, *, end: bool) -> int:
    day = Period(DAY)
    if period.seconds < DAY and "T" not in label:
        number = day.parse_label(label)
        return period.number(day.start(number + 1) - 1 if end else day.start(number))
    return period.parse_label(label)


def _check_order(metric: Metric, first: int, last: int) -> None:
    if first > last:
        begin, end = metric.period.label(first), metric.period.label(last)
        raise ParameterError(f"the range from {begin} to {end} ends before it begins")


def sum_by_key(found: Iterable[tuple[Ordered, Summand]]) -> dict[Ordered, Summand]:
    """Return the sum of what was found under each key, by ascending key."""
    total: dict[Ordered, Summand] = {}
    for key, more in found:
        total[key] = total[key] + more if key in total else more
    return dict(sorted(total.items()))
