"""Where a request comes from: its Host must be one of the console's, and what changes something its own page's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from overstory.collector.http.listening import is_loopback

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Origin:
    """The names that the console answers to.

    Another site whose name leads to this machine sends its own name as Host, so any other name is refused.

    Attributes
    ----------
    names
        Host names and addresses, without a port, in small letters.

    Examples
    --------
    >>> origin = Origin.of("127.0.0.1", ["console.example.org"])
    >>> origin.serves("localhost:8001"), origin.serves("console.example.org"), origin.serves("evil.example")
    (True, True, False)
    """

    names: frozenset[str]

    @classmethod
    def of(cls, host: str, more: Iterable[str] = ()) -> Origin:
        """Return the origin of a console that listens on `host`; `more` are the names that a proxy passes on."""
        own = LOCAL_NAMES if is_loopback(host) else {host.lower()}
        return cls(frozenset({*own, *(name.strip().lower() for name in more)}))

    def serves(self, host: str) -> bool:
        """Whether a Host header names this console."""
        return _name(host) in self.names

    def may_change(self, headers: Mapping[str, str], *, has_bearer: bool) -> bool:
        """Whether a request that can change something comes from a page of this console.

        A browser says so in Sec-Fetch-Site; ``same-site`` is another port or a neighbour's name, and ``none`` a
        bookmark: neither is enough. An older browser sends Origin. A program sends neither: it needs a bearer token,
        which no browser adds by itself.
        """
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            return site == "same-origin"
        if origin is not None:
            return _netloc(origin) == headers.get("host", "").lower() != ""
        return has_bearer


def _name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if not (parts.path or parts.query or parts.fragment or "@" in parts.netloc) else None


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
