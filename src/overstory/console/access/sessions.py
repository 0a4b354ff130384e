"""Sessions in memory: a one-time link or a token begins one, and a cookie continues it.

Of a link and of a cookie only the SHA-256 is held, so that a copy of the memory opens no session.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from overstory.collector.auth import sha256
from overstory.console.view import Viewer

LINK_SECONDS: Final = 600.0
SESSION_SECONDS: Final = 12 * 3600.0
MOST_SESSIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """Who is logged in.

    Attributes
    ----------
    token
        The SHA-256 of the store's token that began the session; None: a one-time link did.
    """

    viewer: Viewer
    token: bytes | None = None


class Sessions:
    """Links and sessions, until they end; nothing of them is written anywhere.

    Parameters
    ----------
    clock
        Seconds that never run backwards.

    Examples
    --------
    >>> sessions = Sessions()
    >>> link = sessions.make_link("admin")
    >>> session = sessions.use_link(link)
    >>> sessions.use_link(link), sessions.find(sessions.begin(session)) == session
    (None, True)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[bytes, tuple[Session, float]] = {}
        self._sessions: dict[bytes, tuple[Session, float]] = {}

    def make_link(self, viewer: Viewer) -> str:
        """Return a token for one login within ten minutes."""
        token = secrets.token_urlsafe(32)
        self._links[sha256(token)] = (Session(viewer), self._clock() + LINK_SECONDS)
        return token

    def use_link(self, token: str) -> Session | None:
        """Return the session that a link begins, and forget the link; None: it was used, or has expired."""
        session, ends = self._links.pop(sha256(token), (None, 0.0))
        return session if self._clock() < ends else None

    def begin(self, session: Session) -> str:
        """Begin a session; return the id that its cookie carries. Of too many sessions the oldest one ends."""
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[sha256(name)] = (session, self._clock() + SESSION_SECONDS)
        return name

    def find(self, name: str) -> Session | None:
        """Return the session with this id, or None."""
        key = sha256(name)
        session, ends = self._sessions.get(key, (None, 0.0))
        if self._clock() < ends:
            return session
        self._sessions.pop(key, None)
        return None

    def end(self, name: str) -> None:
        """End a session."""
        self._sessions.pop(sha256(name), None)


@dataclass(frozen=True, slots=True)
class Cookie:
    """The session's cookie: its names, and how a browser gets and loses it.

    Chromium and Firefox take a Secure cookie from plain HTTP on this machine. For browsers that refuse it, a second
    cookie without Secure and without the prefix is set there, and nowhere else.
    """

    port: int
    plain: bool  # plain HTTP on this machine: neither TLS nor a proxy

    @property
    def names(self) -> tuple[str, ...]:
        """The cookies that can carry a session, the preferred one first."""
        return (f"__Host-overstory-{self.port}", *((f"overstory-{self.port}",) if self.plain else ()))

    def read(self, header: str) -> str:
        """Return the session id in a Cookie header, or an empty text."""
        pairs = dict(pair.strip().partition("=")[::2] for pair in header.split(";"))
        return next((pairs[name] for name in self.names if name in pairs), "")

    def header_values(self, session_id: str) -> list[str]:
        """Return the Set-Cookie headers for a session; an empty id deletes the cookies."""
        age = int(SESSION_SECONDS) if session_id else 0
        rules = f"Path=/; Max-Age={age}; HttpOnly; SameSite=Lax"
        return [
            f"{name}={session_id}; {rules}{'; Secure' if name.startswith('__Host-') else ''}" for name in self.names
        ]
