"""Bearer tokens: who may write and who may read; one is shown once, stored as a SHA-256, revoked by its id."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

from overstory.collector.settings import DAY
from overstory.protocol.errors import ParameterError
from overstory.protocol.wire.reasons import Reason

Role = Literal["write", "viewer", "analyst", "admin", "relay", "monitor"]

WRITE: Final = "write"
VIEWER: Final = "viewer"
ANALYST: Final = "analyst"
ADMIN: Final = "admin"
RELAY: Final = "relay"
MONITOR: Final = "monitor"

PREFIX: Final[Mapping[str, str]] = MappingProxyType(
    {WRITE: "ovw_", VIEWER: "ovv_", ANALYST: "ovn_", ADMIN: "ova_", RELAY: "ovr_", MONITOR: "ovm_"}
)
"""The first characters of a token, so that it can be recognised in a file where it should not be."""

_BEARER: Final = re.compile(rb"(?i:bearer) +([A-Za-z0-9._~+/-]+=*) *")


@dataclass(frozen=True)
class Token:
    """What is stored of a token; the token itself is not."""

    id: str  # in lists, for revoking it
    sha256: bytes  # a token has 256 random bits: no salt and no slow hash is needed
    role: str
    application: str  # that uses it
    created: int  # the first second of the day on which it was made, in unix time
    expires: int | None  # as `revoked`: the unix time from which it is refused; None: never
    revoked: int | None

    def usable(self, now: float) -> bool:
        return all(end is None or now < end for end in (self.expires, self.revoked))


def sha256(token: str) -> bytes:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def make_token(role: Role, application: str, expires: int | None) -> tuple[str, Token]:
    """Return a new token, and what is stored of it."""
    if role not in get_args(Role):
        raise ParameterError(
            f"a token's role is {', '.join(get_args(Role)[:-1])} or {get_args(Role)[-1]}, not {role!r}"
        )
    if not application.strip() or not application.isprintable():
        raise ParameterError("a token needs the name of the application that it is for")
    plain = PREFIX[role] + secrets.token_urlsafe(32)
    today = int(time.time() // DAY) * DAY
    return plain, Token(secrets.token_hex(4), sha256(plain), role, application, today, expires, revoked=None)


class TokenTable:
    """The store's tokens by their hashes: the time of a look-up by hash reveals nothing about these tokens."""

    def __init__(self, read: Callable[[], Iterable[Token]]) -> None:
        self._read = read
        self._tokens: dict[bytes, Token] = {}

    def refresh(self) -> None:
        """Read the tokens again: revoked ones stop working, new ones start. Blocks until the store answers."""
        self._tokens = {token.sha256: token for token in self._read() if token.revoked is None}

    def find(self, sha256: bytes, now: float) -> Token | None:
        token = self._tokens.get(sha256)
        return token if token is not None and token.usable(now) else None

    def refuse(self, authorization: bytes, role: str, now: float) -> Reason | None:
        """Return why a request may not do what `role` may, or None; a token of another role is unknown."""
        if not authorization:
            return Reason.NO_TOKEN
        bearer = _BEARER.fullmatch(authorization)
        token = self.find(hashlib.sha256(bearer[1]).digest(), now) if bearer else None
        return None if token is not None and token.role == role else Reason.UNKNOWN_TOKEN
