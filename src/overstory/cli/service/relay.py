"""``overstory relay``: passes encapsulated messages on, and never who sent them."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from overstory.cli.arguments import add_command
from overstory.cli.service.serve_settings import check_listening
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.relay.process import Settings, Shuffling

MORE = """\
Somebody else than the operator of the collector runs the relay: it sees addresses and cannot read messages; the
collector reads messages and sees no addresses. Each message (message/ohttp-req, RFC 9458) is passed on at once, its
body alone; of the response, the body, the media type and the class of the status come back. No address, header or
time of a message is written anywhere.

With --shuffle the relay gathers messages on disk, answers 202 once a message is there, and releases all of them
together, in a random order, when --least have come and --every has passed since the last release. If fewer than --least
have come within --at-most, they are dropped and counted. Copies of a message count once. One address has at most
--per-release / --least of a release, and k addresses k times as much; also after a restart.

SIGTERM and SIGINT end the relay after the messages that have begun. GET /healthz has counts, for this machine alone."""

EXAMPLE = "overstory relay --gateway https://collector.example.org --port 8100"

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LEAST_AT_MOST: Final = 2.0
"""Seconds: the spool counts whole ones, and moves on by half of this."""


def add_parser(commands: Any) -> None:
    summary = "pass messages on to a collector without their senders' addresses"
    parser = add_command(commands, "relay", summary, more=MORE, example=EXAMPLE)
    parser.add_argument("--gateway", required=True, metavar="URL", help="address of the collector")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8100, metavar="P", help="port; 0: any free port (default: 8100)")
    parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="serve HTTPS: certificate chain, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate, PEM")
    bounds = parser.add_argument_group("bounds")
    bounds.add_argument(
        "--per-hour", type=int, default=50, metavar="N", help="messages of one address in any hour (default: 50)"
    )
    bounds.add_argument(
        "--trust-forwarded",
        action="store_true",
        help="a proxy in front names the sender in X-Forwarded-For: its last address counts",
    )
    bounds.add_argument(
        "--most-bytes", type=int, default=1 << 16, metavar="N", help="bytes of one message (default: 65536)"
    )
    _add_shuffling(parser)


def _add_shuffling(parser: argparse.ArgumentParser) -> None:
    shuffle = parser.add_argument_group("shuffling")
    shuffle.add_argument("--shuffle", action="store_true", help="gather messages, and release many together")
    shuffle.add_argument("--spool", type=Path, metavar="DIR", help="folder for messages that wait")
    shuffle.add_argument("--token-file", type=Path, metavar="FILE", help="the collector's token of the role relay")
    shuffle.add_argument(
        "--least", type=int, default=1000, metavar="N", help="messages of the smallest release (default: 1000)"
    )
    shuffle.add_argument(
        "--per-release",
        type=int,
        metavar="N",
        help="messages of one address that are taken for one release (default: a twentieth of --least, at least 1)",
    )
    shuffle.add_argument(
        "--every",
        default="24h",
        metavar="TIME",
        help="time between two releases, such as 90m, 24h or 7d (default: 24h)",
    )
    shuffle.add_argument(
        "--at-most",
        default="30d",
        metavar="TIME",
        help="drop what waits if --least is not reached within this; not shorter than --every; the first message after "
        "a silence has at least half of it (default: 30d)",
    )
    shuffle.add_argument(
        "--capacity",
        type=int,
        default=100_000,
        metavar="N",
        help="messages that may wait, of 1 KiB each on disk, from the beginning (default: 100000)",
    )


def run(args: argparse.Namespace) -> int:
    settings = read_settings(args)
    from overstory.relay.process import serve
    from overstory.relay.service import LOG
    from overstory.supervision.log import begin_log

    begin_log(LOG)
    serve(settings, announce=lambda line: print(line, flush=True))
    return 0


def read_settings(args: argparse.Namespace) -> Settings:
    """Return the settings of the command line, or raise ParameterError."""
    check_listening(args, "port")
    for name, most in (("per_hour", 1 << 20), ("per_release", 1 << 20), ("most_bytes", 1 << 24)):
        value = getattr(args, name)
        if value is not None and not 1 <= value <= most:
            raise ParameterError(f"--{name.replace('_', '-')} {value}: give 1 to {most:,}")
    gateway, shuffling = _gateway(args.gateway), _shuffling(args)
    from overstory.relay.process import Settings
    from overstory.supervision.listening import Listening

    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key)
    listening.check_certificate()
    return Settings(
        gateway,
        listening,
        args.per_hour,
        args.trust_forwarded,
        args.most_bytes,
        shuffling,
    )


def _gateway(url: str) -> str:
    from overstory.client.upload.http import PATH, endpoint

    try:
        checked = endpoint(url)
    except ParameterError as error:
        raise ParameterError(f"--gateway: {str(error).removeprefix('server = ')}") from None
    if urlsplit(url).path.rstrip("/"):
        raise ParameterError(f"--gateway {url}: give the collector's address without a path")
    return checked.removesuffix(PATH)


def _shuffling(args: argparse.Namespace) -> Shuffling | None:
    if not args.shuffle:
        if args.spool or args.token_file:
            raise ParameterError("--spool and --token-file belong to --shuffle: give it as well")
        return None
    if args.spool is None or args.token_file is None:
        raise ParameterError("--shuffle needs --spool DIR and --token-file FILE")
    if args.least < 2 or not args.least <= args.capacity < 1 << 31:
        raise ParameterError(f"--least {args.least}, --capacity {args.capacity}: give 2 <= --least <= --capacity")
    every, at_most = duration("--every", args.every), duration("--at-most", args.at_most)
    if at_most < LEAST_AT_MOST:
        raise ParameterError(f"--at-most {args.at_most}: give at least {LEAST_AT_MOST:g}s")
    if at_most < every:
        raise ParameterError(f"--at-most {args.at_most}: it is shorter than --every {args.every}")
    from overstory.relay.process import Shuffling
    from overstory.relay.spool import Rules

    rules = Rules(args.least, every, at_most, args.per_release)
    return Shuffling(args.spool, _token(args.token_file), rules, args.capacity)


def _token(path: Path) -> str:
    from overstory.protocol.wire.reasons import check_token

    text = path.read_text("utf-8", errors="replace").strip()
    if not text:
        raise ParameterError(f"{path}: it is empty: write the collector's token of the role relay into it")
    if os.name == "posix" and path.stat().st_mode & 0o007:
        raise ParameterError(f"{path}: other users can read this token: chmod 600 {path}")
    return check_token(text)


def duration(name: str, text: str) -> float:
    """Return seconds, from a number with s, m, h or d.

    >>> duration("--every", "24h"), duration("--every", "90m"), duration("--at-most", "30d")
    (86400.0, 5400.0, 2592000.0)
    """
    matched = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])", text)
    if matched is None:
        raise ParameterError(f"{name} {text}: give a number with s, m, h or d, such as 24h")
    return float(matched[1]) * UNITS[matched[2]]
