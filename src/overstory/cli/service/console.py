"""``overstory console``: pages for those who run a collector and those who read its estimates."""

from __future__ import annotations

import argparse
import json
import os
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from overstory.cli.service.commands import CONSOLE, CONSOLE_SETTINGS
from overstory.cli.service.settings import fill_in
from overstory.collector.store import open_store
from overstory.console.access import Access, check_exposure, parse_proxy
from overstory.console.alarms import check
from overstory.console.app import serve
from overstory.console.data import ConsoleData
from overstory.protocol.metrics import load_registry
from overstory.supervision.listening import Listening

NICE: Final = 5
"""How much the console lets other processes go first: where a collector has no processor to spare, pages wait."""


def run(args: argparse.Namespace) -> int:
    fill_in(args, CONSOLE_SETTINGS, os.environ, CONSOLE, needed=2)
    if args.check:
        return _check(args)
    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key)
    names = tuple(filter(None, map(str.strip, args.names.split(","))))
    access = Access(names, args.behind_proxy, parse_proxy(args.trust_header, getattr(args, "from"), args.roles))
    check_exposure(listening, access)
    os.nice(NICE)
    with open_data(args.registry, args.store) as data:
        serve(
            data,
            listening,
            access,
            partial(print, flush=True),
            open_link=webbrowser.open if args.open else None,
        )
    return 0


def _check(args: argparse.Namespace) -> int:
    with open_data(args.registry, args.store) as data:
        data.decoder.patience = None
        result, is_alarming = check(data)
    print(json.dumps(result, indent=2, allow_nan=False))
    return int(is_alarming)


@contextmanager
def open_data(registry: str, url: str) -> Iterator[ConsoleData]:
    """Give what the screens read: the registry and the open store."""
    metrics = load_registry(registry)
    with open_store(url) as store:
        data = ConsoleData(metrics, store)
        try:
            yield data
        finally:
            data.decoder.close()
