"""``overstory serve``: its settings, and whether a running collector takes reports."""

from __future__ import annotations

import argparse
import os
import signal
import ssl
import sys
import threading
from http.client import HTTPException
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from overstory.cli.service.commands import SERVE_SETTINGS
from overstory.cli.service.settings import fill_in
from overstory.protocol.errors import ParameterError


def run(args: argparse.Namespace) -> int:
    store_on_command_line = args.store or ""
    fill_in(args, SERVE_SETTINGS, os.environ, needed=2)
    if args.check:
        return _check_readiness(args)
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be handled: the files are read now anyway
    from overstory.cli.service.collector import collect  # a check of every few seconds does without

    collect(args, store_on_command_line)
    return 0


def _check_readiness(args: argparse.Namespace) -> int:
    """Ask the running collector; return 0 where it takes reports, else say why not and return 1."""
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
