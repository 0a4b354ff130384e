"""Options that several commands share, so that one name means one thing everywhere."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overstory.files.params import RapporParameters
    from overstory.protocol.mechanisms.bits import BitMechanism


def add_command(commands: Any, name: str, summary: str, *, more: str = "", example: str) -> argparse.ArgumentParser:
    """Add a command whose help ends with an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.\n\n{more}".rstrip(),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_params(parser: argparse.ArgumentParser) -> None:
    """Add ``--params``."""
    parser.add_argument(
        "--params", required=True, metavar="FILE", help="RAPPOR's parameters: header k,h,m,p,q,f and one row"
    )


def add_hashing(parser: argparse.ArgumentParser, default: str | None = "overstory-v1", note: str = "") -> None:
    """Add ``--hash-family`` and ``--hash-key``."""
    shown = default or "any"
    parser.add_argument(
        "--hash-family",
        default=default,
        metavar="NAME",
        help=f"overstory-v1 or google-rappor-python (default: {shown}){note}",
    )
    parser.add_argument("--hash-key", default="", metavar="KEY", help="public key of overstory-v1 (default: none)")


def add_output(parser: argparse.ArgumentParser, meaning: str, metavar: str = "FILE") -> None:
    """Add ``-o``."""
    parser.add_argument("-o", "--output", required=True, metavar=metavar, help=meaning)


def add_reporting(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--quiet``."""
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no closing line")


def add_skipping(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--skip-bad``."""
    parser.add_argument(
        "--skip-bad", action="store_true", help=f"count malformed {what} and go on, instead of stopping at the first"
    )


def read_mechanism(args: argparse.Namespace) -> tuple[RapporParameters, BitMechanism]:
    """Return the parameters that ``--params`` names, and their mechanism with the hash family asked for."""
    from overstory.files.params import read_params

    parameters = read_params(args.params)
    return parameters, parameters.mechanism(args.hash_family, args.hash_key)


def tell(args: argparse.Namespace, outcome: dict[str, Any], line: str) -> None:
    """Print the outcome: as JSON when it is asked for, else as one line unless silence is."""
    if args.json:
        print(json.dumps(outcome, indent=2, allow_nan=False))
    elif not args.quiet:
        print(line)
