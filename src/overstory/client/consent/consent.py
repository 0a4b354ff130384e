"""The person's choice: on, local or off; made on a day, for the metrics of a registry as they were then.

`on` records and sends. `local` records, so that a person can see what would be sent, and never sends it, also not after
a later `on`. `off` records nothing. Nobody asked is like `off`, and says so.

A choice covers what was shown: every metric with its words, its privacy, how long its reports are kept and until when
it is collected; the collector that reports go to; the budget. Where one of these is another, or allows more, the
program asks again. A choice that names no collector is for the first one that reports could go to after it.

An `Agreement` is what a person agreed to about one metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from overstory.client.outcomes import ConsentError
from overstory.client.state.paths import StatePaths

if TYPE_CHECKING:
    from overstory.client.state.state import Rows
    from overstory.protocol.metrics import Metric, PersonBudget
    from overstory.protocol.metrics.oblivious import ObliviousRoute


WORDS: Final = ("title", "description", "owner", "purpose", "attribute")
"""The texts of a metric that a person reads before choosing; another text is another question."""


@dataclass(frozen=True)
class Agreement:
    """One metric as it was shown.

    The texts are stored as they were shown, so that a later question can list what has changed.

    Attributes
    ----------
    title, description, owner, purpose, attribute
        The metric's texts.
    retention_days, grace_days
        How long reports are stored, and how late they are accepted.
    relay
        The relay that its reports go through, and who runs it; None where they go to the collector directly.
    """

    digest: str  # of all that a report's meaning or privacy depends on, in hexadecimal
    title: str = ""
    description: str = ""
    owner: str = ""
    purpose: str = ""
    attribute: str | None = None
    retention_days: int = 0
    grace_days: int = 0
    expires: str = ""  # the first day without a report, ISO 8601
    relay: str | None = None

    @classmethod
    def to(cls, metric: Metric, route: ObliviousRoute | None = None) -> Self:
        """Return the agreement to a metric as it is, whose reports go through a relay where it is oblivious."""
        return cls(
            digest=metric.digest.hex(),
            title=metric.title,
            description=metric.description,
            owner=metric.owner,
            purpose=metric.purpose,
            attribute=metric.attribute,
            retention_days=metric.retention_days,
            grace_days=metric.grace_days,
            expires=metric.expires.isoformat(),
            relay=route.described if metric.is_oblivious and route is not None else None,
        )

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        values: dict[str, Any] = {"relay": read.get("relay")}
        values |= {field.name: read[field.name] for field in fields(cls) if field.name not in values}
        days = [values[name] for name in ("retention_days", "grace_days")]
        texts = [value for name, value in values.items() if not name.endswith("_days") and value is not None]
        if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in days):
            raise TypeError("not what an agreement holds")
        date.fromisoformat(values["expires"])
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; `relay` only where there is one, as before there were relays."""
        return {name: value for name, value in asdict(self).items() if name != "relay" or value is not None}

    def changes(self, metric: Metric) -> Iterator[str]:
        """Return what was shown otherwise, or promised less, when the person agreed; nothing where it is covered."""
        if self.digest != metric.digest.hex():
            other = replace(metric, transport="direct" if metric.is_oblivious else "oblivious")
            yield _NOW[metric.transport] if self.digest == other.digest.hex() else _OTHER
        for name in WORDS:
            before = getattr(self, name)
            if before != getattr(metric, name):
                yield f"its {name} was {'not given' if before is None else repr(before)}"
        if metric.retention_days > self.retention_days:
            yield f"reports are to be kept for {metric.retention_days} days, not for {self.retention_days}"
        if metric.grace_days > self.grace_days:
            yield f"late reports are to be taken for {metric.grace_days} days, not for {self.grace_days}"
        if metric.expires.isoformat() > self.expires:
            yield f"it is to end on {metric.expires.isoformat()}, not on {self.expires}"


_OTHER: Final = "what its reports mean, or how private they are, is not what was shown"
_NOW: Final = {
    "direct": "its reports would go to the collector directly, which would see your device's address",
    "oblivious": "its reports would go through a relay, which would see your device's address in the collector's place",
}

VERSION: Final = 2

NEW: Final = "it is new"
EARLIER: Final = "the choice was made with an earlier version, whose page promised more than it held: choose again"


class Choice(StrEnum):
    """What may be done, from least to most."""

    OFF = "off"
    LOCAL = "local"
    ON = "on"

    @property
    def rank(self) -> int:
        """How much is allowed: 0, 1 or 2."""
        return list(Choice).index(self)


@dataclass(frozen=True)
class Consent:
    """A choice, as stored in consent.json.

    Attributes
    ----------
    choice
        What the person chose: off, local or on.
    date
        The day, ISO 8601, UTC.
    registry
        The version of the registry that was shown.
    metrics
        What was shown of each metric, by id.
    consent_id
        Random: choices that differ in it do not vouch for each other's reports.
    server
        The collector that reports may go to, as scheme, host and port; None where none was named.
    budget
        The budget of the registry that was shown; None where it had none.
    earlier
        Whether an earlier version wrote it, which stored only a digest of each metric.
    """

    choice: Choice
    date: str
    registry: str
    metrics: Mapping[str, Agreement]
    consent_id: str
    server: str | None = None
    budget: PersonBudget | None = None
    earlier: bool = False

    def covers(
        self,
        metric: Metric,
        *,
        server: str | None = None,
        budget: PersonBudget | None = None,
        route: ObliviousRoute | None = None,
    ) -> bool:
        """Whether the choice was made about this metric, this collector, this budget and this relay, as they are."""
        return next(self.reasons(metric, server=server, budget=budget, route=route), None) is None

    def reasons(
        self,
        metric: Metric,
        *,
        server: str | None = None,
        budget: PersonBudget | None = None,
        route: ObliviousRoute | None = None,
    ) -> Iterator[str]:
        """Return why the program has to ask about a metric again: nothing where the choice covers it.

        What is recorded under `local` goes nowhere, so collector and budget do not matter to it.

        Parameters
        ----------
        metric
            The metric, as it is.
        server
            Where its reports would go; None where that is not decided here.
        budget
            The registry's budget.
        route
            The registry's relay; None where that is not decided here.
        """
        agreed = self.metrics.get(metric.id)
        sends = self.choice is Choice.ON
        if agreed is None:
            yield NEW
        elif self.earlier:
            if sends or agreed.digest != metric.digest.hex():
                yield EARLIER
        else:
            yield from agreed.changes(metric)
            if sends and server is not None and self.server is not None and server != self.server:
                yield f"reports would go to {server}, not to {self.server}"
            if sends and self.budget is not None and (budget is None or budget.allows_more_than(self.budget)):
                yield "its reports may cost more than the budget that was shown"
            if sends and route is not None and agreed.relay not in {None, route.described} and metric.is_oblivious:
                yield f"its reports would go through the relay {route.described}, not {agreed.relay}"

    def missing(
        self,
        registry: Mapping[str, Metric],
        *,
        server: str | None = None,
        budget: PersonBudget | None = None,
        route: ObliviousRoute | None = None,
    ) -> dict[str, tuple[str, ...]]:
        """Return the metrics that the program has to ask about again, and why: none after `off`, which is about all."""
        if self.choice is Choice.OFF:
            return {}
        terms: dict[str, Any] = {"server": server, "budget": budget, "route": route}
        asked = {name: (*self.reasons(metric, **terms),) for name, metric in registry.items()}
        return {name: reasons for name, reasons in asked.items() if reasons}

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        about = {"choice": str(self.choice), "date": self.date, "registry": self.registry, "server": self.server}
        budget = None if self.budget is None else self.budget.to_json()
        metrics = {name: agreed.to_json() for name, agreed in self.metrics.items()}
        return {"consent": VERSION, **about, "budget": budget, "metrics": metrics, "mark": self.consent_id}


def read_consent(paths: StatePaths) -> Consent | None:
    """Return the person's choice, or None when the person was not asked yet."""
    try:
        content = paths.consent.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConsentError(f"{paths.consent}: {error.strerror}; nothing is recorded until it can be read") from error
    try:
        return _from_json(json.loads(content))
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError, OverflowError) as error:
        raise ConsentError(
            f"{paths.consent}: this is not a choice that was written here; nothing is recorded until one is made again"
        ) from error


def _from_json(read: Any) -> Consent:
    if read["consent"] not in {1, VERSION}:
        raise ValueError("a later version's")
    earlier = read["consent"] == 1
    texts = [read[name] for name in ("date", "registry", "mark")]
    if not all(isinstance(text, str) for text in (*texts, *read["metrics"])):
        raise TypeError("not text")
    date.fromisoformat(read["date"])
    agreed = _agreements_of_version_1 if earlier else _agreements
    consent = Consent(Choice(read["choice"]), texts[0], texts[1], MappingProxyType(agreed(read["metrics"])), texts[2])
    return replace(consent, earlier=True) if earlier else _with_terms(consent, read)


def _agreements(read: Mapping[str, Any]) -> dict[str, Agreement]:
    return {name: Agreement.from_json(agreed) for name, agreed in read.items()}


def _agreements_of_version_1(read: Mapping[str, Any]) -> dict[str, Agreement]:
    if not all(isinstance(digest, str) for digest in read.values()):
        raise TypeError("not text")
    return {name: Agreement(digest) for name, digest in read.items()}


def _with_terms(consent: Consent, read: Mapping[str, Any]) -> Consent:
    from overstory.protocol.metrics.budget import PersonBudget

    server, budget = read["server"], read["budget"]
    if server is not None and not isinstance(server, str):
        raise TypeError("not text")
    return replace(consent, server=server, budget=None if budget is None else PersonBudget.from_json(budget))


def origin(server: str) -> str:
    """Return the scheme, host and port of an address, as a consent names them.

    Examples
    --------
    >>> origin("https://Collector.example:443/eu/"), origin("http://localhost:8080")
    ('https://collector.example', 'http://localhost:8080')
    """
    parts = urlsplit(server)
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if parts.port in {None, usual} else f":{parts.port}")


def pinned(rows: Rows, consent: Consent) -> str | None:
    """Return the collector that reports under a choice may go to: the one it names, or the first one since."""
    if consent.server is not None:
        return consent.server
    consent_id, _, server = str(rows.recall("collector") or "").partition(" ")
    return server if consent_id == consent.consent_id else None


def pin(rows: Rows, consent: Consent, server: str) -> str:
    """Store the first collector that reports under a choice without one could go to; return the stored one."""
    before = pinned(rows, consent)
    if before is None:
        rows.remember("collector", f"{consent.consent_id} {server}")
    return before or server
