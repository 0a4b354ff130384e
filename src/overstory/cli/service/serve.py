"""``overstory serve``: the collector."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command
from overstory.cli.service.console import console_process
from overstory.cli.service.serve_settings import PREFIX, Setting, check_common, fill_in
from overstory.protocol.errors import OverstoryError, ParameterError

if TYPE_CHECKING:
    from overstory.collector.oblivious.opening import KeyRing
    from overstory.collector.store import Store
    from overstory.protocol.metrics import MetricRegistry

MORE = """\
The collector takes reports over HTTP, acknowledges them after they are committed, and returns counts. It creates the
store if it does not exist. Devices need a write token unless --open-writes is given; counts need an admin token
(`overstory store tokens add`). No address, user agent or time of a request is stored or logged.

Every option can be set by an environment variable (OVERSTORY_STORE for --store) or by the TOML file that --config or
OVERSTORY_CONFIG names (store = "reports.db"). The command line overrides the environment, which overrides the file. Put
a store's URL with a password in the environment or the file: everybody on a machine can see command lines.

With --check and the same settings it asks a running collector whether it takes reports, and returns 0 or 1.

SIGTERM and SIGINT end the collector after everything in its queue is committed. SIGHUP makes it read the registry, the
certificate, the tokens and the keys again. One process can serve a SQLite file; several can share a PostgreSQL
store."""

EXAMPLE = "overstory serve --registry metrics.toml --store reports.db --port 8000"

SETTINGS: Final = (
    Setting("registry", str, None, "the metric registry", "FILE"),
    Setting("store", str, None, "the store: a file, sqlite:///FILE, or postgresql://...", "URL"),
    Setting("shard", int, None, "the shard of the registry whose uploads are taken: 0, 1, ...", "I"),
    Setting("host", str, "127.0.0.1", "address to listen on (default: 127.0.0.1)", "H"),
    Setting("port", int, 8000, "port; 0: any free port (default: 8000)", "P"),
    Setting("open-writes", bool, default=False, help="take reports without a token (default: no)"),
    Setting(
        "allow-weaker",
        bool,
        default=False,
        help="collect although the registry promises less privacy than the stored reports were promised",
    ),
    Setting("tls-certificate", Path, None, "serve HTTPS: certificate chain, PEM", "FILE"),
    Setting("tls-key", Path, None, "private key of the certificate, PEM", "FILE"),
    Setting(
        "oblivious-keys",
        Path,
        None,
        "private keys of `overstory keys`: take reports of oblivious metrics, which come sealed through a relay",
        "FILE",
    ),
    Setting("compact-every", float, 10.0, "seconds between compactions; 0: never (default: 10)", "S"),
    Setting(
        "compact-within",
        float,
        300.0,
        "seconds that a few reports may wait before a large chunk is written again for them; 0: none (default: 300)",
        "S",
    ),
    Setting("queue-reports", int, 1_000_000, "reports that may wait for their commit (default: 1000000)", "N"),
    Setting("grace", float, 1.0, "seconds of refusing reports before it stops listening (default: 1)", "S"),
    Setting("metrics-port", int, None, "answer Prometheus on this port, without a token; 0: any free port", "P"),
    Setting("metrics-host", str, "127.0.0.1", "address of --metrics-port (default: 127.0.0.1)", "H"),
    Setting("console-port", int, None, "run a console on this port of 127.0.0.1, too; 0: any free port", "P"),
    Setting("log-format", str, "text", "form of the log on standard error (default: text)", choices=("text", "json")),
)


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "serve", "collect reports over HTTP", more=MORE, example=EXAMPLE)
    parser.add_argument("--config", metavar="FILE", help="TOML file with these settings")
    parser.add_argument(
        "--check", action="store_true", help="ask the collector with these settings whether it takes reports, and end"
    )
    for setting in SETTINGS:
        setting.add_to(parser)


def check_settings(args: argparse.Namespace) -> None:
    """Fill in the settings of the environment and the file, and check that they fit together."""
    fill_in(args, SETTINGS, os.environ)
    check_common(args, "port", "metrics-port", "console-port")
    if args.queue_reports < 1 or not min(args.compact_every, args.compact_within, args.grace) >= 0:
        names = "--queue-reports, --compact-every, --compact-within and --grace"
        raise ParameterError(f"{names}: give numbers that are not negative")


_NO_TLS: Final = "%s can be reached from other machines, and there is no TLS: tokens cross the network unencrypted"
_VISIBLE: Final = (
    "the password in --store is visible in the list of processes: use %sSTORE, or store in the --config file"
)


def run(args: argparse.Namespace) -> int:
    store_on_command_line = args.store or ""
    check_settings(args)
    if args.check:
        return _check_readiness(args)
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be handled: the files are read now anyway
    from overstory.collector.server import metrics_on_port, serve
    from overstory.collector.service import Collector
    from overstory.collector.settings import Limits, UpkeepIntervals
    from overstory.collector.store.databases.urls import has_password
    from overstory.collector.telemetry import LOG
    from overstory.supervision.listening import Listening
    from overstory.supervision.log import begin_log

    begin_log(LOG, args.log_format)
    if args.compact_every:
        _check_it_counts()
    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key, args.grace)
    if listening.exposed:
        LOG.warning(_NO_TLS, args.host)
    if has_password(store_on_command_line):
        LOG.warning(_VISIBLE, PREFIX)

    read_ring, read_registry = _ring_reader(args.oblivious_keys), partial(_read_registry, args)
    ring, registry = read_ring() if read_ring else None, read_registry()
    store = _open(args.store, registry, args.shard)
    collector = Collector(
        registry,
        store,
        limits=Limits(queue_reports=args.queue_reports),
        intervals=UpkeepIntervals(compact=args.compact_every, within=args.compact_within),
        open_writes=args.open_writes,
        ring=ring,
        shard=args.shard,
    )
    watched = metrics_on_port(collector.telemetry, args.metrics_host, args.metrics_port)
    with watched, console_process(args.registry, args.store, args.console_port, os.environ):
        announce = partial(print, flush=True)
        serve(collector, listening, announce=announce, reread=read_registry, reread_keys=read_ring)
    return 0


def _read_registry(args: argparse.Namespace) -> MetricRegistry:
    """Read the registry, as a start and a reload do: what it promises must hold for the store."""
    from overstory.collector.checkup import check_keys, check_promises, guarded
    from overstory.collector.store.metrics import served_shard
    from overstory.collector.telemetry import LOG
    from overstory.protocol.metrics import load_registry

    registry = load_registry(args.registry)
    for finding in guarded("oblivious keys", lambda: check_keys(registry, args.oblivious_keys)):
        if finding.level != "ok":
            LOG.warning("%s%s", finding.detail, f". To do: {finding.do}" if finding.do else "")
    served_shard(registry, args.shard)  # before a store is made for it
    check_promises(args.store, registry, allow_weaker=args.allow_weaker, warn=LOG.warning)
    return registry


def _check_readiness(args: argparse.Namespace) -> int:
    """Ask the running collector; return 0 where it takes reports, else say why not and return 1."""
    import ssl
    from http.client import HTTPException
    from urllib.request import HTTPSHandler, ProxyHandler, build_opener

    if not args.port:
        raise ParameterError("--check needs the collector's port, and --port is 0")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(args.host, args.host)  # noqa: S104 - not bound, but asked
    scheme = "http" if args.tls_certificate is None else "https"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{args.port}/readyz"
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the certificate has the name by which devices ask
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        build_opener(ProxyHandler({}), HTTPSHandler(context=unverified)).open(url, timeout=4).close()
    except (OSError, HTTPException) as error:
        print(f"overstory: {url}: {error}", file=sys.stderr)
        return 1
    return 0


def _check_it_counts() -> None:
    """Raise OverstoryError where reports cannot be counted: before anybody's are taken."""
    from overstory.collector.checkup import check_kernels

    for finding in check_kernels(compiling=False):
        if finding.level == "error":
            raise OverstoryError(finding.detail)


def _ring_reader(path: Path | None) -> Callable[[], KeyRing] | None:
    """Return what reads the private keys; None without a file. Who has none needs no cryptography."""
    if path is None:
        return None
    from overstory.collector.oblivious.opening import load_ring

    return partial(load_ring, path)


def _open(url: str, registry: MetricRegistry, shard: int | None) -> Store:
    from overstory.collector.store import open_store
    from overstory.collector.store.databases.connection import MissingStoreError
    from overstory.collector.telemetry import log_event

    try:
        store = open_store(url)
    except MissingStoreError:
        log_event("there is no store yet: creating it")
        store = open_store(url, create=True)
    try:
        store.serve_alone()  # before anything is written to another collector's store
        store.claim_shard(registry, shard, time.time())
        store.remember(registry)
    except BaseException:
        store.close()
        raise
    return store
