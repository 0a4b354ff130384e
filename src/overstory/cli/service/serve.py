"""``overstory serve``: the process of a collector."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import Final

from overstory.cli.command import PREFIX
from overstory.cli.service.commands import SERVE_SETTINGS
from overstory.cli.service.settings import fill_in
from overstory.collector.checkup import check_kernels, check_keys, check_promises, guarded
from overstory.collector.oblivious.keys import KeyRing, read_private_keys
from overstory.collector.server import serve
from overstory.collector.service import Collector, open_to_serve
from overstory.collector.settings import Limits, UpkeepIntervals
from overstory.collector.store.databases.database import has_password
from overstory.collector.telemetry import LOG
from overstory.protocol.errors import OverstoryError
from overstory.protocol.metrics import MetricRegistry, load_registry
from overstory.supervision.listening import Listening
from overstory.supervision.log import begin_log

_NO_TLS: Final = "%s can be reached from other machines, and there is no TLS: tokens cross the network unencrypted"
_VISIBLE: Final = (
    "the password in --store is visible in the list of processes: use %sSTORE, or store in the --config file"
)


def run(args: argparse.Namespace) -> int:
    store_on_command_line = args.store or ""
    fill_in(args, SERVE_SETTINGS, os.environ, needed=2)
    begin_log(LOG)
    for finding in check_kernels(compiling=False) if args.compact_every else ():
        if finding.level == "error":  # reports cannot be counted: none are taken
            raise OverstoryError(finding.detail)
    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key, args.grace)
    if listening.exposed:
        LOG.warning(_NO_TLS, args.host)
    if has_password(store_on_command_line):
        LOG.warning(_VISIBLE, PREFIX)

    path, read_registry = args.oblivious_keys, partial(_read_registry, args)
    read_ring = None if path is None else lambda: KeyRing(read_private_keys(path))
    ring, registry = read_ring() if read_ring else None, read_registry()
    store = open_to_serve(args.store, registry)
    collector = Collector(
        registry,
        store,
        limits=Limits(queue_reports=args.queue_reports),
        intervals=UpkeepIntervals(compact=args.compact_every, within=args.compact_within),
        open_writes=args.open_writes,
        ring=ring,
    )
    announce = partial(print, flush=True)
    serve(collector, listening, announce=announce, reread=read_registry, reread_keys=read_ring)
    return 0


def _read_registry(args: argparse.Namespace) -> MetricRegistry:
    """Read the registry, as a start and a reload do: what it promises must hold for the store."""
    registry = load_registry(args.registry)
    for finding in guarded("oblivious keys", lambda: check_keys(registry, args.oblivious_keys)):
        if finding.level != "ok":
            LOG.warning("%s%s", finding.detail, f". To do: {finding.do}" if finding.do else "")
    check_promises(args.store, registry, allow_weaker=args.allow_weaker, warn=LOG.warning)
    return registry
