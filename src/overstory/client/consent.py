"""The person's choice (on, local or off), and what it and every other source allow to record and to send.

`on` records and sends. `local` records, so that a person can see what would be sent, and never sends it, also not after
a later `on`. `off` records nothing. Nobody asked is like `off`, and says so.

A choice covers what was shown: every metric with its words, its privacy, how long its reports are kept, until when it
is collected and what of it is published; the collector that reports go to; the budget. Where one of these is another,
or allows more, the program asks again. Under a choice that names no collector nothing is sent. An `Agreement` is what a
person agreed to about one metric.

Every source is an upper limit: an administrator can forbid, but cannot consent for a person. In order, the policy file,
``OVERSTORY``, ``DO_NOT_TRACK``, a continuous-integration environment, the person's choice; the cause is the first of
those that allow least.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from overstory.client.outcomes import ConsentError, Fault, Outcome, StateError
from overstory.client.state.files import (
    StatePaths,
    make_folder,
    overwrite,
    read_application,
    refuse_foreign,
    sync_folder,
    write_atomically,
)
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
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
    """A choice, as stored in consent.json."""

    choice: Choice  # what the person chose: off, local or on
    date: str  # the day, ISO 8601, UTC
    registry: str  # the version of the registry that was shown
    metrics: Mapping[str, Agreement]  # what was shown of each metric, by id
    consent_id: str  # random: choices that differ in it do not vouch for each other's reports
    # the collector that reports may go to, as scheme, host and port; None where none was named: they go nowhere
    server: str | None = None
    budget: PersonBudget | None = None  # the budget of the registry that was shown; None where it had none
    operator: str | None = None  # who collects, as it was shown; None where the registry did not say

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
            if sends and server not in {None, self.server}:
                instead = f"not to {self.server}" if self.server else "and nobody was named"
                yield f"reports would go to {server}, {instead}"
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


def choose(
    paths: StatePaths,
    registry: MetricRegistry,
    choice: Choice | str,
    today: date,  # in UTC
    *,
    server: str | None = None,  # the collector that the person was shown; None: nobody yet
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
    renewed = None if chosen is not Choice.ON or before is None else _renewed(before, listed, named)
    consent_id = os.urandom(8).hex() if before is None or renewed is None else before.consent_id
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


def _renewed(before: Consent, listed: Mapping[str, Agreement], server: str | None) -> tuple[str, ...] | None:
    """Return the metrics of which an `on` after this choice covers what waits as well; None where it begins afresh."""
    if before.choice is not Choice.ON or before.server not in {None, server}:
        return None
    return tuple(n for n, agreed in before.metrics.items() if n in listed and listed[n].digest == agreed.digest)


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


CI_VARIABLES: Final = (
    "CI",
    "APPVEYOR",
    "BITBUCKET_BUILD_NUMBER",
    "BUILDKITE",
    "CIRCLECI",
    "CODEBUILD_BUILD_ID",
    "CONTINUOUS_INTEGRATION",
    "DRONE",
    "GITEA_ACTIONS",
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "JENKINS_URL",
    "SEMAPHORE",
    "TEAMCITY_VERSION",
    "TF_BUILD",
    "TRAVIS",
)
"""Variables that continuous-integration services set: no person uses the program there."""

_NO: Final = frozenset({"", "0", "false", "no", "off"})
_OWN_WORDS: Final[Mapping[str, Choice]] = {
    **dict.fromkeys(("0", "false", "no", "off"), Choice.OFF),
    "local": Choice.LOCAL,
    **dict.fromkeys(("", "1", "true", "yes", "on"), Choice.ON),
}
_POLICY_WORDS: Final[Mapping[str, Choice]] = {"off": Choice.OFF, "local": Choice.LOCAL, "ask": Choice.ON}

UNASKED: Final = "the person has not been asked"

Signature = tuple[int, int, int] | None


@dataclass(frozen=True)
class EffectiveChoice:
    """What may be done now, or the most that a source allows, and why."""

    choice: Choice  # `off`, `local` or `on`
    cause: str  # the source that allows no more, in words
    consent: Consent | None = None  # the person's own choice; None before it was asked for or when it cannot be read

    @property
    def asked(self) -> bool:
        return self.consent is not None


def of_environment(environ: Mapping[str, str]) -> EffectiveChoice:
    """Return what the environment allows."""
    own = environ.get("OVERSTORY", "")
    allowed = _OWN_WORDS.get(own.strip().lower())
    if allowed is None:
        return EffectiveChoice(Choice.OFF, "OVERSTORY is set to a word that is not off, local or on")
    ceilings = [EffectiveChoice(allowed, f"OVERSTORY={own}")]
    if environ.get("DO_NOT_TRACK", "").strip().lower() not in _NO:
        ceilings.append(EffectiveChoice(Choice.OFF, "DO_NOT_TRACK is set"))
    ceilings += [
        EffectiveChoice(Choice.OFF, f"{name} is set: a continuous-integration environment")
        for name in CI_VARIABLES
        if environ.get(name, "").strip().lower() not in _NO
    ]
    return lowest(*ceilings)


def of_policy(path: Path) -> EffectiveChoice:
    """Return what a policy ``{"reporting": "off" | "local" | "ask"}`` allows: nothing if wrong, all if missing."""
    try:
        read = json.loads(path.read_bytes())
        return EffectiveChoice(_POLICY_WORDS[read["reporting"]], f"the administrator's policy, {path}")
    except (FileNotFoundError, NotADirectoryError):
        return EffectiveChoice(Choice.ON, "no policy")
    except OSError as error:
        return EffectiveChoice(Choice.OFF, f"the administrator's policy, {path}, cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError, RecursionError):
        expected = '{"reporting": "off"}, "local" or "ask"'
        return EffectiveChoice(
            Choice.OFF, f"the administrator's policy, {path}, is not understood: expected {expected}"
        )


def lowest(*ceilings: EffectiveChoice) -> EffectiveChoice:
    """Return the first of those that allow least."""
    return min(ceilings, key=lambda ceiling: ceiling.choice.rank)


class PermissionSources:
    """Combines all sources; a file is read again only when it has changed."""

    def __init__(self, paths: StatePaths, environ: Mapping[str, str], policy: Path) -> None:
        self._paths, self._policy = paths, policy
        self._environment = of_environment(environ)
        self._files = os.fspath(policy), os.fspath(paths.consent)
        self._cached: tuple[tuple[Signature, ...], EffectiveChoice] | None = None  # one attribute: threads need no lock

    def now(self) -> EffectiveChoice:
        # The signatures first: a file that changes while it is read is read again next time.
        seen = tuple(map(_signature, self._files))
        cached = self._cached
        if cached is None or cached[0] != seen:
            self._cached = cached = seen, self._ask()
        return cached[1]

    def _ask(self) -> EffectiveChoice:
        consent = None
        try:
            consent = read_consent(self._paths)
            person = EffectiveChoice(Choice.OFF, UNASKED)
            if consent is not None:
                person = EffectiveChoice(consent.choice, f"the person's choice of {consent.date}")
        except ConsentError as error:
            person = EffectiveChoice(Choice.OFF, str(error))
        allowed = lowest(of_policy(self._policy), self._environment, person)
        # Where nothing forbids, it is the person who allows.
        return replace(person if allowed.choice is Choice.ON else allowed, consent=consent)


def effective(paths: StatePaths, environ: Mapping[str, str], policy: Path) -> EffectiveChoice:
    """Return what may be done, and why."""
    return PermissionSources(paths, environ, policy).now()


def _signature(path: str) -> Signature:
    try:
        status = os.stat(path)  # noqa: PTH116 - every record looks at two files
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class Permission:
    """One program's view of the person's choice; `revoked` where an `off` or a `local` could not be written."""

    def __init__(self, sources: PermissionSources, registry: MetricRegistry, server: str | None) -> None:
        self._sources, self._registry = sources, registry
        self.server, self.revoked = None if server is None else origin(server), False
        self._covered: dict[str, tuple[Consent, Metric]] = {}  # the very choice and metric that were compared last

    def refusal(self, metric: Metric, allowed: EffectiveChoice) -> Outcome | None:
        if allowed.choice is Choice.OFF or self.revoked:
            return Outcome.NOT_ASKED if allowed.cause == UNASKED else Outcome.OFF
        consent = allowed.consent
        return None if consent is not None and self.covers(consent, metric) else Outcome.NOT_ASKED

    def covers(self, consent: Consent, metric: Metric) -> bool:
        """Whether a choice covers this metric as it is now, and the collector of its reports."""
        last = self._covered.get(metric.id)
        if last is not None and last[0] is consent and last[1] is metric:  # neither ever changes
            return True
        covered = consent.covers(metric, self._registry, self.server)
        if covered:
            self._covered[metric.id] = consent, metric
        return covered

    def choose(self, paths: StatePaths, choice: Choice | str, today: date, *, moved: bool) -> Consent:
        """Make the person's choice, see `choose`; nothing is recorded or sent after one for less that failed."""
        try:
            server = self.server or read_application(paths).server
            consent = choose(paths, self._registry, choice, today, server=server, moved=moved)
        except (ConsentError, StateError):
            self.revoked = self.revoked or choice != Choice.ON
            raise
        self.revoked = False
        return consent

    def sends(self) -> Consent | None:
        allowed = self._sources.now()
        return allowed.consent if allowed.choice is Choice.ON and not self.revoked else None

    def may_send(self, metric: Metric) -> bool:
        consent = self.sends()
        return consent is not None and self.covers(consent, metric)
