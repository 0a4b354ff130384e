"""Bearer tokens: shown once, stored as a SHA-256, revoked by their id."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from sqlalchemy import Connection, Row, select, update

from overstory.collector.store.database import Database
from overstory.collector.store.schema import ABOUT, TOKENS
from overstory.protocol.errors import ParameterError

Role = Literal["write", "admin"]

PREFIX: Final[Mapping[str, str]] = MappingProxyType({"write": "ovw_", "admin": "ova_"})
"""What a token starts with: to be recognised in a file where it should not be."""


USED: Final = "token used: "
"""Before a token's id: the key, among the facts about the store, of the last day on which it was used."""


@dataclass(frozen=True)
class Token:
    """What is stored of a token: never the token.

    Attributes
    ----------
    id
        Its name in lists, for revoking it.
    sha256
        Its SHA-256, 32 bytes. A token has 256 random bits: no salt and no slow hash is needed.
    role
        ``write`` for programs that report, ``admin`` for those that read counts.
    application
        The id of the application that uses it.
    created
        The first second of the day it was made, in unix time.
    expires, revoked
        From when on it is refused, in unix time; None: never.
    used
        The last day, counted from 1970, on which it was used: no time, and not how often. None: never, as far as is
        known.
    """

    id: str
    sha256: bytes
    role: str
    application: str
    created: int
    expires: int | None
    revoked: int | None
    used: int | None = None

    def usable(self, now: float) -> bool:
        """Whether it is neither expired nor revoked."""
        return all(end is None or now < end for end in (self.expires, self.revoked))

    @classmethod
    def from_row(cls, row: Row[Any], used: int | None = None) -> Token:
        """Read a row."""
        return cls(row.id, bytes(row.sha256), row.role, row.application, row.created, row.expires, row.revoked, used)


def sha256(token: str) -> bytes:
    """Return what is stored of a token.

    Examples
    --------
    >>> sha256("ovw_example").hex()[:8]
    '10c32d34'
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def add_token(database: Database, role: Role, application: str, expires: int | None) -> str:
    """Make a token; see `Store.add_token`."""
    from overstory.protocol.metrics.metric import DAY

    if role not in get_args(Role):
        raise ParameterError(f"a token's role is write or admin, not {role!r}")
    if not application.strip() or not application.isprintable():
        raise ParameterError("a token needs the name of the application that it is for")
    token = PREFIX[role] + secrets.token_urlsafe(32)
    row = {
        "id": secrets.token_hex(4),
        "sha256": sha256(token),
        "role": role,
        "application": application,
        "created": int(time.time() // DAY) * DAY,
        "expires": expires,
        "revoked": None,
    }
    database.write(lambda connection: connection.execute(TOKENS.insert(), [row]))
    return token


def read_tokens(database: Database) -> list[Token]:
    """Return all tokens, the oldest first."""
    with database.snapshot() as connection:
        days = select(ABOUT.c.key, ABOUT.c.value).where(ABOUT.c.key.startswith(USED))
        used = {row.key.removeprefix(USED): int(row.value) for row in connection.execute(days)}
        rows = connection.execute(select(TOKENS).order_by(TOKENS.c.created, TOKENS.c.application, TOKENS.c.id))
        return [Token.from_row(row, used.get(row.id)) for row in rows]


def note_token_days(database: Database, days: Mapping[str, int]) -> None:
    """Keep the last day on which each token was used; see `Store.note_token_days`."""

    def note(connection: Connection) -> None:
        database.alone(connection)  # of two collectors, only one may make the row
        for token, day in sorted(days.items()):
            here = ABOUT.c.key == USED + token
            last = connection.execute(select(ABOUT.c.value).where(here)).scalar()
            if last is None:
                connection.execute(ABOUT.insert(), [{"key": USED + token, "value": str(day)}])
            elif int(last) < day:
                connection.execute(update(ABOUT).where(here).values(value=str(day)))

    database.write(note)


def find_token(database: Database, digest: bytes) -> Token | None:
    """Return the token of that SHA-256."""
    with database.snapshot() as connection:
        row = connection.execute(select(TOKENS).where(TOKENS.c.sha256 == digest)).first()
    return None if row is None else Token.from_row(row)


def revoke_token(database: Database, token_id: str) -> None:
    """Refuse a token from now on; see `Store.revoke_token`."""
    here = TOKENS.c.id == token_id
    revoked = {"revoked": int(time.time())}
    not_yet = update(TOKENS).where(here, TOKENS.c.revoked.is_(None)).values(revoked)
    if token_id.isascii() and database.write(lambda connection: connection.execute(not_yet).rowcount):
        return
    if all(token.id != token_id for token in read_tokens(database)):
        raise ParameterError(f"there is no token {token_id}: overstory store tokens list shows the ids")
