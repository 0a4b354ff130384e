"""Checks a client's settings, raising on mistakes, and runs the optional thread that flushes in the background."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, cast

from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from overstory.client.upload.http import Transport
    from overstory.client.upload.sender import ReportSender
    from overstory.protocol.metrics import Metric, MetricRegistry


HOUR: Final = 3600.0
WEEK: Final = 7 * 86_400.0
DEFAULT_SPREAD: Final = 6 * 3600.0
_uniform: Final = random.SystemRandom().random


def load(registry: MetricRegistry | str | os.PathLike[str] | Traversable) -> MetricRegistry:
    """Return a registry, read from its file if need be, a package's too; a device has no use for candidates."""
    if isinstance(getattr(registry, "metrics", None), Mapping):
        return cast("MetricRegistry", registry)
    if not isinstance(registry, str | os.PathLike) and not hasattr(registry, "read_bytes"):
        raise ParameterError(f"registry: give a file or a MetricRegistry, not {type(registry).__name__}")
    from overstory.protocol.metrics import load_registry

    try:
        return load_registry(cast("str | os.PathLike[str] | Traversable", registry), read_candidates=False)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", source=str(registry)) from error


def mistake(registry: MetricRegistry, name: object, value: object) -> ParameterError | None:
    """Return what is wrong with a metric's name or a value, and what may have been meant; None when nothing is.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> print(mistake(parse_registry(EXAMPLE), "color", "red"))
    there is no metric 'color': the registry lists colour; did you mean colour?
    >>> print(mistake(parse_registry(EXAMPLE), "colour", "gren"))
    colour: 'gren' is not a category: choose one of 'red', 'green', 'blue'; did you mean green?
    """
    from overstory.protocol.domains import Categories
    from overstory.protocol.errors import suggestion
    from overstory.protocol.metrics import UnknownMetricError

    if not isinstance(name, str):
        return UnknownMetricError(f"a metric is named by a string, not by {type(name).__name__}")
    try:
        metric = registry[name]
        metric.encode(value)
    except UnknownMetricError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a value of the program's own class may raise anything
        names = metric.domain.names if isinstance(metric.domain, Categories) else ()
        return ParameterError(f"{name}: {error}{suggestion(value, names)}")
    return None


def sender_factory(
    server: str | None,
    token: str,
    transport: Transport | None,
    clock: Callable[[], float],
    environ: Mapping[str, str],
) -> Callable[[], ReportSender] | None:
    """Return a function that makes the sender when it is needed; the address and the token are checked now."""
    if server is None:
        return None
    from overstory.client.upload.http import endpoint
    from overstory.protocol.wire.reasons import check_token

    endpoint(server)
    check_token(token)

    def made() -> ReportSender:
        from overstory.client.upload.http import http_transport
        from overstory.client.upload.sender import ReportSender

        return ReportSender(server=server, transport=transport or http_transport(environ), token=token, clock=clock)

    return made


CLEAR: Final = "reports and the token travel unencrypted to %s: give an https:// address"


def in_the_clear(server: str | None) -> str | None:
    """Return the host that reports travel to unencrypted, over a network; None where they do not.

    Examples
    --------
    >>> [in_the_clear(f"http://{host}") for host in ("example.org", "localhost:8080", "127.0.0.1", "[::1]:80")]
    ['example.org', None, None, None]
    """
    import ipaddress
    from urllib.parse import urlsplit

    parts = urlsplit(server or "")
    host = parts.hostname or ""
    if parts.scheme != "http" or host == "localhost" or host.endswith(".localhost"):
        return None
    try:
        return None if ipaddress.ip_address(host).is_loopback else host
    except ValueError:
        return host


def seconds(name: str, value: float, least: float, most: float) -> float:
    """Return a setting in seconds, or raise ParameterError when it is out of range."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise ParameterError(f"{name} = {value!r}: give seconds, from {least:g} to {most:g}")
    return float(value)


def delays(spread: float | None) -> Callable[[Metric, float, int], float]:
    """Return what says when a report may be sent, of a metric, made at a time, in a period.

    Parameters
    ----------
    spread
        The longest delay, in seconds; None: the metric's period, six hours at most.
    """
    longest = None if spread is None else seconds("spread", spread, 0.0, WEEK)

    def due(metric: Metric, now: float, period: int) -> float:
        most = min(metric.period.seconds, DEFAULT_SPREAD) if longest is None else longest
        # Without a delay that blurs it, no time finer than the period is kept.
        return now + _uniform() * most if most else float(metric.period.start(period))

    return due


GATHER: Final = 1.0
"""Seconds between a report and its flush, so that reports of one moment share a transaction."""


class Flushes(Protocol):
    """An object that the thread flushes."""

    def flush(self) -> object:
        """Write what is in memory, and send what is due; never raises."""
        ...


class Background:
    """A daemon thread that flushes; it does not delay the exit of the program.

    Parameters
    ----------
    interval
        Seconds between two rounds when nothing new was recorded.
    """

    def __init__(self, client: Flushes, interval: float) -> None:
        self._client, self._interval = client, interval
        self._news, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="overstory", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Flush soon."""
        self._news.set()

    def stop(self, timeout: float) -> None:
        """End the thread, and wait for it up to `timeout` seconds."""
        self._stop.set()
        self._news.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._news.wait(self._interval):
                self._stop.wait(min(GATHER, self._interval))
            self._news.clear()
            if not self._stop.is_set():
                self._client.flush()
