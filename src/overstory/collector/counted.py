"""Counts of a stretch of time: from a store or over HTTP, the same afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from overstory.analysis.counts import SupportCounts
from overstory.analysis.estimate_output import csv_line
from overstory.protocol.encodings import Bloom
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.sampled import SampledBits
from overstory.protocol.metrics import Metric
from overstory.protocol.metrics.period import DAY, Period
from overstory.protocol.public_seeds import BalancedHash, SeededHash


class CountsStore(Protocol):
    """What of a store is needed to read counts."""

    def periods(self, metric_id: str) -> list[int]:
        """Periods with reports, ascending."""
        ...

    def counts(self, metric: Metric, first: int, last: int) -> dict[int, SupportCounts]:
        """Counts by period, of reports made with the metric's own parameters."""
        ...

    def tally(self, metric_id: str, first: int, last: int) -> dict[tuple[int, bytes], int]:
        """Reports by (period, mechanism digest), whatever the parameters."""
        ...


@dataclass(frozen=True)
class Others:
    """Reports of the metric that were made with other parameters: they mean something else, and are only told of."""

    digest: bytes
    first: int
    last: int
    reports: int


@dataclass(frozen=True, eq=False)
class Counted:
    """Support counts of a metric, by period.

    Attributes
    ----------
    metric
        Whose.
    first, last
        The periods asked for, both included; None where nothing was ever reported and nothing asked for.
    counts
        By period; periods without reports are not listed.
    others
        What lies in the same range and was made with other parameters.
    """

    metric: Metric
    first: int | None
    last: int | None
    counts: Mapping[int, SupportCounts]
    others: tuple[Others, ...] = ()

    @property
    def num_reports(self) -> int:
        """Over all periods."""
        return sum(counts.num_reports for counts in self.counts.values())

    @cached_property
    def periods(self) -> list[int]:
        """Those with reports, ascending."""
        return sorted(period for period, counts in self.counts.items() if counts.num_reports)

    def label(self, period: int | None) -> str | None:
        """Return what a period is called; None for None."""
        return None if period is None else self.metric.period.label(period)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; `counted_from_json` is the inverse."""
        return {
            "metric": self.metric.id,
            "digest": self.metric.mechanism.digest.hex(),
            "period": str(self.metric.period),
            "from": self.label(self.first),
            "to": self.label(self.last),
            "reports": self.num_reports,
            "periods": [
                {
                    "period": self.label(p),
                    "totals": self.counts[p].totals.tolist(),
                    "ones": self.counts[p].ones.tolist(),
                }
                for p in self.periods
            ],
            "other_parameters": self.others_json(),
        }

    def others_json(self) -> list[dict[str, Any]]:
        """Return the other parameters' reports as JSON values."""
        return [
            {"digest": o.digest.hex(), "from": self.label(o.first), "to": self.label(o.last), "reports": o.reports}
            for o in self.others
        ]

    def csv_lines(self) -> Iterator[str]:
        """Yield a header, and a line for each cohort of each period: its reports, and how often each bit was set."""
        yield csv_line(["period", "cohort", "reports", *self._columns()])
        for period in self.periods:
            counts, label = self.counts[period], self.label(period)
            for cohort, ones in enumerate(counts.ones.tolist()):
                yield csv_line([label, cohort, int(counts.totals[cohort]), *ones])

    def _columns(self) -> list[str]:
        """Return names of what is counted: labels where a count is of a label, else bits."""
        encoding, labels = self.metric.mechanism.encoding, self.metric.labels
        size = self.counts[self.periods[0]].num_bits if self.periods else self.metric.mechanism.payload_bits
        if isinstance(encoding, BalancedHash | SeededHash):
            return [f"symbol{symbol}" for symbol in range(size)]
        if isinstance(encoding, Bloom | SampledBits) or len(labels) != size:
            return [f"bit{bit}" for bit in range(size)]
        return list(labels)


def read_store(store: CountsStore, metric: Metric, first: int | None = None, last: int | None = None) -> Counted:
    """Read a range of periods, both ends included; all there are, unless given.

    Raises
    ------
    ParameterError
        When the range ends before it begins.
    """
    periods = store.periods(metric.id)
    if first is None:
        first = min([*periods, *([] if last is None else [last])], default=None)
    if last is None:
        last = max([*periods, *([] if first is None else [first])], default=None)
    if first is None or last is None:
        return Counted(metric, None, None, {})
    _check_order(metric, first, last)
    own, found = metric.mechanism.digest, dict[bytes, list[tuple[int, int]]]()
    for (period, digest), reports in store.tally(metric.id, first, last).items():
        if digest != own:
            found.setdefault(digest, []).append((period, reports))
    others = [
        Others(digest, min(p for p, _ in seen), max(p for p, _ in seen), sum(n for _, n in seen))
        for digest, seen in sorted(found.items())
    ]
    return Counted(metric, first, last, store.counts(metric, first, last), tuple(others))


def counted_from_json(metric: Metric, parsed: Any) -> Counted:
    """Read what `Counted.to_json` wrote.

    Raises
    ------
    ParameterError
        When it is something else, or of other parameters.
    """
    try:
        return _from_json(metric, parsed)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ParameterError(f"these are no counts of {metric.id}: {error!r}") from error


def _from_json(metric: Metric, parsed: dict[str, Any]) -> Counted:
    if parsed["metric"] != metric.id or parsed["digest"] != metric.mechanism.digest.hex():
        raise ParameterError(
            f"the registry here gives {metric.id} the parameters {metric.mechanism.digest.hex()}, the counts are of "
            f"{parsed['metric']} with {parsed['digest']}: read both with the same registry file"
        )
    number = metric.period.parse_label
    counts = {number(one["period"]): SupportCounts(one["totals"], one["ones"]) for one in parsed["periods"]}
    others = [
        Others(bytes.fromhex(o["digest"]), number(o["from"]), number(o["to"]), int(o["reports"]))
        for o in parsed["other_parameters"]
    ]
    first, last = (None if parsed[end] is None else number(parsed[end]) for end in ("from", "to"))
    return Counted(metric, first, last, counts, tuple(others))


def parse_range(metric: Metric, first: str | None, last: str | None) -> tuple[int | None, int | None]:
    """Return the periods that two labels name; a day names all of its shorter periods. None stays None.

    Raises
    ------
    ParameterError
        When a label is none, or the range ends before it begins.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> parse_range(parse_registry(EXAMPLE)["colour"], "2026-W47", None)
    (2968, None)
    """
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
