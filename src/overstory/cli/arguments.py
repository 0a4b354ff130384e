"""Options that several commands share, so that one name means one thing everywhere."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from overstory.cli.parser import Formatter

if TYPE_CHECKING:
    from overstory.files.params import RapporParameters
    from overstory.protocol.mechanisms.payloads import BitMechanism


def add_command(commands: Any, name: str, summary: str, *, more: str = "", example: str) -> argparse.ArgumentParser:
    """Add a command whose help ends with an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.\n\n{more}".rstrip(),
        epilog=f"example:\n  {example}",
        formatter_class=Formatter,
    )
    return parser


def add_params(parser: Any, *, required: bool = True) -> None:
    """Add ``--params``."""
    parser.add_argument(
        "--params", required=required, metavar="FILE", help="RAPPOR's parameters: header k,h,m,p,q,f and one row"
    )


def add_hashing(parser: Any, *, otherwise: str = "overstory-v1", note: str = "") -> None:
    """Add ``--hash-family`` and ``--hash-key``; `hashing` reads them."""
    parser.add_argument(
        "--hash-family",
        metavar="NAME",
        help=f"overstory-v1 or google-rappor-python (default: {otherwise}){note}",
    )
    parser.add_argument("--hash-key", default="", metavar="KEY", help="public key of overstory-v1 (default: none)")


def hashing(args: argparse.Namespace) -> dict[str, Any]:
    """Return the hash family and key that were asked for, as what makes a RAPPOR takes them."""
    asked = {"hash_family": args.hash_family, "hash_key": args.hash_key}
    return {name: value for name, value in asked.items() if value is not None}


def given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Return which of these options were given, as they are written."""
    values = {name: getattr(args, name) for name in names}
    return [
        "--" + name.replace("_", "-")
        for name, value in values.items()
        if value is not None and value is not False and value != ""
    ]


def add_interval(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--interval``."""
    parser.add_argument(
        "--interval",
        choices=("reports", "population"),
        help="intervals of these reports (noise alone), or of all devices like these (the sampling of people too) "
        f"(default: {default})",
    )


def check_plot(path: str | None) -> None:
    """Raise ParameterError unless a picture can be drawn into a file of that name."""
    from overstory.protocol.errors import ParameterError

    if path and not path.endswith((".svg", ".pdf", ".png")):
        raise ParameterError(f"--plot {path}: end the name in .svg, .pdf or .png")


def add_output(parser: argparse.ArgumentParser, meaning: str, metavar: str = "FILE") -> None:
    """Add ``-o``."""
    parser.add_argument("-o", "--output", required=True, metavar=metavar, help=f"{meaning} (-: standard output)")


def add_reporting(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--quiet``."""
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no closing line")


def check_pipes(args: argparse.Namespace, *inputs: str) -> None:
    """Raise ParameterError when two inputs are standard input, or two outputs standard output."""
    from overstory.protocol.errors import ParameterError

    named = [getattr(args, name) for name in inputs]
    if sum(name.count("-") if isinstance(name, list) else name == "-" for name in named) > 1:
        raise ParameterError("standard input (-) can be read once: give it to one option")
    if args.output == "-" and args.json:
        raise ParameterError("-o - and --json both write to standard output: give one")


def shown(output: str) -> str:
    """Return an output's name in a sentence."""
    return "standard output" if output == "-" else output


def add_skipping(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--skip-bad``."""
    parser.add_argument(
        "--skip-bad", action="store_true", help=f"count malformed {what} and go on, instead of stopping at the first"
    )


def check_seed(seed: int | None) -> None:
    """Raise ParameterError unless the generators take such a seed."""
    from overstory.protocol.errors import ParameterError

    if seed is not None and seed < 0:
        raise ParameterError(f"--seed {seed}: give a whole number from 0")


def read_mechanism(args: argparse.Namespace) -> tuple[RapporParameters, BitMechanism]:
    """Return the parameters that ``--params`` names, and their mechanism with the hash family asked for."""
    from overstory.files.params import read_params

    parameters = read_params(args.params)
    return parameters, parameters.mechanism(**hashing(args))


def token_of_environment(role: str) -> str:
    """Return the token of ``OVERSTORY_WRITE_TOKEN`` or ``OVERSTORY_ADMIN_TOKEN``; else of ``OVERSTORY_TOKEN``, as once.

    Parameters
    ----------
    role
        `WRITE` for who sends, `ADMIN` for who reads.
    """
    return os.environ.get(f"OVERSTORY_{role}_TOKEN") or os.environ.get("OVERSTORY_TOKEN", "")


def tell(args: argparse.Namespace, outcome: dict[str, Any], line: str) -> None:
    """Print the outcome: as JSON when it is asked for, else as one line unless silence is.

    The line goes to the error stream where standard output has the data.
    """
    if args.json:
        print(json.dumps(outcome, indent=2, allow_nan=False))
    elif not args.quiet:
        print(line, file=sys.stderr if getattr(args, "output", None) == "-" else sys.stdout)
