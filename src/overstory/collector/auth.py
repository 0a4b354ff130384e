"""Who may write and who may read: a table of token hashes, replaced as a whole every few seconds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from overstory.protocol.metrics.metric import DAY
from overstory.protocol.wire.reasons import Reason

WRITE: Final = "write"
ADMIN: Final = "admin"

_BEARER: Final = re.compile(rb"(?i:bearer) +([A-Za-z0-9._~+/-]+=*) *")


class StoredToken(Protocol):
    """What a store keeps of a token: never the token itself."""

    @property
    def id(self) -> str:
        """Its name in lists."""
        ...

    @property
    def sha256(self) -> bytes:
        """Its SHA-256."""
        ...

    @property
    def role(self) -> str:
        """`write` or `admin`."""
        ...

    @property
    def expires(self) -> int | None:
        """The unix time from which it is refused."""
        ...

    @property
    def revoked(self) -> int | None:
        """When it was revoked."""
        ...

    @property
    def used(self) -> int | None:
        """The last day, counted from 1970, on which it was used, as far as is known."""
        ...


@dataclass(frozen=True, slots=True)
class _Grant:
    id: str
    role: str
    expires: float


class TokenTable:
    """Decides by the Authorization header alone.

    Looking a hash up in a table says nothing, by the time it takes, about the tokens in it.

    Parameters
    ----------
    read
        Reads the tokens from the store; `refresh` calls it.

    Examples
    --------
    >>> tokens = TokenTable(lambda: [], open_writes=False)
    >>> tokens.refuse(b"Bearer guess", "write", now=0.0)
    <Reason.UNKNOWN_TOKEN: 'unknown-token'>
    """

    def __init__(self, read: Callable[[], Iterable[StoredToken]], *, open_writes: bool = False) -> None:
        self._read, self.open_writes = read, open_writes
        self._grants: dict[bytes, _Grant] = {}
        self._days: dict[str, int] = {}  # by a token's id: the last day of use that the store has, or is to get
        self._noted: dict[str, int] = {}

    def refresh(self) -> None:
        """Read the tokens again: those revoked since stop working, new ones start. Blocks while the store answers."""
        tokens = [token for token in self._read() if token.revoked is None]
        for token in tokens:
            if token.used is not None:
                self._noted[token.id] = max(token.used, self._noted.get(token.id, token.used))
        self._grants = {
            token.sha256: _Grant(token.id, token.role, float("inf") if token.expires is None else token.expires)
            for token in tokens
        }

    def used(self) -> dict[str, int]:
        """Return the last day of use of each token, by its id, where it is later than what is noted of it."""
        return {token: day for token, day in list(self._days.items()) if day > self._noted.get(token, -1)}

    def noted(self, days: Mapping[str, int]) -> None:
        """Take these days for noted: no other is given out before a later day has begun."""
        self._noted.update(days)

    def refuse(self, authorization: bytes, role: str, now: float) -> Reason | None:
        """Say why a request with this Authorization header may not do what `role` may, or None.

        A token of another role is as unknown as any: an admin's does not belong on devices.
        """
        if self.open_writes and role == WRITE:
            return None
        if not authorization:
            return Reason.NO_TOKEN
        bearer = _BEARER.fullmatch(authorization)
        grant = self._grants.get(hashlib.sha256(bearer[1]).digest()) if bearer else None
        if grant is None or grant.role != role or now >= grant.expires:
            return Reason.UNKNOWN_TOKEN
        self._days[grant.id] = int(now // DAY)  # a day, not a time, and not how often
        return None
