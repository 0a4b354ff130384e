"""Counts by period of one metric, read from a store or from a collector over HTTP; both give `PeriodCounts`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from overstory.analysis.reports import SupportCounts
from overstory.presentation.render_data import csv_line
from overstory.protocol.encodings.bits import Bloom, SampledBits
from overstory.protocol.encodings.seeds import BalancedHash, SeededHash
from overstory.protocol.errors import FormatError, OverstoryError, ParameterError
from overstory.protocol.metrics import Metric, metric_from_json
from overstory.protocol.metrics.metric import DAY, Period
from overstory.protocol.wire.reasons import check_token, problem_detail


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
class OtherParameters:
    """Reports of the metric that were made with other parameters: they mean something else, and are only told of."""

    digest: bytes
    first: int
    last: int
    reports: int


@dataclass(frozen=True, eq=False)
class PeriodCounts:
    """Support counts of a metric, by period.

    Attributes
    ----------
    metric
        The metric that the reports are of.
    first, last
        The periods asked for, both included; None where nothing was ever reported and nothing asked for.
    counts
        Support counts by period; periods without reports are not listed.
    others
        Reports of the same range that were made with other parameters.
    """

    metric: Metric
    first: int | None
    last: int | None
    counts: Mapping[int, SupportCounts]
    others: tuple[OtherParameters, ...] = ()

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


def read_store(store: CountsStore, metric: Metric, first: int | None = None, last: int | None = None) -> PeriodCounts:
    """Read a range of periods, both ends included; all there are, unless given.

    Parameters
    ----------
    store
        An open store, or anything with its methods for counts.
    metric
        The metric, with the parameters whose reports are read.
    first, last
        Numbers of periods, both included; None: as far as there are reports.

    Raises
    ------
    ParameterError
        When the range ends before it begins.

    Examples
    --------
    >>> import tempfile
    >>> from overstory.collector.store import open_store
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> registry = parse_registry(EXAMPLE)
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", registry, create=True) as store:
    ...     read_store(store, registry["colour"]).num_reports
    0
    """
    periods = store.periods(metric.id)
    if first is None:
        first = min([*periods, *([] if last is None else [last])], default=None)
    if last is None:
        last = max([*periods, *([] if first is None else [first])], default=None)
    if first is None or last is None:
        return PeriodCounts(metric, None, None, {})
    _check_order(metric, first, last)
    own, found = metric.mechanism.digest, dict[bytes, list[tuple[int, int]]]()
    for (period, digest), reports in store.tally(metric.id, first, last).items():
        if digest != own:
            found.setdefault(digest, []).append((period, reports))
    others = [
        OtherParameters(digest, min(p for p, _ in seen), max(p for p, _ in seen), sum(n for _, n in seen))
        for digest, seen in sorted(found.items())
    ]
    return PeriodCounts(metric, first, last, store.counts(metric, first, last), tuple(others))


def counted_from_json(metric: Metric, parsed: Any) -> PeriodCounts:
    """Read what `PeriodCounts.to_json` wrote.

    Parameters
    ----------
    metric
        The metric, with the parameters that the counts were made with.
    parsed
        What `PeriodCounts.to_json` returned, after any JSON parser.

    Raises
    ------
    ParameterError
        When the counts are of another metric, of other parameters, or not in that form.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> colour = parse_registry(EXAMPLE)["colour"]
    >>> counted = PeriodCounts(colour, 2968, 2968, {2968: SupportCounts([3], [[2, 1, 0]])})
    >>> counted_from_json(colour, counted.to_json()).num_reports
    3
    """
    try:
        return _from_json(metric, parsed)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ParameterError(f"these are no counts of {metric.id}: {error!r}") from error


def _from_json(metric: Metric, parsed: dict[str, Any]) -> PeriodCounts:
    if parsed["metric"] != metric.id or parsed["digest"] != metric.mechanism.digest.hex():
        raise ParameterError(
            f"the registry here gives {metric.id} the parameters {metric.mechanism.digest.hex()}, the counts are of "
            f"{parsed['metric']} with {parsed['digest']}: read both with the same registry file"
        )
    number = metric.period.parse_label
    counts = {number(one["period"]): SupportCounts(one["totals"], one["ones"]) for one in parsed["periods"]}
    others = [
        OtherParameters(bytes.fromhex(o["digest"]), number(o["from"]), number(o["to"]), int(o["reports"]))
        for o in parsed["other_parameters"]
    ]
    first, last = (None if parsed[end] is None else number(parsed[end]) for end in ("from", "to"))
    return PeriodCounts(metric, first, last, counts, tuple(others))


def parse_range(metric: Metric, first: str | None, last: str | None) -> tuple[int | None, int | None]:
    """Return the periods that two labels name; a day names all of its shorter periods. None stays None.

    Parameters
    ----------
    metric
        The metric, whose period gives the labels their form.
    first, last
        Labels such as ``2026-11-21`` or ``2026-W47``, both included; None leaves that end open.

    Raises
    ------
    ParameterError
        When a label is of another form, or the range ends before it begins.

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


MOST_BYTES: Final = 1 << 30
"""No answer with counts is as large; one that is larger is not read to its end."""


class RemoteError(OverstoryError):
    """A collector that cannot be reached, or does not give what was asked for."""


def read_remote(
    url: str, token: str, metric: Metric, first: int | None = None, last: int | None = None, *, timeout: float = 60.0
) -> PeriodCounts:
    """Ask the collector at `url` for the counts of a range of periods; of all there are, unless given.

    Parameters
    ----------
    url
        Where it listens: ``https://collector.example``.
    token
        A read token of that collector.
    metric
        The metric, with the parameters whose reports are read.
    first, last
        Numbers of periods, both included; None: as far as there are reports.
    timeout
        How long to wait for the collector, in seconds.

    Raises
    ------
    RemoteError
        When the collector cannot be reached, or refuses.
    ParameterError
        When the answer holds no counts of this metric and these parameters.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> read_remote("http://127.0.0.1:1", "", parse_registry(EXAMPLE)["colour"])
    Traceback (most recent call last):
    overstory.queries.counts.RemoteError: ...
    """
    ends = {name: None if p is None else metric.period.label(p) for name, p in (("from", first), ("to", last))}
    query = urlencode({name: label for name, label in ends.items() if label is not None})
    address = f"{_checked(url)}/v1/metrics/{quote(metric.id)}/counts" + (f"?{query}" if query else "")
    return counted_from_json(metric, _fetched(address, token, timeout))


def read_remote_metric(url: str, name: str, *, timeout: float = 60.0) -> Metric:
    """Ask the collector at `url` for a metric of its public registry; candidates are not part of that.

    Parameters
    ----------
    url
        The collector's address: ``https://collector.example``.
    name
        The metric's id in the collector's registry.
    timeout
        How long to wait for the collector, in seconds.

    Raises
    ------
    RemoteError
        When the collector cannot be reached, or its answer is no metric that this version reads.

    Examples
    --------
    >>> read_remote_metric("http://127.0.0.1:1", "colour")
    Traceback (most recent call last):
    overstory.queries.counts.RemoteError: ...
    """
    address = f"{_checked(url)}/v1/metrics/{quote(name, safe='')}"
    try:
        return metric_from_json(_fetched(address, "", timeout))
    except FormatError as error:
        raise RemoteError(f"{address}: {error}; give --registry FILE") from error


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.netloc) and not parts.query and not parts.fragment
    except ValueError:  # half an IPv6 address
        usable = False
    if not usable:
        raise RemoteError(f"{url!r} is no collector's address: give one such as https://collector.example")
    return url.rstrip("/")


class _Stay(HTTPRedirectHandler):
    """Follows nothing: a token goes to the address that was given, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse."""


def _fetched(address: str, token: str, timeout: float) -> Any:
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {check_token(token)}"} if token else {})
    try:
        request = Request(address, headers=headers)  # noqa: S310 - the scheme was checked
        with build_opener(_Stay).open(request, timeout=timeout) as answer:
            raw = answer.read(MOST_BYTES + 1)
    except HTTPError as error:
        raise RemoteError(f"{address}: {_refusal(error, token)}") from error
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise RemoteError(f"{address}: no answer from a collector: {getattr(error, 'reason', error)}") from error
    if len(raw) > MOST_BYTES:
        raise RemoteError(f"{address}: the answer has more than {MOST_BYTES >> 30} GiB: ask for fewer periods")
    return _parsed(address, raw)


def _parsed(address: str, raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RemoteError(f"{address}: the answer is no JSON: is a collector listening there?") from error


def _refusal(error: HTTPError, token: str) -> str:
    if error.code == HTTPStatus.UNAUTHORIZED:
        given = "the collector does not take this token" if token else "the collector wants an admin token"
        return f"{given}: give one with --token or OVERSTORY_ADMIN_TOKEN ({_reason(error)})"
    return f"the collector refused ({error.code}): {_reason(error)}"


def _reason(error: HTTPError) -> str:
    """Return the collector's sentence, or the status's own words."""
    try:
        problem = json.loads(error.read(1 << 16))
    except (ValueError, RecursionError, HTTPException, OSError):
        problem = None
    detail = problem_detail(problem) if isinstance(problem, dict) else None
    return str(error.reason) if detail is None else detail
