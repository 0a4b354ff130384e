"""Checks a client's settings and calls; has the optional thread that flushes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from overstory.client.outcomes import WarnsOnce
    from overstory.protocol.metrics import MetricRegistry


WEEK: Final = 7 * 86_400.0
UNENCRYPTED: Final = "reports and the token travel unencrypted to %s: give an https:// address"
ONE_HOST: Final = "the relay and the collector are one host, %s, which sees both who sends and what is sent"


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


def warn_of_mistake(warn: WarnsOnce, registry: MetricRegistry, name: object, value: object, *, strict: bool) -> None:
    """Warn of a wrong name of a metric, or a value outside its domain; where the client is strict, raise that."""
    from overstory.protocol.errors import suggestion
    from overstory.protocol.metrics import UnknownMetricError

    try:
        if not isinstance(name, str):
            raise UnknownMetricError(f"a metric is named by a string, not by {type(name).__name__}")
        metric = registry[name]
        try:
            metric.encode(value)
        except Exception as error:  # noqa: BLE001 - a value of the program's own class may raise anything
            raise ParameterError(f"{name}: {error}{suggestion(value, metric.domain.choices)}") from None
    except ParameterError as wrong:
        if strict:
            raise
        if isinstance(wrong, UnknownMetricError):
            warn_of_unknown(warn, registry)
        else:
            warn_of_unfit(warn, str(name))


def warn_of_unknown(warn: WarnsOnce, registry: MetricRegistry) -> None:
    """Warn of a metric that is not listed. Its name is not logged: in a call with swapped arguments it is the value."""
    listed = ", ".join(registry.metrics)
    warn("metric", "a metric that the registry does not list was not recorded; it lists %s", listed)


def warn_of_unfit(warn: WarnsOnce, name: str) -> None:
    """Warn of a value outside a metric's domain; it is not logged."""
    warn(f"unfit {name}", "a value is outside the domain of %s: reported as nothing", name)


def check_collector(server: str, token: str) -> None:
    """Raise ParameterError unless this can be a collector's address, and this a write token."""
    from overstory.client.upload.http import endpoint
    from overstory.protocol.wire.reasons import check_token

    endpoint(server)
    check_token(token)


def warn_of_clear(warn: WarnsOnce, server: str | None, registry: MetricRegistry) -> tuple[str, ...]:
    """Warn of a collector that is not reached over HTTPS, or is its own relay; return the notes for the person."""
    from overstory.protocol.wire.addresses import shared_host, unencrypted_host

    relay = None if registry.oblivious is None else registry.oblivious.relay
    hosts = {UNENCRYPTED: unencrypted_host(server), ONE_HOST: relay and shared_host(relay, server)}
    notes = tuple(note % host for note, host in hosts.items() if host)
    for note in notes:
        warn(f"clear {note}", "%s", note)
    return notes


def check_groups(warn: WarnsOnce, registry: MetricRegistry, groups: Mapping[str, str]) -> Mapping[str, str]:
    """Return the facts that decide on groups; warn where a metric has groups by one that is not given."""
    if not isinstance(groups, Mapping) or not all(isinstance(text, str) for pair in groups.items() for text in pair):
        raise ParameterError(f'groups = {groups!r:.100}: give texts by name, such as {{"release": "1.1"}}')
    by = sorted({metric.groups.by for metric in registry.metrics.values() if metric.groups is not None})
    for name in by:
        if name not in groups:
            warn(f"groups {name}", "no group by %s is given: reports name the group other", name)
    return dict(groups)


def seconds(name: str, value: float, least: float, most: float) -> float:
    """Return a setting in seconds, or raise ParameterError when it is out of range."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise ParameterError(f"{name} = {value!r}: give seconds, from {least:g} to {most:g}")
    return float(value)


GATHER: Final = 1.0
"""Seconds between a report and its flush, so that reports of one moment share a transaction."""


class Background:
    """A daemon thread that calls `flush`; it starts when first woken, and does not delay the exit of the program."""

    def __init__(self, flush: Callable[[], object], interval: float) -> None:
        self._flush, self._interval = flush, interval
        self.after_fork()

    def after_fork(self) -> None:
        """Continue in a child, where the thread does not exist."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._news, self._stop = threading.Event(), threading.Event()

    def wake(self) -> None:
        """Flush soon."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="overstory", daemon=True)
                    self._thread.start()
        self._news.set()

    def stop(self, timeout: float) -> None:
        """End the thread, and wait for it up to `timeout` seconds."""
        self._stop.set()
        self._news.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._news.wait(self._interval):
                self._stop.wait(min(GATHER, self._interval))
            self._news.clear()
            if not self._stop.is_set():
                self._flush()
