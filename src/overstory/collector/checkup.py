"""The checks of `overstory doctor` and of a start: each gives findings, one line each, with what to do about it."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import socket
import ssl
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from overstory.collector.auth import Token
from overstory.collector.oblivious.keys import PrivateKey, read_private_keys
from overstory.collector.settings import DAY, MEBIBYTE
from overstory.collector.store import Store, open_store
from overstory.collector.store.databases.connection import MissingStoreError
from overstory.collector.store.metrics import StoredMetric
from overstory.presentation.formats import epsilons_apart, plural
from overstory.privacy.registry.changes import Harm, compare_registries
from overstory.protocol.errors import OverstoryError, ParameterError, install_hint
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.protocol.oblivious.formats import KeyConfiguration, read_keys
from overstory.protocol.oblivious.messages import fingerprint
from overstory.protocol.wire import is_loopback
from overstory.supervision.log import SparseLog

SOON: Final = 30  # days before an end at which it is warned of

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One line of the result."""

    check: str  # what was checked
    level: Level  # `ok`, `warning` or `error`
    detail: str  # the result in words
    do: str = ""  # what to do about it; empty when nothing is to do


Findings = Iterator[Finding]


def guarded(check: str, work: Callable[[], Findings]) -> Findings:
    """Yield the findings of a check; one that fails is reported as an error, and the next checks still run."""
    try:
        yield from work()
    except (OverstoryError, OSError, HTTPException) as error:
        yield Finding(check, "error", SparseLog.sentence(error))
    except ImportError as error:
        yield Finding(check, "error", f"{error.name} is not installed", install_hint("server"))


def check_files() -> Findings:
    """Check the number of files, and so of connections, that a process may have open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most < 256:
        yield Finding("open files", "error", f"at most {most} at once", "ulimit -n 65536, or LimitNOFILE=65536")
    elif most < 4096:
        limit = f"at most {most} at once where this command runs; each connection of a collector takes one"
        yield Finding("open files", "warning", limit, "ulimit -n 65536, or LimitNOFILE=65536 in its systemd unit")
    else:
        yield Finding("open files", "ok", f"at most {most} at once")


def check_kernels(*, compiling: bool = True) -> Findings:
    """Check whether reports can be counted here, and whether the compiled code for it is kept; see `load_kernels`."""
    from overstory.analysis.reports import load_kernels
    from overstory.kernels.compiled import do_without_cache

    try:
        load_kernels(compiling=compiling)
    except Exception as error:  # noqa: BLE001 - a compiler may say anything
        yield Finding("counting", "error", f"reports cannot be counted here: {SparseLog.sentence(error)}")
        return
    if do_without_cache.cache_info().currsize:
        yield Finding("counting", "warning", "compiled code is not kept", "NUMBA_CACHE_DIR=a folder it may write")
    else:
        yield Finding("counting", "ok", "reports can be counted, and compiled code is kept")


def check_registry(registry: MetricRegistry, now: float) -> Findings:
    """Check which metrics have expired, or will soon."""
    count = f"{len(registry)} {'metric' if len(registry) == 1 else 'metrics'}"
    facts = f"version {registry.version}, {count}, digest {registry.digest.hex()}"
    yield Finding("registry", "ok", facts)
    for metric in registry.values():
        days = (metric.expires_at - now) / DAY
        if days <= 0:
            yield Finding("registry", "warning", f"{metric.id} expired on {metric.expires}", "renew it, or remove it")
        elif days <= SOON:
            yield Finding("registry", "warning", f"{metric.id} expires on {metric.expires}", "renew it in a review")


def check_private(check: str, path: Path, what: str) -> Findings:
    """Check whether others than its owner may read a file."""
    if os.name == "posix" and path.is_file() and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        yield Finding(check, "warning", f"{path}: {what}, and others may read it", f"chmod 600 {path}")


def check_store(url: str, registry: MetricRegistry | None, now: float) -> Findings:
    """Check a store's schema, its disk, its tokens, and whether a registry fits it; nothing is written."""
    with open_store(url) as store:
        summary = store.summary()
        yield Finding("schema", "ok", f"{summary.url}: schema {summary.schema}, {summary.size / MEBIBYTE:,.1f} MiB")
        last = store.last_day()
        if last is not None and last > now // DAY + 1:
            days = f"the store has seen {_day(last * DAY)}, this machine's clock shows {_day(now)}"
            yield Finding("clock", "error", days, "correct the clock; until then no batch ids and reports are deleted")
        yield from _check_tokens(store.tokens(), now)
        if registry is not None:
            yield from _check_match(store, registry)
    if summary.kind == "sqlite":
        yield from _check_room(Path(summary.url.removeprefix("sqlite:///")))


def _check_room(path: Path) -> Findings:
    yield from check_private("store", path, "it holds reports")
    free = shutil.disk_usage(path.parent).free
    room = f"{free / MEBIBYTE:,.0f} MiB free on the disk of {path}"
    if free < 100 * MEBIBYTE:
        yield Finding("disk", "error", room, "free disk space: on a full disk, reports are refused with 503")
    elif free < max(1024 * MEBIBYTE, path.stat().st_size):  # a backup, or VACUUM, takes as much again
        yield Finding("disk", "warning", room, "free disk space for the store and for a copy of it")
    else:
        yield Finding("disk", "ok", room)


def _check_tokens(tokens: list[Token], now: float) -> Findings:
    usable = [token for token in tokens if token.usable(now)]
    for role, what in (
        ("write", "devices can send reports only with --open-writes"),
        ("admin", "nobody can read counts"),
    ):
        if not any(token.role == role for token in usable):
            do = f"overstory store tokens STORE --add {role} --application NAME"
            yield Finding("tokens", "warning", f"no {role} token is valid: {what}", do)
    for token in usable:
        if token.expires is not None and token.expires - now <= SOON * DAY:
            expiry = f"{token.id} ({token.role}, {token.application}) is refused from {_day(token.expires)} on"
            yield Finding("tokens", "warning", expiry, "make a new one and release it before that day")
    yield Finding("tokens", "ok", f"{len(usable)} of {len(tokens)} are valid")


def _check_match(store: Store, registry: MetricRegistry) -> Findings:
    stored: dict[str, set[str]] = {}
    for summary in store.summary().metrics:
        stored.setdefault(summary.metric, set()).add(summary.digest)
    changed = 0
    for metric in registry.values():
        digests = stored.get(metric.id, set())
        if digests and metric.mechanism.digest.hex() not in digests:
            changed += 1
            difference = f"{metric.id}: all stored reports were made with other parameters: its counts start again"
            yield Finding(
                "registry and store", "warning", difference, "overstory metrics diff OLD NEW lists the changes"
            )
    gone = sorted(set(stored) - set(registry))
    if gone:
        unlisted = f"the store has reports of {', '.join(gone)}, which the registry does not list"
        yield Finding("registry and store", "warning", unlisted, "their retention does not change")
    if not changed and not gone:
        yield Finding("registry and store", "ok", "the stored reports are of the registry's metrics and parameters")


def check_certificate(path: Path, now: float) -> Findings:
    """Check when the first certificate of a PEM file ends."""
    from cryptography.x509 import load_pem_x509_certificate

    try:
        ends = load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except ValueError:
        yield Finding("certificate", "error", f"{path}: no certificate in PEM")
    else:
        yield _ending(str(path), ends.timestamp(), now)


def _ending(name: str, ends: float, now: float) -> Finding:
    validity = f"{name}: valid until {_day(ends)}"
    if ends <= now:
        return Finding("certificate", "error", f"{name}: ended on {_day(ends)}", "renew it, then send SIGHUP")
    if ends - now <= SOON * DAY:
        return Finding("certificate", "warning", validity, "renew it, then send SIGHUP")
    return Finding("certificate", "ok", validity)


def check_url(url: str, registry: MetricRegistry | None, clock: Callable[[], float] = time.time) -> Findings:
    """Check a running collector: its answer, its clock, its certificate, its registry."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        yield Finding("collector", "error", f"{url!r} is not an address", "give one such as https://collector.example")
        return
    if parts.scheme == "https":
        yield _served_certificate(parts.hostname, parts.port or 443, clock())
    elif not is_loopback(parts.hostname):
        yield Finding("collector", "warning", f"{url}: no TLS: tokens cross the network unencrypted", "use https")
    asked = clock()
    ready, _ = _get(url, "/readyz")
    if ready.status == 200:
        yield Finding("collector", "ok", f"{url} takes reports")
    else:
        yield Finding("collector", "error", f"{url}/readyz answers {ready.status}", "read the collector's log")
    yield _compared_clocks(ready.getheader("date"), asked, clock())
    listed, body = _get(url, "/v1/metrics")
    if registry is not None and listed.status == 200:
        yield _compared_registries(body, registry)


def _served_certificate(host: str, port: int, now: float) -> Finding:
    """Verify the certificate as a device does, and return when it ends."""
    try:
        plain = socket.create_connection((host, port), timeout=10)
        with plain, ssl.create_default_context().wrap_socket(plain, server_hostname=host) as secured:
            ends = (secured.getpeercert() or {})["notAfter"]  # verified, so that it is read
            return _ending(f"{host}:{port}", ssl.cert_time_to_seconds(str(ends)), now)
    except ssl.SSLError as error:
        problem = f"{host}:{port}: devices refuse it: {getattr(error, 'verify_message', '') or error.reason}"
        return Finding("certificate", "error", problem, "serve a certificate, with its chain, that devices trust")


def _get(url: str, path: str) -> tuple[HTTPResponse, bytes]:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", parts.path.rstrip("/") + path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        return answer, answer.read(1 << 26)
    finally:
        connection.close()


def _compared_clocks(date: str | None, asked: float, answered: float) -> Finding:
    try:
        theirs = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return Finding("clock", "warning", "the answer has no date to compare with")
    apart = max(asked - theirs - 1, theirs - answered, 0.0)  # the header has whole seconds
    if apart > 60:
        difference = f"the clocks of this machine and of the collector are {apart:,.0f} s apart"
        level: Level = "error" if apart > 3600 else "warning"
        return Finding("clock", level, difference, "synchronize both with a time server")
    return Finding("clock", "ok", "the clocks of this machine and of the collector agree within a minute")


def _compared_registries(body: bytes, registry: MetricRegistry) -> Finding:
    try:
        theirs: Any = json.loads(body)["digest"]
    except (ValueError, KeyError, TypeError):
        return Finding("served registry", "error", "the answer is not a public registry: is this a collector?")
    if theirs == registry.digest.hex():
        return Finding("served registry", "ok", "the collector serves this registry")
    return Finding(
        "served registry", "warning", "the collector serves another registry than this file", "send it SIGHUP"
    )


def _day(second: float) -> str:
    return dt.datetime.fromtimestamp(second, dt.UTC).date().isoformat()


CHECK: Final = "oblivious keys"


def check_keys(registry: MetricRegistry, path: Path | None) -> Findings:
    """Check the keys of a registry against a file of private ones; without a file, whether one is needed."""
    through_relay = [metric.id for metric in registry.values() if metric.is_oblivious]
    if path is None:
        if through_relay:
            waiting = f"reports of {', '.join(through_relay)} come sealed, and there are no private keys to open them"
            yield Finding(CHECK, "warning", waiting, "set oblivious_keys to a file of `overstory keys`")
        return
    keys = read_private_keys(path)
    if registry.oblivious is None:
        unused = f"{path}: the registry has no table [oblivious]: no device seals reports for these keys"
        yield Finding(CHECK, "warning", unused, "put the line that `overstory keys FILE` prints into it")
        return
    listed = read_keys(registry.oblivious.keys)
    missing = list(_missing(path, keys, listed))
    yield from missing
    yield from _changing(path, keys, listed)
    if not missing:
        ids = ", ".join(str(key.key_id) for key in listed)
        yield Finding(CHECK, "ok", f"{path} opens what is sealed for the registry's keys: {ids}")


def _missing(path: Path, keys: Sequence[PrivateKey], listed: Sequence[KeyConfiguration]) -> Findings:
    own = {key.key_id: key.public.public for key in keys}
    for key in listed:
        if own.get(key.key_id) != key.public:
            which = "another key of this id" if key.key_id in own else "no key of this id"
            sealed = f"the registry lists key {key.key_id} ({fingerprint(key.public)}), and {path} has {which}"
            yield Finding(CHECK, "error", sealed, "restore the key, or list those that `overstory keys FILE` prints")


def _changing(path: Path, keys: Sequence[PrivateKey], listed: Sequence[KeyConfiguration]) -> Findings:
    """Yield what a rotation has still to do."""
    newest, ids = keys[-1].key_id, [key.key_id for key in listed]
    if newest not in ids:
        unlisted = f"key {newest}, the newest of {path}, is not in the registry: no device uses it"
        yield Finding(CHECK, "warning", unlisted, "put the line that `overstory keys FILE` prints into the registry")
    elif ids[0] != newest:
        yield Finding(
            CHECK, "warning", f"the registry lists key {ids[0]} first: devices use it", f"list key {newest} first"
        )
    for key in keys[:-1]:
        if key.key_id not in ids:
            leaving = f"key {key.key_id} of {path} is no longer in the registry"
            advice = "remove it when no message comes for it any more (overstory_oblivious_opened_total)"
            yield Finding(CHECK, "warning", leaving, advice)


ADVICE: Final = (
    "people agreed to more privacy than that: give each of these metrics a new id, or collect with allow_weaker = true"
)


def check_promises(url: str, registry: MetricRegistry, *, allow_weaker: bool, warn: Callable[[str], None]) -> None:
    """Refuse a registry that weakens the privacy of a metric of which a store has reports; a store may be missing."""
    try:
        with open_store(url) as store:
            lines = list(weakened(store, registry))
    except MissingStoreError:
        return
    if lines and not allow_weaker:
        raise ParameterError("\n".join((*lines, ADVICE)))
    for line in lines:
        warn(line)


def weakened(store: Store, registry: MetricRegistry) -> Iterator[str]:
    """Yield a line for each metric whose privacy the registry weakens; a mechanism with reports was accepted before."""
    stored: dict[str, list[tuple[StoredMetric, int]]] = defaultdict(list)
    for entry, reports in store.collected():
        stored[entry.metric].append((entry, reports))
    for name, metric in registry.items():
        if (line := _weakened(metric, stored[name])) is not None:
            yield line


def _weakened(metric: Metric, stored: Sequence[tuple[StoredMetric, int]]) -> str | None:
    same = [(entry, reports) for entry, reports in stored if entry.mechanism.digest == metric.mechanism.digest]
    for entry, reports in sorted(same or stored, key=itemgetter(1), reverse=True):
        before = replace(metric, mechanism=entry.mechanism, period=entry.period, retention_days=entry.retention_days)
        old, new = (MetricRegistry({metric.id: version}, "") for version in (before, metric))
        weaker = {change.what: change.detail for change in compare_registries(old, new) if change.kind is Harm.WEAKENS}
        if weaker:
            were, are = ("was", "is") if reports == 1 else ("were", "are")
            promised = _epsilons(before, metric)
            other = weaker.get("parameters") or next(iter(weaker.values()))
            promise = f"{were} promised {promised}" if promised else f"{are} stored, and {other}"
            return f"{metric.id}: {plural(reports, 'report')} {promise}; run overstory metrics diff"
    return None


def _epsilons(old: Metric, new: Metric) -> str | None:
    """Return by which epsilon the new metric promises less; None when it does so in another way."""
    of_old, of_new = ((metric.epsilon_permanent, metric.mechanism.epsilon_report) for metric in (old, new))
    for before, after, of in zip(of_old, of_new, ("", " for each"), strict=True):
        if after > before:
            promised, offered = epsilons_apart(before, after)
            return f"epsilon {promised}{of}, this registry has {offered}"
    return None
