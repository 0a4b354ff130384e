"""Addresses of collectors and relays: whether the way there is encrypted, and whether two are one machine's."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or number.

    >>> [is_loopback(host) for host in ("localhost", "a.localhost", "127.0.0.2", "::1", "192.0.2.1", "example.org")]
    [True, True, True, True, False, False]
    """
    import ipaddress

    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def unencrypted_host(address: str | None) -> str | None:
    """Return the host that is reached without encryption, over a network; None where there is none.

    >>> [unencrypted_host(f"http://{host}") for host in ("example.org", "localhost:8080", "127.0.0.1", "[::1]:80")]
    ['example.org', None, None, None]
    """
    parts = urlsplit(address or "")
    host = parts.hostname or ""
    return None if parts.scheme != "http" or is_loopback(host) else host


def shared_host(first: str | None, second: str | None) -> str | None:
    """Return the host that two addresses have in common; None where they have none, or it is this machine.

    >>> shared_host("https://Example.org/relay", "http://example.org:8000"), shared_host("https://a.test", None)
    ('example.org', None)
    """
    hosts = {urlsplit(address or "").hostname for address in (first, second)}
    (host, *others) = hosts
    return None if others or host is None or is_loopback(host) else host
