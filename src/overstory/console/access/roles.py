"""What a person may do: by a token of the store, or by the name that a trusted proxy passes on."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args

from overstory.collector.auth import Token
from overstory.collector.http.listening import is_loopback
from overstory.console.view import Viewer
from overstory.protocol.errors import FormatError, ParameterError, suggestion

RANKS: Final[tuple[Viewer, ...]] = get_args(Viewer)
"""Each may do what those before it may."""

REREAD_SECONDS: Final = 1.0


def allows(role: Viewer, needed: Viewer) -> bool:
    """Whether somebody with this role may do what `needed` may.

    Examples
    --------
    >>> allows("admin", "viewer"), allows("viewer", "analyst")
    (True, False)
    """
    return RANKS.index(role) >= RANKS.index(needed)


class TokenRoles:
    """The roles of the store's tokens, at most a second old.

    Parameters
    ----------
    read
        Reads the tokens from the store.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Token]],
        *,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._clock, self._timer = read, clock, timer
        self._tokens: dict[bytes, Token] = {}
        self._read_at = -float("inf")

    def role_of(self, sha256: bytes) -> Viewer | None:
        """Return the role of the token with this hash; None: unknown, expired, revoked, or of no person.

        Blocks while the store is read; an error of the store is passed on, so that nobody is let in without it.
        """
        if self._timer() - self._read_at > REREAD_SECONDS:
            began = self._timer()
            self._tokens = {token.sha256: token for token in self._read()}
            self._read_at = began
        token = self._tokens.get(sha256)
        if token is None or not token.usable(self._clock()):
            return None
        return next((role for role in RANKS if role == token.role), None)


@dataclass(frozen=True, slots=True)
class RoleMap:
    """People's roles by the names that a proxy passes on; `default` for all others, None: they may not log in."""

    people: Mapping[str, Viewer] = field(default_factory=dict)
    default: Viewer | None = None

    def role_of(self, person: str) -> Viewer | None:
        """Return a person's role."""
        return self.people.get(person, self.default)


def read_roles(path: str | Path) -> RoleMap:
    """Read a TOML file of roles: a table ``[roles]`` of names, and ``default``.

    Raises
    ------
    FormatError
        When it is not such a file.
    """
    source = str(path)
    try:
        parsed = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"this is not TOML: {error}", source=source) from None
    unknown = sorted(parsed.keys() - {"roles", "default"})
    if unknown:
        raise FormatError(
            f"there is no such key{suggestion(unknown[0], ('roles', 'default'))}", source=source, field=unknown[0]
        )
    people = parsed.get("roles", {})
    if not isinstance(people, dict):
        raise FormatError(
            'give a table: [roles], then a line "NAME" = "viewer" for each person', source=source, field="roles"
        )
    default = parsed.get("default")
    return RoleMap(
        {name: _role(role, source, f"roles.{name}") for name, role in people.items()},
        None if default is None else _role(default, source, "default"),
    )


def _role(value: object, source: str, key: str) -> Viewer:
    for role in RANKS:
        if role == value:
            return role
    raise FormatError(f"give viewer, analyst or admin, not {value!r:.60}", source=source, field=key)


class UntrustedHeaderError(ParameterError):
    """The proxy's header on a connection that is not the proxy's."""


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy that has checked who somebody is, and says so in a header.

    Attributes
    ----------
    header
        The header's name, in small letters.
    socket
        The path of the Unix socket that only the proxy can open; None: every connection from this machine is trusted.
    """

    header: str
    roles: RoleMap
    socket: str | None = None

    def role(self, values: list[str], client: str | None, server: str | None) -> Viewer | None:
        """Return the role of the person whom the header names; None without the header, or for an unknown person.

        Parameters
        ----------
        values
            All values of the header.
        client, server
            The address that the request comes from, and the address or the socket that it came to.

        Raises
        ------
        UntrustedHeaderError
            When the header came on another connection, or twice: somebody may have forged it.
        """
        if not values:
            return None
        trusted = server == self.socket if self.socket else client is not None and is_loopback(client)
        if not trusted:
            raise UntrustedHeaderError(f"{self.header} is accepted from the trusted proxy only; leave it out")
        if len(values) > 1:
            raise UntrustedHeaderError(f"{self.header} was sent {len(values)} times; the proxy must replace it")
        return self.roles.role_of(values[0])


def parse_proxy(header: str | None, source: str | None, roles: str | Path | None) -> TrustedProxy | None:
    """Return what ``--trust-header``, ``--from`` and ``--roles`` mean together; None when none of them is given."""
    if header is None:
        if source is not None or roles is not None:
            raise ParameterError("--from and --roles belong to --trust-header: name the header, or leave them out")
        return None
    if source is None or roles is None:
        raise ParameterError("--trust-header needs --from (unix:/PATH or loopback) and --roles FILE")
    if source != "loopback" and not (source.startswith("unix:/") and len(source) > len("unix:/")):
        raise ParameterError(f"--from {source}: give unix:/PATH or loopback; a header from elsewhere can be forged")
    return TrustedProxy(
        header.lower(), read_roles(roles), source.removeprefix("unix:") if source != "loopback" else None
    )
