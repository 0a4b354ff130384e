"""The memo: which permanent responses this device has reported, identified by a keyed hash, and never a value.

A *value* here is a permanent response: values that share one (a hash, in LOLOHA) count once. The tag of a value is a
keyed hash under the device's secret, so the table says nothing to somebody who has it without the secret.

Each permanent response that is reported costs its own epsilon, so a metric may cap them. Past the cap a value is
replaced by the first one reported, or, on an ordered domain, by the nearest one reported, or it is dropped: then
*nothing* is reported, by one permanent response more. What is outside the domain is reported as nothing too, which
otherwise takes one of the cap's places. So whether there is a report says nothing of the value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from overstory.client.outcomes import Fault, StateError

if TYPE_CHECKING:
    import sqlite3

    from overstory.privacy.terms import Terms
    from overstory.protocol.mechanisms.base import LocalRandomizer

TAG_BYTES: Final = 16
NEAREST_STEPS: Final = 4096
"""How far to look for the nearest value reported; past that, a value beyond the cap is reported as the first one."""


ALL_VALUES: Final = bytes(TAG_BYTES)
"""The tag of the one row of a metric whose noise is all fresh: it has no permanent responses, only reports."""

NOTHING: Final = b"nothing".ljust(TAG_BYTES, b"\0")
"""The tag of the permanent response to no value, whatever the secret: no value's keyed hash is this."""


LEGACY: Final = b"legacy "
"""With its number, the tag of a response that shared its noise: the ledger has it, and no value leads to it."""


@dataclass(frozen=True)
class Response:
    """A permanent response that was reported.

    Attributes
    ----------
    metric, mechanism
        Whose it is: the id, and the mechanism's digest.
    permanent
        The permanent response; None where all noise is fresh, and nothing is kept, and where it was erased.
    """

    metric: str
    mechanism: bytes
    number: int  # in order of first report, from 0
    permanent: int | None = field(repr=False)
    reports: int  # how often it was queued for sending: what the ledger charges
    kept: int  # how often it was recorded under the choice `local`: never sent
    tag: bytes = field(repr=False, default=b"")

    @property
    def erased(self) -> bool:
        """Whether its metric is over: then neither the permanent response nor its tag is stored."""
        return self.permanent is None and self.tag != ALL_VALUES

    @property
    def shared(self) -> bool:
        """Whether it shared its noise with another metric's, and is never reported again; the cap does not count it."""
        return len(self.tag) < TAG_BYTES and self.tag.startswith(LEGACY)


class Memo:
    """The table, within one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def responses(self, metric: str | None = None) -> list[Response]:
        """Return all that was reported, in order of first report."""
        rows = self._connection.execute(
            "SELECT metric, mechanism, number, permanent, reports, kept, tag FROM responses"
            " WHERE ?1 IS NULL OR metric = ?1 ORDER BY metric, mechanism, number",
            (metric,),
        )
        return [
            Response(
                metric,
                mechanism,
                number,
                int.from_bytes(permanent, "little") if permanent else None,
                reports,
                local,
                tag,
            )
            for metric, mechanism, number, permanent, reports, local, tag in rows
        ]

    def distinct(self, metric: str, *, spare: bool = False) -> int:
        """Return how many permanent responses the cap counts, over all mechanisms.

        Those that shared their noise are not among them.

        Parameters
        ----------
        spare
            Whether nothing has a place of its own: `Metric.nothing_is_spare`.
        """
        query = (
            "SELECT count(*) FROM responses WHERE metric = ?1 AND NOT (?2 AND tag = ?3)"
            " AND NOT (length(tag) < ?4 AND substr(tag, 1, ?5) = ?6)"
        )
        values = (metric, spare, NOTHING, TAG_BYTES, len(LEGACY), LEGACY)
        count: int = self._connection.execute(query, values).fetchone()[0]
        return count

    def charge(
        self,
        metric: str,
        mechanism: bytes,
        tag: bytes,
        permanent: bytes,
        *,
        most: int | None,
        kept: bool,
        spare: bool = False,
    ) -> int | None:
        """Count a report of a permanent response; return its number, or None when it is one too many.

        Parameters
        ----------
        metric, mechanism, tag, permanent
            Whose response it is, its tag, and its bytes.
        """
        key = (metric, mechanism, tag)
        row = self._connection.execute(
            "SELECT number, permanent FROM responses WHERE metric = ? AND mechanism = ? AND tag = ?", key
        ).fetchone()
        if row is None:
            place = not (spare and tag == NOTHING)
            if place and most is not None and self.distinct(metric, spare=spare) >= most:
                return None
            row = (self._next_number(metric, mechanism), permanent)
            self._connection.execute(
                "INSERT INTO responses VALUES (?, ?, ?, ?, ?, 0, 0)", (*key[:2], row[0], tag, permanent)
            )
        elif row[1] != permanent:
            raise changed_response(metric)
        column = "kept" if kept else "reports"
        self._connection.execute(
            f"UPDATE responses SET {column} = {column} + 1 WHERE metric = ? AND mechanism = ? AND tag = ?",  # noqa: S608 - own words
            key,
        )
        return int(row[0])

    def keep_terms(self, mechanism: LocalRandomizer) -> None:
        """Keep what a mechanism's privacy rests on: the ledger outlives the registry."""
        row = self._connection.execute("SELECT 1 FROM terms WHERE mechanism = ?", (mechanism.digest,)).fetchone()
        if row is None:
            from overstory.privacy.payloads.registry import terms_of
            from overstory.protocol.mechanisms.base import canonical

            text = canonical(terms_of(mechanism).canonical())
            self._connection.execute("INSERT INTO terms VALUES (?, ?)", (mechanism.digest, text))

    def terms(self, mechanism: bytes) -> Terms | None:
        """Return the terms of the mechanism with this digest; None where an earlier version stored none."""
        import json

        from overstory.privacy.payloads.registry import terms_from_json

        row = self._connection.execute("SELECT terms FROM terms WHERE mechanism = ?", (mechanism,)).fetchone()
        return None if row is None else terms_from_json(json.loads(row[0]))

    def _next_number(self, metric: str, mechanism: bytes) -> int:
        query = "SELECT coalesce(max(number) + 1, 0) FROM responses WHERE metric = ? AND mechanism = ?"
        number: int = self._connection.execute(query, (metric, mechanism)).fetchone()[0]
        return number


def changed_response(metric: str) -> StateError:
    """Return the error for a permanent response that is not what it was."""
    return StateError(
        Fault.ALTERED, f"{metric}: a permanent response differs from the one reported before; it is reported as nothing"
    )
