"""What travels between a device and a collector: batches, uploads, reasons of refusal."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

METRIC_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)  # what a metric may be called

GROUP: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+-]{0,30}[A-Za-z0-9._+-])?", re.ASCII)
"""What a group may be called: one name for each group, without invisible or look-alike characters."""

MOST_DIGITS: Final = 18
"""More than any length or number of ours has; `int` raises past 4,300, and takes its time before."""


def parse_digits(text: str | bytes) -> int | None:
    """Return the number that a few ASCII digits spell; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or number."""
    import ipaddress

    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def unencrypted_host(address: str | None) -> str | None:
    """Return the host that is reached without encryption, over a network; None where there is none."""
    parts = urlsplit(address or "")
    host = parts.hostname or ""
    return None if parts.scheme != "http" or is_loopback(host) else host


def shared_host(first: str | None, second: str | None) -> str | None:
    """Return the host that two addresses have in common; None where they have none, or it is this machine."""
    hosts = {urlsplit(address or "").hostname for address in (first, second)}
    (host, *others) = hosts
    return None if others or host is None or is_loopback(host) else host
