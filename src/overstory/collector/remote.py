"""Counts of a collector that runs elsewhere, over HTTP: what `read_store` gives where the store itself is."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from overstory.collector.counted import Counted, counted_from_json
from overstory.protocol.bearer import check_token
from overstory.protocol.errors import FormatError, OverstoryError
from overstory.protocol.metrics import Metric, metric_from_json

MOST_BYTES: Final = 1 << 30
"""No answer with counts is as large; one that is larger is not read to its end."""


class RemoteError(OverstoryError):
    """A collector that cannot be reached, or does not give what was asked for."""


def read_remote(
    url: str, token: str, metric: Metric, first: int | None = None, last: int | None = None, *, timeout: float = 60.0
) -> Counted:
    """Ask the collector at `url` for the counts of a range of periods; of all there are, unless given.

    Parameters
    ----------
    url
        Where it listens: ``https://collector.example``.
    token
        An admin token.
    timeout
        Seconds to wait for it.

    Raises
    ------
    RemoteError
        When it does not answer, refuses, or answers something else.
    ParameterError
        When its counts are of other parameters than this metric's, or no token looks as this one does.
    """
    ends = {name: None if p is None else metric.period.label(p) for name, p in (("from", first), ("to", last))}
    query = urlencode({name: label for name, label in ends.items() if label is not None})
    address = f"{_checked(url)}/v1/metrics/{quote(metric.id)}/counts" + (f"?{query}" if query else "")
    return counted_from_json(metric, _fetched(address, token, timeout))


def read_remote_metric(url: str, name: str, *, timeout: float = 60.0) -> Metric:
    """Ask the collector at `url` for a metric of its public registry; candidates are not part of that.

    Raises
    ------
    RemoteError
        When it does not answer, does not list the metric, or lists one that this version does not read.
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
        said = json.loads(error.read(1 << 16))["said"]
    except (ValueError, RecursionError, KeyError, TypeError, HTTPException, OSError):
        return str(error.reason)
    return str(said)
