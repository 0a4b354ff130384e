"""Options of ``overstory metrics init`` on the groups of the devices; nobody is asked about them."""

from __future__ import annotations

import argparse
import json

from overstory.cli.registry.asking import a_decimal, whole
from overstory.protocol.errors import ParameterError


def add_group_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--group-by", metavar="NAME", help="what devices are grouped by, in clear, such as release")
    parser.add_argument("--groups", metavar="A=SHARE,...", help="the groups, each with its public share of all devices")
    parser.add_argument("--devices", metavar="N", help="how many devices are expected to report; with groups")


def group_lines(args: argparse.Namespace) -> list[str]:
    """Return the lines on groups, or none where no option asks for them.

    Examples
    --------
    >>> print(group_lines(argparse.Namespace(group_by="release", groups="1.0=0.6,1.1=0.3", devices="500000"))[-1])
    groups = {by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}
    """
    given = {"--group-by": args.group_by, "--groups": args.groups, "--devices": args.devices}
    missing = [option for option, text in given.items() if text is None]
    if len(missing) == len(given):
        return []
    if missing:
        raise ParameterError(f"{', '.join(missing)}: missing; {', '.join(given)} go together")
    try:
        devices = whole(1, 1 << 40)(args.devices)
    except ParameterError as error:
        raise ParameterError(f"--devices: {error}") from None
    shares = ", ".join(f"{json.dumps(name)} = {share!r}" for name, share in _shares(args.groups).items())
    return [
        "# The group of the device, which each report names in clear: no epsilon protects it. With the public share of",
        "# each group; all other devices are in the group other. A group of fewer than 1,000 devices is a fault.",
        f"groups = {{by = {json.dumps(args.group_by)}, shares = {{{shares}}}, devices = {devices}}}",
    ]


def _shares(text: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, equals, share = part.strip().rpartition("=")
        if not equals or not name or name in shares:
            raise ParameterError(f"--groups: {part.strip()!r}: give each group once, with its share, such as 1.0=0.6")
        try:
            shares[name] = a_decimal(share)
        except ParameterError as error:
            raise ParameterError(f"--groups: {error}") from None
    return shares
