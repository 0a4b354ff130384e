"""Spends: what a device did that cost its person privacy.

This page is a constitution. A ledger is read years after it was written, so:

- an event is never removed, and its name and meaning never change; what it lacks becomes a new event;
- a spend says what was done, in whole numbers; what it costs is computed from them, and no sum of roundings is kept;
- a spend never says a value: values are told apart by numbers that the device gives out, in any order;
- a *value* here is a permanent response: two values that share one (`overstory.privacy.memo`) are one value;
- what is not known is charged at its worst: a spend may lose knowledge, never epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from overstory.privacy.kinds import terms_from_json, terms_of
from overstory.privacy.terms import Terms
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.mechanisms.mechanism import Mechanism
from overstory.protocol.numeric.registry import NumericMechanism


class Event(StrEnum):
    """What can be spent on; `reports` is the spend's.

    Attributes
    ----------
    VALUE
        So many reports of the value with this number.
    NEW_VALUE
        So many reports of a value never reported before, nor ever to be numbered.
    KNOWN_VALUES
        So many reports of values reported before, nobody remembers which.
    ANY_VALUES
        So many reports of whatever values, new or known: a window of a mechanism whose noise is all fresh, or reports
        of which nothing is remembered.
    """

    VALUE = "value"
    NEW_VALUE = "new-value"
    KNOWN_VALUES = "known-values"
    ANY_VALUES = "any-values"


@dataclass(frozen=True)
class Spend:
    """One event, as data.

    Parameters
    ----------
    metric
        The metric that was reported for.
    mechanism
        Its mechanism's digest, in hexadecimal: other parameters have other permanent responses.
    terms
        What the mechanism's privacy depends on.
    event, reports
        What was done, and how many reports that was.
    number
        The value's number, for `Event.VALUE` alone.

    Raises
    ------
    ParameterError
        When there is no report, or a number where none belongs, or none where one does.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> basic = mechanism("basic-rappor", domain_size=4)
    >>> Spend.of("colour", basic, Event.VALUE, number=0).event
    <Event.VALUE: 'value'>
    """

    metric: str
    mechanism: str
    terms: Terms
    event: Event
    reports: int = 1
    number: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.metric, str) or not isinstance(self.mechanism, str):
            raise ParameterError(f"metric = {self.metric!r}, mechanism = {self.mechanism!r}: give two texts")
        check_whole("reports", self.reports, 1)
        if (self.event is Event.VALUE) != (self.number is not None):
            raise ParameterError(f"number = {self.number!r}: the event {Event.VALUE} has one, and no other has")
        if self.number is not None:
            check_whole("number", self.number, 0)

    @classmethod
    def of(
        cls,
        metric: str,
        mechanism: Mechanism | NumericMechanism,
        event: Event,
        *,
        reports: int = 1,
        number: int | None = None,
    ) -> Spend:
        """Return the spend of a mechanism's reports."""
        return cls(metric, mechanism.digest.hex(), terms_of(mechanism), event, reports, number)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        about = {"metric": self.metric, "mechanism": self.mechanism, "terms": self.terms.canonical()}
        numbered = {} if self.number is None else {"number": self.number}
        return {**about, "event": str(self.event), "reports": self.reports, **numbered}

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Spend:
        """Return the spend that `to_json` wrote.

        Raises
        ------
        FormatError
            When it is none.
        """
        try:
            fields = dict(read)
            terms, event = terms_from_json(fields.pop("terms")), Event(fields.pop("event"))
            return cls(terms=terms, event=event, **fields)
        except FormatError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"this is no spend: {error}", field="spend") from error


def check_whole(name: str, number: Any, least: int) -> int:
    """Return `number`, or raise ParameterError unless it is a whole number from `least` up."""
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ParameterError(f"{name} = {number!r}: give a whole number, at least {least}")
    return number
