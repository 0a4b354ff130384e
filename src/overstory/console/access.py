"""Who may use the console: the names it answers to, roles of tokens and of a proxy, sessions, and the gate to all."""

from __future__ import annotations

import secrets
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from overstory.collector.auth import Token, TokenTable, sha256
from overstory.console.data import ConsoleData
from overstory.console.view import ScreenError, Viewer
from overstory.protocol.errors import FormatError, ParameterError, suggestion
from overstory.protocol.wire import is_loopback
from overstory.supervision.listening import Listening

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def names_of(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the names, without a port, that a console on `host` answers to; `more` are those that a proxy passes on.

    Another site whose name leads to this machine sends its own as Host.
    """
    own = {host.lower()} | (LOCAL_NAMES if is_loopback(host) else set())
    return frozenset({*own, *(name.strip().lower() for name in more)})


def may_change(headers: Mapping[str, str], *, has_bearer: bool) -> bool:
    """Whether a request that can change something comes from a page of this console.

    A browser says so in Sec-Fetch-Site; ``same-site`` is another port or a neighbour's name, and ``none`` a bookmark:
    neither is enough. An older browser sends Origin. A program sends neither: it needs a bearer token, which no browser
    adds by itself.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is not None:
        host = headers.get("host", "").lower()
        return host != "" and origin.lower() in {f"http://{host}", f"https://{host}"}
    return has_bearer


def _name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if not (parts.path or parts.query or parts.fragment or "@" in parts.netloc) else None


RANKS: Final[tuple[Viewer, ...]] = get_args(Viewer)  # each may do what those before it may

REREAD_SECONDS: Final = 1.0


def allows(role: Viewer, needed: Viewer) -> bool:
    """Whether somebody with this role may do what `needed` may."""
    return RANKS.index(role) >= RANKS.index(needed)


class TokenRoles:
    """The roles of the store's tokens, at most a second old."""

    def __init__(
        self,
        read: Callable[[], Iterable[Token]],
        *,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table, self._clock, self._timer = TokenTable(read), clock, timer
        self._read_at = -float("inf")

    def role_of(self, sha256: bytes) -> Viewer | None:
        if self._timer() - self._read_at > REREAD_SECONDS:
            began = self._timer()
            self._table.refresh()
            self._read_at = began
        token = self._table.find(sha256, self._clock())
        return next((role for role in RANKS if token is not None and role == token.role), None)


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy that has checked who somebody is, and says so in a header."""

    header: str  # its name, in small letters
    people: Mapping[str, Viewer]  # roles by the names that it passes on
    default: Viewer | None = None  # the role of all others; None: they may not log in
    socket: str | None = None  # the Unix socket that only the proxy can open; None: all of this machine are trusted

    def role(self, values: list[str], client: str | None, server: str | None) -> Viewer | None:
        """Return the role of whom the header names, if any; ScreenError 400 where somebody may have forged it."""
        if not values:
            return None
        trusted = server == self.socket if self.socket else client is not None and is_loopback(client)
        if not trusted:
            raise ScreenError(400, f"{self.header} is accepted from the trusted proxy only; leave it out")
        if len(values) > 1:
            raise ScreenError(400, f"{self.header} was sent {len(values)} times; the proxy must replace it")
        return self.people.get(values[0], self.default)


def parse_proxy(header: str | None, source: str | None, roles: str | Path | None) -> TrustedProxy | None:
    """Return what the settings `trust_header`, `from` and `roles` mean together; None without any of them."""
    if header is None:
        if source is not None or roles is not None:
            raise ParameterError("from and roles belong to trust_header: name the header, or leave them out")
        return None
    if source is None or roles is None:
        raise ParameterError("trust_header needs from (unix:/PATH or loopback) and roles, a file")
    if source != "loopback" and not (source.startswith("unix:/") and len(source) > len("unix:/")):
        raise ParameterError(f"from = {source}: give unix:/PATH or loopback; a header from elsewhere can be forged")
    socket = source.removeprefix("unix:") if source != "loopback" else None
    return TrustedProxy(header.lower(), *read_roles(roles), socket)


def read_roles(path: str | Path) -> tuple[Mapping[str, Viewer], Viewer | None]:
    """Read a TOML file of roles: a table ``[roles]`` of names, and ``default`` for all others."""
    source, keys = str(path), ("roles", "default")
    try:
        parsed = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"this is not TOML: {error}", source=source) from None
    for key in parsed:
        if key not in keys:
            raise FormatError(f"there is no such key{suggestion(key, keys)}", source=source, field=key)
    people, default = parsed.get("roles", {}), parsed.get("default")
    if not isinstance(people, dict):
        problem = 'give a table: [roles], then a line "NAME" = "viewer" for each person'
        raise FormatError(problem, source=source, field="roles")
    named = {f"roles.{name}": role for name, role in people.items()}
    for key, role in (named if default is None else {**named, "default": default}).items():
        if role not in RANKS:
            raise FormatError(f"give viewer, analyst or admin, not {role!r:.60}", source=source, field=key)
    return people, default


LINK_SECONDS: Final = 600.0
SESSION_SECONDS: Final = 12 * 3600.0
MOST_SESSIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """Who is logged in."""

    viewer: Viewer
    token: bytes | None = None  # SHA-256 of the store's token that began it; None: a one-time link did


class Sessions:
    """Links and sessions, until they end; nothing of them is written anywhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._links: dict[bytes, tuple[Session, float]] = {}
        self._sessions: dict[bytes, tuple[Session, float]] = {}

    def make_link(self, viewer: Viewer) -> str:
        token = secrets.token_urlsafe(32)
        self._links[sha256(token)] = (Session(viewer), self._clock() + LINK_SECONDS)
        return token

    def use_link(self, token: str) -> Session | None:
        session, ends = self._links.pop(sha256(token), (None, 0.0))
        return session if self._clock() < ends else None

    def begin(self, session: Session) -> str:
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[sha256(name)] = (session, self._clock() + SESSION_SECONDS)
        return name

    def find(self, name: str) -> Session | None:
        key = sha256(name)
        session, ends = self._sessions.get(key, (None, 0.0))
        if self._clock() < ends:
            return session
        self._sessions.pop(key, None)
        return None

    def end(self, name: str) -> None:
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
        return (f"__Host-overstory-{self.port}", *((f"overstory-{self.port}",) if self.plain else ()))

    def read(self, request: Request) -> str:
        return next((request.cookies[name] for name in self.names if name in request.cookies), "")

    def set(self, answer: Response, session_id: str) -> Response:
        """Return an answer that sets a session's cookies; an empty id deletes them."""
        age = int(SESSION_SECONDS) if session_id else 0
        for name in self.names:
            answer.set_cookie(name, session_id, age, secure=name.startswith("__Host-"), httponly=True, samesite="lax")
        return answer


@dataclass(frozen=True, slots=True)
class Gate:
    """Decides about a request before any screen sees it; each error is a `ScreenError` with its status."""

    names: frozenset[str]  # that the console answers to
    sessions: Sessions
    cookie: Cookie
    tokens: TokenRoles
    proxy: TrustedProxy | None = None

    def check(self, request: Request) -> None:
        """Refuse a request for another host, a forged header, and a change that no page of the console asked for."""
        if len(request.headers.getlist("host")) != 1 or _name(request.headers["host"]) not in self.names:
            raise ScreenError(421, "this console has another name: open it by the address that it printed")
        self._proxied(request)
        has_bearer = bool(_bearer(request))
        if request.method not in SAFE_METHODS and not may_change(request.headers, has_bearer=has_bearer):
            raise ScreenError(
                403, "this form was sent from another site: open the page in the console and send it there"
            )

    def viewer(self, request: Request) -> Viewer | None:
        """Return who sent a request, None for anybody. Blocks while the store's tokens are read."""
        bearer = _bearer(request)
        if bearer:
            return self.tokens.role_of(sha256(bearer))
        session = self.sessions.find(self.cookie.read(request))
        if session is None:
            return self._proxied(request)
        return session.viewer if session.token is None else self.tokens.role_of(session.token)

    def admit(self, request: Request, needed: Viewer | None) -> Viewer | None:
        """Return who sent a request; ScreenError 401 for somebody who must log in, 403 where the role is not enough."""
        viewer = self.viewer(request)
        if needed is None or (viewer is not None and allows(viewer, needed)):
            return viewer
        if viewer is None:
            raise ScreenError(401, "log in to see this page")
        raise ScreenError(403, f"this needs the role {needed}; yours is {viewer}")

    def log_in(self, token: str) -> str | None:
        """Return the id of a new session for a link's token or a token of the store; None: neither. Blocks."""
        session = self.sessions.use_link(token)
        if session is None:
            key = sha256(token)
            viewer = self.tokens.role_of(key)
            session = None if viewer is None else Session(viewer, key)
        return None if session is None else self.sessions.begin(session)

    def _proxied(self, request: Request) -> Viewer | None:
        if self.proxy is None:
            return None
        server = request.scope.get("server")
        client = request.client.host if request.client else None
        names = request.headers.getlist(self.proxy.header)
        return self.proxy.role(names, client, None if server is None else str(server[0]))


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True, slots=True)
class Access:
    """How people reach the console."""

    names: Sequence[str] = ()  # host names that a proxy passes on
    behind_proxy: bool = False  # a proxy in front speaks TLS
    proxy: TrustedProxy | None = None  # says who somebody is


def check_exposure(listening: Listening, access: Access) -> None:
    """Raise `ParameterError` where sessions would cross a network unencrypted."""
    if listening.exposed and not access.behind_proxy:
        raise ParameterError(
            f"--host {listening.host} can be reached from other machines, and there is no TLS: set tls_certificate "
            "and tls_key, or behind_proxy = true if a proxy in front speaks TLS"
        )


def make_gate(data: ConsoleData, listening: Listening, access: Access, port: int) -> Gate:
    """Return the gate of a console that listens on `port`."""
    cookie = Cookie(port, plain=listening.certificate is None and not access.behind_proxy)
    names = names_of(listening.host, access.names)
    return Gate(names, Sessions(), cookie, TokenRoles(data.store.tokens), access.proxy)
