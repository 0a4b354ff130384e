"""``overstory serve``: the collector."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command
from overstory.cli.service.console import console_process
from overstory.cli.service.serve_settings import PREFIX, Setting, fill_in

if TYPE_CHECKING:
    from overstory.collector.oblivious.opening import KeyRing
    from overstory.collector.store import Store
    from overstory.protocol.metrics import MetricRegistry

MORE = """\
The collector takes reports over HTTP, acknowledges them after they are committed, and returns counts and estimates. It
creates the store if it does not exist. Devices need a write token unless --open-writes is given; counts and estimates
need an admin token (`overstory store tokens add`). No address, user agent or time of a request is stored or logged.

Every option can be set by an environment variable (OVERSTORY_STORE for --store) or by the TOML file that --config or
OVERSTORY_CONFIG names (store = "reports.db"). The command line overrides the environment, which overrides the file. Put
a store's URL with a password in the environment or the file: everybody on a machine can see command lines.

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
    Setting("console-port", int, None, "run a console on this port of 127.0.0.1, too; 0: any free port", "P"),
    Setting("log-format", str, "text", "form of the log on standard error (default: text)", choices=("text", "json")),
)


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "serve", "collect reports over HTTP", more=MORE, example=EXAMPLE)
    parser.add_argument("--config", metavar="FILE", help="TOML file with these settings")
    for setting in SETTINGS:
        setting.add_to(parser)


def check_settings(args: argparse.Namespace) -> None:
    """Fill in the settings of the environment and the file, and check that they fit together."""
    from overstory.protocol.errors import ParameterError

    fill_in(args, SETTINGS, os.environ)
    for name in ("registry", "store"):
        if not getattr(args, name):
            raise ParameterError(f"--{name} must be given, or {PREFIX}{name.upper()}, or {name} in the --config file")
    if (args.tls_certificate is None) != (args.tls_key is None):
        raise ParameterError("--tls-certificate and --tls-key belong together: give both or neither")
    for name, port in (("port", args.port), ("console-port", args.console_port)):
        if port is not None and not 0 <= port < 1 << 16:
            raise ParameterError(f"--{name} {port}: ports are 0 .. 65535")
    if args.queue_reports < 1 or not min(args.compact_every, args.compact_within, args.grace) >= 0:
        names = "--queue-reports, --compact-every, --compact-within and --grace"
        raise ParameterError(f"{names}: give numbers that are not negative")


_NO_TLS: Final = "%s can be reached from other machines, and there is no TLS: tokens cross the network unencrypted"
_VISIBLE: Final = (
    "the password in --store is visible in the list of processes: use %sSTORE, or store in the --config file"
)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from overstory.protocol.metrics import load_registry

    store_on_command_line = args.store or ""
    check_settings(args)
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be handled: the files are read now anyway
    from overstory.collector.checkup.checks import guarded
    from overstory.collector.checkup.keys import check_keys
    from overstory.collector.checkup.promises import check_promises
    from overstory.collector.http.listening import Listening
    from overstory.collector.log import LOG, begin_log
    from overstory.collector.server import serve
    from overstory.collector.service import Collector
    from overstory.collector.settings import Limits, UpkeepIntervals
    from overstory.collector.store.databases.urls import has_password
    from overstory.collector.store.metrics import served_shard

    begin_log(args.log_format)
    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key, args.grace)
    if listening.exposed:
        LOG.warning(_NO_TLS, args.host)
    if has_password(store_on_command_line):
        LOG.warning(_VISIBLE, PREFIX)

    def read_registry() -> MetricRegistry:
        registry = load_registry(args.registry)
        for finding in guarded("oblivious keys", lambda: check_keys(registry, args.oblivious_keys)):
            if finding.level != "ok":
                LOG.warning("%s%s", finding.detail, f". To do: {finding.do}" if finding.do else "")
        served_shard(registry, args.shard)  # before a store is made for it
        check_promises(args.store, registry, allow_weaker=args.allow_weaker, warn=LOG.warning)
        return registry

    read_ring = _ring_reader(args.oblivious_keys)
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
    with console_process(args.registry, args.store, args.console_port, os.environ):
        announce = partial(print, flush=True)
        serve(collector, listening, announce=announce, reread=read_registry, reread_keys=read_ring)
    return 0


def _ring_reader(path: Path | None) -> Callable[[], KeyRing] | None:
    """Return what reads the private keys; None without a file. Who has none needs no cryptography."""
    if path is None:
        return None
    from overstory.collector.oblivious.opening import load_ring

    return partial(load_ring, path)


def _open(url: str, registry: MetricRegistry, shard: int | None) -> Store:
    from overstory.collector.log import log_event
    from overstory.collector.store import open_store
    from overstory.collector.store.databases.connection import MissingStoreError

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
