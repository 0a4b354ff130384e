"""``overstory serve``: the collector."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import add_command

if TYPE_CHECKING:
    from overstory.collector.store import Store
    from overstory.protocol.metrics import MetricRegistry

MORE = """\
Takes reports over HTTP, acknowledges them once they are committed, and answers questions about them. A store that does
not exist is made. Devices need a write token unless --open-writes is given; counts and estimates need an admin token
(`overstory store tokens add`). SIGTERM and SIGINT end it after everything queued is committed.
No address, user agent or time of a request is stored or logged."""

EXAMPLE = "overstory serve --registry metrics.toml --store reports.db --port 8000"


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "serve", "collect reports over HTTP", more=MORE, example=EXAMPLE)
    parser.add_argument("--registry", required=True, metavar="FILE", help="the metrics that are collected")
    parser.add_argument("--store", required=True, metavar="URL", help="a file, sqlite:///FILE, or postgresql://...")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, metavar="P", help="0: any that is free (default: 8000)")
    parser.add_argument(
        "--allow-weaker", action="store_true", help="collect with less privacy than the stored reports were promised"
    )
    parser.add_argument("--open-writes", action="store_true", help="take reports without a token")
    parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="serve HTTPS: certificate chain, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    parser.add_argument(
        "--compact-every", type=float, default=10.0, metavar="S", help="seconds between compactions; 0: never (10)"
    )
    parser.add_argument(
        "--compact-within",
        type=float,
        default=300.0,
        metavar="S",
        help="seconds that a few reports may wait for others before a large chunk is written again; 0: at once (300)",
    )
    parser.add_argument(
        "--queue-reports", type=int, default=1_000_000, metavar="N", help="reports that may wait (default: 1000000)"
    )
    parser.add_argument(
        "--grace", type=float, default=1.0, metavar="S", help="seconds of refusing posts before it stops (default: 1)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from overstory.protocol.errors import ParameterError
    from overstory.protocol.metrics import load_registry

    if (args.tls_certificate is None) != (args.tls_key is None):
        raise ParameterError("--tls-certificate and --tls-key belong together: give both or neither")
    if not 0 <= args.port < 1 << 16:
        raise ParameterError(f"--port {args.port}: ports are 0 .. 65535")
    if args.queue_reports < 1 or min(args.compact_every, args.compact_within, args.grace) < 0:
        names = "--queue-reports, --compact-every, --compact-within and --grace"
        raise ParameterError(f"{names}: give numbers that are not negative")
    registry = load_registry(args.registry)

    from overstory.collector.collector import Collector, Rhythm
    from overstory.collector.limits import Limits
    from overstory.collector.promises import check_promises
    from overstory.collector.serving import Listening, serve

    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key, args.grace)
    if listening.exposed:
        _say(f"warning: {args.host} is not this machine alone, and there is no TLS: tokens cross the network readable")
    check_promises(args.store, registry, allow_weaker=args.allow_weaker, warn=_say)
    collector = Collector(
        registry,
        _open(args.store, registry),
        limits=Limits(queue_reports=args.queue_reports),
        rhythm=Rhythm(compact=args.compact_every, within=args.compact_within),
        open_writes=args.open_writes,
    )
    serve(collector, listening, told=lambda line: print(line, flush=True))
    return 0


def _open(url: str, registry: MetricRegistry) -> Store:
    from overstory.collector.store import open_store
    from overstory.collector.store.opening import MissingStoreError

    try:
        return open_store(url, registry)
    except MissingStoreError:
        _say("there is no store yet: making one")
        return open_store(url, registry, create=True)


def _say(said: str) -> None:
    print(f"overstory serve: {said}", file=sys.stderr, flush=True)
