"""The person's choice: on, local or off; made on a day, for the metrics of a registry as they were then.

`on` records and sends. `local` records, so that a person can see what would be sent, and never sends it, also not after
a later `on`. `off` records nothing. Nobody asked is like `off`, and says so.

A choice covers what was shown: every metric with its words, its privacy, how long its reports are kept, until when it
is collected and what of it is published; the collector that reports go to; the budget. Where one of these is another,
or allows more, the program asks again. A choice that names no collector is for the first one that reports could go to
after it.

An `Agreement` is what a person agreed to about one metric.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from overstory.client.outcomes import ConsentError, Fault, StateError
from overstory.client.state.files import (
    StatePaths,
    make_folder,
    overwrite,
    refuse_foreign,
    sync_folder,
    write_atomically,
)
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.client.state.rows import Rows
    from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget
    from overstory.protocol.metrics.tables import ObliviousRoute


WORDS: Final = ("title", "description", "owner", "purpose", "attribute")
"""The texts of a metric that a person reads before choosing; another text is another question."""


@dataclass(frozen=True)
class Agreement:
    """One metric as it was shown, with its texts, so that a later question can list what has changed."""

    digest: str  # of all that a report's meaning or privacy depends on, in hexadecimal
    title: str
    description: str
    owner: str
    purpose: str
    attribute: str | None
    retention_days: int  # how long reports are stored
    grace_days: int  # how late they are accepted
    expires: str  # the first day without a report, ISO 8601
    publish_least: int | None  # reports of a period whose estimates are published; None where nothing is
    relay: str | None  # that its reports go through, and who runs it; None where they go directly

    @classmethod
    def to(cls, metric: Metric, route: ObliviousRoute | None = None) -> Self:
        """Return the agreement to a metric as it is, whose reports go through a relay where it is oblivious."""
        return cls(
            digest=metric.digest.hex(),
            **{name: getattr(metric, name) for name in WORDS},
            retention_days=metric.retention_days,
            grace_days=metric.grace_days,
            expires=metric.expires.isoformat(),
            publish_least=None if metric.publish == "nothing" else metric.publish_least,
            relay=route.described if metric.is_oblivious and route is not None else None,
        )

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Self:
        values = {field.name: read[field.name] for field in fields(cls)}
        for name, value in values.items():
            held = (value is None and name in _OPTIONAL) or type(value) is (int if name in _NUMBERS else str)
            if not held:
                raise TypeError("not what an agreement holds")
        date.fromisoformat(values["expires"])
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

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
        if metric.publish != "nothing" and (self.publish_least is None or metric.publish_least < self.publish_least):
            before = "where nothing was" if self.publish_least is None else f"not of {self.publish_least:,} or more"
            yield f"estimates of {metric.publish_least:,} reports or more are to be published, {before}"


_OPTIONAL: Final = frozenset({"attribute", "publish_least", "relay"})
_NUMBERS: Final = frozenset({"retention_days", "grace_days", "publish_least"})
_OTHER: Final = "what its reports mean, or how private they are, is not what was shown"
_NOW: Final = {
    "direct": "its reports would go to the collector directly, which would see your device's address",
    "oblivious": "its reports would go through a relay, which would see your device's address in the collector's place",
}

VERSION: Final = 1

NEW: Final = "it is new"


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
    operator
        Who collects, as it was shown; None where the registry did not say.
    """

    choice: Choice
    date: str
    registry: str
    metrics: Mapping[str, Agreement]
    consent_id: str
    server: str | None = None
    budget: PersonBudget | None = None
    operator: str | None = None

    def covers(self, metric: Metric, registry: MetricRegistry, server: str | None = None) -> bool:
        """Whether the choice was made about this metric, this collector, this budget and this relay, as they are."""
        return next(self.reasons(metric, registry, server), None) is None

    def reasons(self, metric: Metric, registry: MetricRegistry, server: str | None = None) -> Iterator[str]:
        """Return why the program has to ask about a metric of a registry again: nothing where the choice covers it.

        What is recorded under `local` goes nowhere, so collector and budget do not matter to it.

        Parameters
        ----------
        server
            Where its reports would go; None where that is not decided here.
        """
        agreed, sends = self.metrics.get(metric.id), self.choice is Choice.ON
        budget, route = registry.budget, registry.oblivious
        if agreed is None:
            yield NEW
        else:
            yield from agreed.changes(metric)
            who = None if registry.operator is None else registry.operator.described
            if sends and self.operator not in {None, who}:
                yield f"{who or 'somebody who is not named'} asks, not {self.operator}"
            if sends and server is not None and self.server is not None and server != self.server:
                yield f"reports would go to {server}, not to {self.server}"
            if sends and self.budget is not None and (budget is None or budget.allows_more_than(self.budget)):
                yield "its reports may cost more than the budget that was shown"
            if sends and route is not None and agreed.relay not in {None, route.described} and metric.is_oblivious:
                yield f"its reports would go through the relay {route.described}, not {agreed.relay}"

    def missing(self, registry: MetricRegistry, server: str | None = None) -> dict[str, tuple[str, ...]]:
        """Return the metrics that the program has to ask about again, and why: none after `off`, which is about all."""
        if self.choice is Choice.OFF:
            return {}
        asked = {name: (*self.reasons(metric, registry, server),) for name, metric in registry.items()}
        return {name: reasons for name, reasons in asked.items() if reasons}

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        about = {"choice": str(self.choice), "date": self.date, "registry": self.registry, "server": self.server}
        about["operator"] = self.operator
        budget = None if self.budget is None else self.budget.to_json()
        metrics = {name: agreed.to_json() for name, agreed in self.metrics.items()}
        return {"consent": VERSION, **about, "budget": budget, "metrics": metrics, "consent_id": self.consent_id}


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
    if read["consent"] != VERSION:
        raise ValueError("another version's")
    names = ("date", "registry", "consent_id", "server", "operator")
    day, registry, consent_id, server, who = (read[name] for name in names)
    if not all(
        isinstance(text, str) for text in (day, registry, consent_id, server or "", who or "", *read["metrics"])
    ):
        raise TypeError("not text")
    date.fromisoformat(day)
    agreed = {name: Agreement.from_json(each) for name, each in read["metrics"].items()}
    budget = None
    if read["budget"] is not None:
        from overstory.protocol.metrics.tables import PersonBudget

        budget = PersonBudget.from_json(read["budget"])
    return Consent(Choice(read["choice"]), day, registry, MappingProxyType(agreed), consent_id, server, budget, who)


def origin(server: str) -> str:
    """Return the scheme, host and port of an address, as a consent names them."""
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


def choose(
    paths: StatePaths,
    registry: MetricRegistry,
    choice: Choice | str,
    today: date,  # in UTC
    *,
    server: str | None = None,
    moved: bool = False,  # this machine replaces the one where the state was begun, secret and ledger included
) -> Consent:
    """Make a choice: the one way to change consent.json.

    What waits to be sent never outlives the consent that it was recorded under; an `on` after an `on` drops what it
    does not cover. On a full disk a choice that allows less is written over the one before, or that one is deleted.
    """
    if choice not in list(Choice):
        raise ParameterError(f"choice = {choice!r}: choose one of {', '.join(Choice)}")
    chosen, before = Choice(choice), None
    with contextlib.suppress(ConsentError):
        before = read_consent(paths)
    if chosen is not Choice.OFF:
        refuse_foreign(paths)
        _settle_machine(paths, moved=moved, narrows=before is not None and chosen.rank < before.choice.rank)
    named = None if server is None else origin(server)
    listed = MappingProxyType({name: Agreement.to(metric, registry.oblivious) for name, metric in registry.items()})
    renewed = None if chosen is not Choice.ON or before is None else _renewed(paths, before, listed, named)
    consent_id = os.urandom(8).hex() if before is None or renewed is None else before.consent_id
    if renewed is not None and before is not None and named is None:
        named = before.server
    who = None if registry.operator is None else registry.operator.described
    consent = Consent(chosen, today.isoformat(), registry.version, listed, consent_id, named, registry.budget, who)
    # Where the list is the same, both choices cover the metrics of all that waits.
    narrowed = renewed is None or before is None or not set(renewed) == set(before.metrics) == set(listed)
    if chosen is Choice.ON and narrowed:
        _withdraw(paths, Choice.OFF, renewed or ())
    _write(paths, consent)
    # First the file, then the rows: a flush that comes between them reads the file inside its transaction. Should the
    # rows be out of reach, nothing sends them meanwhile, and a later `on` withdraws them first.
    with contextlib.suppress(StateError):
        if chosen is not Choice.ON:
            _withdraw(paths, chosen)
        elif narrowed:
            _withdraw(paths, Choice.OFF, tuple(listed))
    return consent


def _settle_machine(paths: StatePaths, *, moved: bool, narrows: bool) -> None:
    from overstory.client.state.state import State

    state = State(paths)
    try:
        if moved:
            state.move_here()
        else:
            state.check_machine()
    except StateError as error:
        # A database that is busy or damaged keeps nobody from allowing less. One that could not be moved stays the
        # other machine's, and records nothing.
        if not narrows or error.fault in {Fault.ELSEWHERE, Fault.FOREIGN}:
            raise


def _renewed(
    paths: StatePaths, before: Consent, listed: Mapping[str, Agreement], server: str | None
) -> tuple[str, ...] | None:
    """Return the metrics of which an `on` after this choice covers what waits as well; None where it begins afresh."""
    if before.choice is not Choice.ON:
        return None
    if server is not None and _collector(paths, before) not in {None, server}:
        return None
    return tuple(n for n, agreed in before.metrics.items() if n in listed and listed[n].digest == agreed.digest)


def _collector(paths: StatePaths, consent: Consent) -> str | None:
    from overstory.client.state.state import State

    state = State(paths)
    if consent.server is not None or not state.exists:
        return consent.server
    with state.snapshot() as rows:
        return pinned(rows, consent)


def _write(paths: StatePaths, consent: Consent) -> None:
    try:
        make_folder(paths.folder)
        write_atomically(paths.consent, json.dumps(consent.to_json(), indent=1).encode())
    except OSError as error:
        if consent.choice is Choice.ON or not _forbidden(paths, consent):
            raise ConsentError(f"{paths.consent}: the choice cannot be written: {error.strerror or error}") from error


def _forbidden(paths: StatePaths, consent: Consent) -> bool:
    """Put `off` or `local` into force without a new file; return False when the earlier choice still applies."""
    with contextlib.suppress(OSError):
        # Shorter than what `_write` wrote about as many metrics. Half of it is no choice, and so `off` too.
        overwrite(paths.consent, json.dumps(consent.to_json(), separators=(",", ":")).encode())
        return True
    if consent.choice is Choice.OFF:
        with contextlib.suppress(OSError):
            paths.consent.unlink(missing_ok=True)
            sync_folder(paths.folder)
            return True
    return False


def _withdraw(paths: StatePaths, choice: Choice, spared: Collection[str] = ()) -> None:
    """Keep what waits from being sent, but for some metrics' reports."""
    from overstory.client.state.rows import RowState
    from overstory.client.state.state import State

    state = State(paths)
    if state.exists:
        to = RowState.LOCAL if choice is Choice.LOCAL else RowState.DROPPED
        with state.transaction() as rows:
            withdrawn = rows.outbox.withdraw(to, "consent withdrawn", spared)
            if withdrawn and to is RowState.DROPPED:
                rows.count("withdrawn", withdrawn)
