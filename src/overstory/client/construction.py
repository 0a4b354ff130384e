"""What a client is built from, checked: mistakes here are the developer's, and raised."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.client.delivering import Courier
    from overstory.client.upload import Transport
    from overstory.protocol.metrics import Metric, MetricRegistry

MOST_WARNINGS: Final = 100
HOUR: Final = 3600.0
WEEK: Final = 7 * 86_400.0
DEFAULT_SPREAD: Final = 6 * 3600.0
_uniform: Final = random.SystemRandom().random


class WarnsOnce:
    """Warns once about each thing, and about so many things at most.

    Parameters
    ----------
    log
        Where to.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._warned: set[str] = set()

    def __call__(self, about: str, message: str, *details: object) -> None:
        """Warn, unless it was done before."""
        if about not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(about)
            self._log.warning(message, *details)


def load(registry: MetricRegistry | str | os.PathLike[str]) -> MetricRegistry:
    """Return a registry, read from its file if need be; a device has no use for candidates.

    Raises
    ------
    FormatError
        When the file cannot be read or has faults.
    ParameterError
        When it is neither a file nor a registry.
    """
    if isinstance(registry, str | os.PathLike):
        from overstory.protocol.metrics import load_registry

        try:
            return load_registry(registry, read_candidates=False)
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror or error}", source=os.fspath(registry)) from error
    if not isinstance(getattr(registry, "metrics", None), Mapping):
        raise ParameterError(f"registry: give a file or a MetricRegistry, not {type(registry).__name__}")
    return registry


def courier(
    server: str | None,
    token: str,
    transport: Transport | None,
    clock: Callable[[], float],
    environ: Mapping[str, str],
) -> Callable[[], Courier] | None:
    """Return what makes the courier when it is needed; the address and the token are checked at once."""
    if server is None:
        return None
    from overstory.client.upload import endpoint
    from overstory.protocol.bearer import check_token

    endpoint(server)
    check_token(token)

    def made() -> Courier:
        from overstory.client.delivering import Courier
        from overstory.client.upload import http_transport

        return Courier(server=server, transport=transport or http_transport(environ), token=token, clock=clock)

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

    Raises
    ------
    ParameterError
        When it is out of range.
    """
    longest = None if spread is None else seconds("spread", spread, 0.0, WEEK)

    def due(metric: Metric, now: float, period: int) -> float:
        most = min(metric.period.seconds, DEFAULT_SPREAD) if longest is None else longest
        # Without a delay that blurs it, no time finer than the period is kept.
        return now + _uniform() * most if most else float(metric.period.start(period))

    return due
