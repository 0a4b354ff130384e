"""Computes the effective choice and its cause: the least that the administrator, the environment and the person allow.

Every source is an upper limit: an administrator can forbid, but cannot consent for a person. In order, the
policy file, ``OVERSTORY``, ``DO_NOT_TRACK``, a continuous-integration environment, the person's choice; the cause is
the first of those that allow least.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from overstory.client.consent.consent import Choice, Consent, read_consent
from overstory.client.errors import ConsentError
from overstory.client.state.paths import StatePaths

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


class Ceiling(NamedTuple):
    """The most that a source allows, and its description."""

    choice: Choice
    cause: str


@dataclass(frozen=True)
class EffectiveChoice:
    """What may be done now, and why."""

    choice: Choice  # `off`, `local` or `on`
    cause: str  # the source that allows no more, in words
    consent: Consent | None  # the person's own choice, None before it was asked for or when it cannot be read

    @property
    def asked(self) -> bool:
        """Whether the person has made a choice."""
        return self.consent is not None


def of_environment(environ: Mapping[str, str]) -> Ceiling:
    """Return what the environment allows.

    Examples
    --------
    >>> of_environment({"DO_NOT_TRACK": "1"})
    Ceiling(choice=<Choice.OFF: 'off'>, cause='DO_NOT_TRACK is set')
    """
    own = environ.get("OVERSTORY", "")
    allowed = _OWN_WORDS.get(own.strip().lower())
    if allowed is None:
        return Ceiling(Choice.OFF, "OVERSTORY is set to a word that is not off, local or on")
    found = [Ceiling(allowed, f"OVERSTORY={own}")]
    if environ.get("DO_NOT_TRACK", "").strip().lower() not in _NO:
        found.append(Ceiling(Choice.OFF, "DO_NOT_TRACK is set"))
    found += [
        Ceiling(Choice.OFF, f"{name} is set: a continuous-integration environment")
        for name in CI_VARIABLES
        if environ.get(name, "").strip().lower() not in _NO
    ]
    return lowest(*found)


def of_policy(path: Path) -> Ceiling:
    """Return what an administrator's policy file allows; one that cannot be understood allows nothing.

    The file is JSON, ``{"reporting": "off" | "local" | "ask"}``. Where there is none, everything is allowed.
    """
    try:
        read = json.loads(path.read_bytes())
        return Ceiling(_POLICY_WORDS[read["reporting"]], f"the administrator's policy, {path}")
    except (FileNotFoundError, NotADirectoryError):
        return Ceiling(Choice.ON, "no policy")
    except OSError as error:
        return Ceiling(Choice.OFF, f"the administrator's policy, {path}, cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError, RecursionError):
        expected = '{"reporting": "off"}, "local" or "ask"'
        return Ceiling(Choice.OFF, f"the administrator's policy, {path}, is not understood: expected {expected}")


def of_person(consent: Consent | None) -> Ceiling:
    """Return what the person's choice allows."""
    if consent is None:
        return Ceiling(Choice.OFF, UNASKED)
    return Ceiling(consent.choice, f"the person's choice of {consent.date}")


def lowest(*ceilings: Ceiling) -> Ceiling:
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
        """Return what may be done at this moment."""
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
            person = of_person(consent)
        except ConsentError as error:
            person = Ceiling(Choice.OFF, str(error))
        allowed = lowest(of_policy(self._policy), self._environment, person)
        # Where nothing forbids, it is the person who allows.
        return EffectiveChoice(*(person if allowed.choice is Choice.ON else allowed), consent)


def effective(paths: StatePaths, environ: Mapping[str, str], policy: Path) -> EffectiveChoice:
    """Return what may be done, and why."""
    return PermissionSources(paths, environ, policy).now()


def _signature(path: str, stat: Callable[[str], os.stat_result] = os.stat) -> Signature:
    try:
        found = stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
