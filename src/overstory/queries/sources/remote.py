"""Counts and metrics of a collector, asked for over HTTP."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from overstory.protocol.errors import FormatError, OverstoryError
from overstory.protocol.metrics import Metric
from overstory.protocol.metrics.metric_table import metric_from_json
from overstory.protocol.wire.reasons import check_token, problem_detail
from overstory.queries.counts import PeriodCounts

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
