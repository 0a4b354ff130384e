"""Computes the effective choice and its cause, and decides what may be recorded, and sent to which collector, under it.

Every source is an upper limit: an administrator can forbid, but cannot consent for a person. In order, the
policy file, ``OVERSTORY``, ``DO_NOT_TRACK``, a continuous-integration environment, the person's choice; the cause is
the first of those that allow least.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from overstory.client.consent.consent import Choice, Consent, choose, origin, pin, pinned, read_consent
from overstory.client.outcomes import ConsentError, Outcome, StateError
from overstory.client.state.files import StatePaths

if TYPE_CHECKING:
    from datetime import date

    from overstory.client.state.rows import Rows
    from overstory.client.state.state import State
    from overstory.protocol.metrics import Metric, MetricRegistry

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

    def __init__(
        self, sources: PermissionSources, registry: MetricRegistry, server: str | None, state: Callable[[], State]
    ) -> None:
        self._sources, self._registry, self._state = sources, registry, state
        self.server, self.revoked = None if server is None else origin(server), False
        # The id of a choice that names no collector, and the first collector under it; None where there is none yet.
        self._first: tuple[str, str | None] | None = None
        self._covered: dict[str, tuple[Consent, Metric]] = {}  # the very choice and metric that were compared last

    def refusal(self, metric: Metric, allowed: EffectiveChoice) -> Outcome | None:
        if allowed.choice is Choice.OFF or self.revoked:
            return Outcome.NOT_ASKED if allowed.cause == UNASKED else Outcome.OFF
        consent = allowed.consent
        return None if consent is not None and self.covers(consent, metric) else Outcome.NOT_ASKED

    def covers(self, consent: Consent, metric: Metric) -> bool:
        """Whether a choice covers this metric as it is now, and the collector of its reports."""
        if self._elsewhere(consent):
            return False
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
            consent = choose(paths, self._registry, choice, today, server=self.server, moved=moved)
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

    def meet(self, rows: Rows, consent: Consent) -> None:
        """Hold the choice to its first collector, and write down that another one was refused."""
        if self.server is None:
            return
        first = pin(rows, consent, self.server)
        if first != self.server and refused(rows, consent) != self.server:
            rows.remember("refused", f"{consent.consent_id} {self.server}")
        self._first = consent.consent_id, first

    def _elsewhere(self, consent: Consent) -> bool:
        """Whether a choice that names no collector is held to another one."""
        if self.server is None or consent.server is not None or consent.choice is not Choice.ON:
            return False
        if self._first is None or self._first[0] != consent.consent_id:
            state, first = self._state(), None
            if state.exists:
                # The next write reports a state that cannot be read.
                with contextlib.suppress(StateError), state.snapshot() as rows:
                    first = pinned(rows, consent)
            self._first = consent.consent_id, first
        return self._first[1] not in {None, self.server}


def refused(rows: Rows, consent: Consent) -> str | None:
    """Return the collector to which reports under a choice were not sent, if there was one."""
    consent_id, _, server = str(rows.recall("refused") or "").partition(" ")
    return server if consent_id == consent.consent_id and server != pinned(rows, consent) else None
