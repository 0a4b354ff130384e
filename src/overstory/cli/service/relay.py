"""``overstory relay``: passes encapsulated messages on, and never who sent them."""

from __future__ import annotations

import argparse
import os
import re
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from overstory.cli.service.commands import RELAY_, RELAY_SETTINGS
from overstory.cli.service.settings import fill_in
from overstory.client.upload.http import PATH, endpoint
from overstory.protocol.errors import ParameterError
from overstory.protocol.wire.reasons import check_token
from overstory.relay.process import Settings, serve
from overstory.relay.service import LOG
from overstory.relay.shuffling import Shuffling
from overstory.relay.spool import Rules
from overstory.supervision.listening import Listening
from overstory.supervision.log import begin_log

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LEAST_AT_MOST: Final = 2.0  # seconds: the spool counts whole ones, and moves on by half of this


def run(args: argparse.Namespace) -> int:
    settings = read_settings(args)

    begin_log(LOG)
    serve(settings, announce=partial(print, flush=True))
    return 0


def read_settings(args: argparse.Namespace) -> Settings:
    fill_in(args, RELAY_SETTINGS, os.environ, RELAY_, needed=1)
    gateway, shuffling = _gateway(args.gateway), _shuffling(args)

    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key)
    listening.check_certificate()
    return Settings(gateway, listening, args.per_hour, args.trust_forwarded, args.most_bytes, shuffling)


def _gateway(url: str) -> str:
    try:
        checked = endpoint(url)
    except ParameterError as error:
        raise ParameterError(f"--gateway: {str(error).removeprefix('server = ')}") from None
    if urlsplit(url).path.rstrip("/"):
        raise ParameterError(f"--gateway {url}: give the collector's address without a path")
    return checked.removesuffix(PATH)


def _shuffling(args: argparse.Namespace) -> Shuffling | None:
    if (args.spool is None) != (args.token_file is None):
        raise ParameterError("--spool and token_file belong together: a relay that shuffles needs both")
    if args.spool is None:
        return None
    if args.least < 2 or not args.least <= args.capacity < 1 << 31:
        raise ParameterError(f"least = {args.least}, capacity = {args.capacity}: give 2 <= least <= capacity")
    every, at_most = duration("every", args.every), duration("at_most", args.at_most)
    if at_most < LEAST_AT_MOST:
        raise ParameterError(f"at_most = {args.at_most}: give at least {LEAST_AT_MOST:g}s")
    if at_most < every:
        raise ParameterError(f"at_most = {args.at_most}: it is shorter than every = {args.every}")

    rules = Rules(args.least, every, at_most, args.per_release)
    return Shuffling(args.spool, _token(args.token_file), rules, args.capacity)


def _token(path: Path) -> str:
    text = path.read_text("utf-8", errors="replace").strip()
    if not text:
        raise ParameterError(f"{path}: it is empty: write the collector's token of the role relay into it")
    if os.name == "posix" and path.stat().st_mode & 0o007:
        raise ParameterError(f"{path}: other users can read this token: chmod 600 {path}")
    return check_token(text)


def duration(name: str, text: str) -> float:
    matched = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])", text)
    if matched is None:
        raise ParameterError(f"{name} = {text}: give a number with s, m, h or d, such as 24h")
    return float(matched[1]) * UNITS[matched[2]]
