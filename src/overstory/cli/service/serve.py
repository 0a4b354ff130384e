"""``overstory serve``: the collector."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from overstory.cli.arguments import add_command
from overstory.cli.service.serve_settings import PREFIX, Setting, fill_in

if TYPE_CHECKING:
    from overstory.collector.store import Store
    from overstory.protocol.metrics import MetricRegistry

MORE = """\
Takes reports over HTTP, acknowledges them once they are committed, and answers questions about them. A store that does
not exist is made. Devices need a write token unless --open-writes is given; counts and estimates need an admin token
(`overstory store tokens add`). No address, user agent or time of a request is stored or logged.

Every option can be set by an environment variable (OVERSTORY_STORE for --store) or by the TOML file that --config or
OVERSTORY_CONFIG names (store = "reports.db"). The command line goes before the environment, the environment before the
file. Give a store's URL with a password in one of the latter two: everybody on a machine can see command lines.

SIGTERM and SIGINT end it after everything queued is committed. SIGHUP reads the registry, the certificate and the
tokens again. One process serves a SQLite file; several share a PostgreSQL store."""

EXAMPLE = "overstory serve --registry metrics.toml --store reports.db --port 8000"

SETTINGS: Final = (
    Setting("registry", str, None, "the metrics that are collected", "FILE"),
    Setting("store", str, None, "a file, sqlite:///FILE, or postgresql://...", "URL"),
    Setting("host", str, "127.0.0.1", "address to listen on (default: 127.0.0.1)", "H"),
    Setting("port", int, 8000, "0: any that is free (default: 8000)", "P"),
    Setting("open-writes", bool, default=False, help="take reports without a token (default: no)"),
    Setting(
        "allow-weaker", bool, default=False, help="collect with less privacy than the stored reports were promised"
    ),
    Setting("tls-certificate", Path, None, "serve HTTPS: certificate chain, PEM", "FILE"),
    Setting("tls-key", Path, None, "its private key, PEM", "FILE"),
    Setting("compact-every", float, 10.0, "seconds between compactions; 0: never (10)", "S"),
    Setting(
        "compact-within",
        float,
        300.0,
        "seconds that a few reports may wait for others before a large chunk is written again; 0: at once (300)",
        "S",
    ),
    Setting("queue-reports", int, 1_000_000, "reports that may wait (default: 1000000)", "N"),
    Setting("grace", float, 1.0, "seconds of refusing posts before it stops (default: 1)", "S"),
    Setting("log-format", str, "text", "lines of the log, on standard error (default: text)", choices=("text", "json")),
)


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "serve", "collect reports over HTTP", more=MORE, example=EXAMPLE)
    parser.add_argument("--config", metavar="FILE", help="a TOML file with these settings")
    for setting in SETTINGS:
        setting.add_to(parser)


def check_settings(args: argparse.Namespace) -> None:
    """Fill in what the environment and the file say, and see that the settings go together."""
    from overstory.protocol.errors import ParameterError

    fill_in(args, SETTINGS, os.environ)
    for name in ("registry", "store"):
        if not getattr(args, name):
            raise ParameterError(f"--{name} must be given, or {PREFIX}{name.upper()}, or {name} in the --config file")
    if (args.tls_certificate is None) != (args.tls_key is None):
        raise ParameterError("--tls-certificate and --tls-key belong together: give both or neither")
    if not 0 <= args.port < 1 << 16:
        raise ParameterError(f"--port {args.port}: ports are 0 .. 65535")
    if args.queue_reports < 1 or not min(args.compact_every, args.compact_within, args.grace) >= 0:
        names = "--queue-reports, --compact-every, --compact-within and --grace"
        raise ParameterError(f"{names}: give numbers that are not negative")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from overstory.protocol.metrics import load_registry

    shown_to_all = _has_password(args.store)
    check_settings(args)
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be obeyed: what it asks for is under way
    from overstory.collector.http.listening import Listening
    from overstory.collector.log import LOG, begin_log
    from overstory.collector.promises import check_promises
    from overstory.collector.server import serve
    from overstory.collector.service import Collector
    from overstory.collector.settings import Limits, UpkeepIntervals

    begin_log(args.log_format)
    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key, args.grace)
    if listening.exposed:
        LOG.warning("%s is not this machine alone, and there is no TLS: tokens cross the network readable", args.host)
    if shown_to_all:
        LOG.warning(
            "the password in --store can be seen in the list of processes: set %sSTORE, or store in the --config file",
            PREFIX,
        )

    def read_registry() -> MetricRegistry:
        registry = load_registry(args.registry)
        check_promises(args.store, registry, allow_weaker=args.allow_weaker, warn=LOG.warning)
        return registry

    registry = read_registry()
    store = _open(args.store, registry)
    collector = Collector(
        registry,
        store,
        limits=Limits(queue_reports=args.queue_reports),
        intervals=UpkeepIntervals(compact=args.compact_every, within=args.compact_within),
        open_writes=args.open_writes,
    )
    serve(collector, listening, announce=lambda line: print(line, flush=True), reread=read_registry)
    return 0


def _has_password(url: str | None) -> bool:
    try:
        return bool(url and urlsplit(url).password)
    except ValueError:  # no URL: opening the store says so
        return False


def _open(url: str, registry: MetricRegistry) -> Store:
    from overstory.collector.log import log_event
    from overstory.collector.store import open_store
    from overstory.collector.store.connection import MissingStoreError

    try:
        store = open_store(url)
    except MissingStoreError:
        log_event("there is no store yet: making one")
        store = open_store(url, create=True)
    try:
        store.serve_alone()  # before anything is written: another collector's registry stays the store's
        store.remember(registry)
    except BaseException:
        store.close()
        raise
    return store
