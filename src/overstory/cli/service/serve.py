"""``overstory serve``: its settings, before anything large is imported."""

from __future__ import annotations

import argparse
import os
import signal
import threading

from overstory.cli.service.commands import SERVE_SETTINGS
from overstory.cli.service.settings import fill_in


def run(args: argparse.Namespace) -> int:
    store_on_command_line = args.store or ""
    fill_in(args, SERVE_SETTINGS, os.environ, needed=2)
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be handled: the files are read now anyway
    from overstory.cli.service.collector import collect

    collect(args, store_on_command_line)
    return 0
