"""Accounts and spends: what a device did that cost its person privacy, in whole numbers.

An account is what one device has reported for one metric by one mechanism; a spend is one event that adds to it.

This page is a constitution. A ledger is read years after it was written, so:

- an event is never removed, and its name and meaning never change; what it lacks becomes a new event;
- a spend says what was done, in whole numbers; what it costs is computed from them, and no sum of roundings is kept;
- a spend never says a value: values are told apart by numbers that the device gives out, in any order;
- a *value* here is a permanent response: two values that share one (`overstory.privacy.memo`) are one value;
- what is not known is charged at its worst: a spend may lose knowledge, never epsilon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from overstory.privacy.approximate import epsilon_at
from overstory.privacy.histories.pairs import MOST_CHANGE_REPORTS
from overstory.privacy.payloads.registry import terms_from_json, terms_of
from overstory.privacy.terms import Terms
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer


class Event(StrEnum):
    """What can be spent on; `reports` is the spend's.

    Attributes
    ----------
    VALUE
        So many reports of the value with this number.
    NEW_VALUE
        So many reports of a value never reported before, nor ever to be numbered.
    KNOWN_VALUES
        So many reports of values reported before; which ones is not recorded.
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
        mechanism: LocalRandomizer,
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


Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Account:
    """Reports by value, and those of which less is known.

    Attributes
    ----------
    metric, mechanism, terms
        The metric and the mechanism; see `Spend`.
    known, unknown
        Reports of values that are among the above; reports of which nothing is known.
    """

    metric: str
    mechanism: str
    terms: Terms
    numbered: Pairs = ()  # (number of a value, its reports), in order
    unnumbered: Pairs = ()  # (reports of a value, how many such values there are), in order
    known: int = 0
    unknown: int = 0

    def __post_init__(self) -> None:
        if self.known and not (self.numbered or self.unnumbered or self.unknown):
            raise ParameterError(f"{self.metric}: reports of known values, but no value was reported before")

    def after(self, spend: Spend, times: int = 1) -> Account:
        """Return the account with `spend` added `times` times."""
        reports = spend.reports * check_whole("times", times, 1)
        if spend.event is Event.VALUE:
            return replace(self, numbered=_added(self.numbered, spend.number or 0, reports))
        if spend.event is Event.NEW_VALUE:
            return replace(self, unnumbered=_added(self.unnumbered, spend.reports, times))
        if spend.event is Event.KNOWN_VALUES:
            return replace(self, known=self.known + reports)
        return replace(self, unknown=self.unknown + reports)

    @property
    def reports(self) -> int:
        """All reports."""
        return sum(n * values for n, values in self._by_reports().items()) + self.known + self.unknown

    @property
    def epsilon(self) -> float:
        """Epsilon of the account, rounded up.

        Where all noise is fresh: reports times that of one, against any other history. Otherwise that of their
        permanent responses, against histories with the same pattern of those; see `Terms.epsilon_history`. Reports of
        nobody knows which known value are counted for every value, and unknown ones moreover as values of their own.
        """
        if self.terms.fresh:
            return self.terms.epsilon_any(self.reports)
        return self.terms.epsilon_history(self._by_reports(), self.known, self.unknown)

    @property
    def epsilon_any(self) -> float:
        """Epsilon between any two histories of as many reports, changing or not, rounded up."""
        return self.terms.epsilon_any(self.reports) if self.reports else 0.0

    def epsilon_at(self, delta: float) -> float:
        """The same but for a chance of `delta`, rounded up: less where all noise is fresh."""
        return epsilon_at(self.terms, self.reports, delta) if self.reports else 0.0

    @property
    def change_leak(self) -> float:
        """Epsilon of one change of value, or to nothing or from it, among all reports, rounded up.

        Past a thousand reports, that of any two histories.
        """
        reports = self.reports
        if reports < 2:
            return 0.0
        if reports <= MOST_CHANGE_REPORTS:
            return self.terms.change_leak(reports)
        return self.terms.epsilon_any(reports - 1 if self.terms.fresh else reports)

    def epsilon_window(self, reports: int) -> float:
        """Epsilon of any `reports` consecutive reports, rounded up: less than the whole where all noise is fresh."""
        whole = self.epsilon
        return min(whole, self.terms.epsilon_any(min(reports, self.reports))) if self.terms.fresh else whole

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "metric": self.metric,
            "mechanism": self.mechanism,
            "terms": self.terms.canonical(),
            "numbered": list(map(list, self.numbered)),
            "unnumbered": list(map(list, self.unnumbered)),
            "known": self.known,
            "unknown": self.unknown,
        }

    def _by_reports(self) -> Counter[int]:
        """How many values have so many reports."""
        values_by_reports = Counter(reports for _, reports in self.numbered)
        for reports, values in self.unnumbered:
            values_by_reports[reports] += values
        return values_by_reports


def account_from_json(read: Mapping[str, Any]) -> Account:
    """Return the account that `Account.to_json` wrote.

    Every count goes through a spend, so what no device could have done is refused.
    """
    try:
        about = read["metric"], read["mechanism"], terms_from_json(read["terms"])
        account = Account(*about)
        for spend, times in _spends(read, about):
            account = account.after(spend, times)
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"this is no account: {error}", field="accounts") from error
    return account


def _spends(read: Mapping[str, Any], about: tuple[str, str, Terms]) -> Iterator[tuple[Spend, int]]:
    """Return the spends that lead to an account, and how often each; values before what refers to them."""
    for number, reports in read["numbered"]:
        yield Spend(*about, Event.VALUE, reports, number), 1
    for reports, values in read["unnumbered"]:
        yield Spend(*about, Event.NEW_VALUE, reports), values
    if read["unknown"]:
        yield Spend(*about, Event.ANY_VALUES, read["unknown"]), 1
    if read["known"]:
        yield Spend(*about, Event.KNOWN_VALUES, read["known"]), 1


def _added(pairs: Pairs, key: int, amount: int) -> Pairs:
    amounts = dict(pairs)
    amounts[key] = amounts.get(key, 0) + amount
    return tuple(sorted(amounts.items()))
