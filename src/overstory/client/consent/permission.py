"""Decides which metrics a program may record, and to which collector it may send, under the person's choice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from overstory.client.consent.consent import Choice, Consent, choose, origin, pin, pinned
from overstory.client.consent.policy import UNASKED
from overstory.client.errors import ConsentError, StateError
from overstory.client.outcomes import Outcome

if TYPE_CHECKING:
    from datetime import date

    from overstory.client.consent.policy import EffectiveChoice, PermissionSources
    from overstory.client.state.paths import StatePaths
    from overstory.client.state.state import Rows, State
    from overstory.protocol.metrics import Metric, MetricRegistry


class Permission:
    """One program's view of the person's choice.

    Parameters
    ----------
    server
        The address of its collector; None where it sends nothing itself.
    state
        Opens the state, which remembers the first collector under a choice that names none.

    Attributes
    ----------
    server
        Scheme, host and port of the collector.
    revoked
        Whether an "off" or a "local" could not be written.
    """

    def __init__(
        self, sources: PermissionSources, registry: MetricRegistry, server: str | None, state: Callable[[], State]
    ) -> None:
        self._sources, self._registry, self._state = sources, registry, state
        self.server, self.revoked = None if server is None else origin(server), False
        # The id of a choice that names no collector, and the first collector under it; None where there is none yet.
        self._first: tuple[str, str | None] | None = None
        self._covered: dict[str, tuple[Consent, Metric]] = {}  # the very choice and metric that were compared last

    def __repr__(self) -> str:
        return f"Permission({self.server!r})"

    def refusal(self, metric: Metric, allowed: EffectiveChoice) -> Outcome | None:
        """Return why a metric may not be recorded; None where it may."""
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
        covered = consent.covers(metric, server=self.server, budget=self._registry.budget)
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
        """Return the choice that allows sending at this moment; None when nothing does."""
        allowed = self._sources.now()
        return allowed.consent if allowed.choice is Choice.ON and not self.revoked else None

    def may_send(self, metric: Metric) -> bool:
        """Whether reports of a metric may leave at this moment."""
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
            self._first = consent.consent_id, self._read(consent)
        return self._first[1] not in {None, self.server}

    def _read(self, consent: Consent) -> str | None:
        state = self._state()
        if state.exists:
            # The next write reports a state that cannot be read.
            with contextlib.suppress(StateError), state.snapshot() as rows:
                return pinned(rows, consent)
        return None


def refused(rows: Rows, consent: Consent) -> str | None:
    """Return the collector to which reports under a choice were not sent, if there was one."""
    consent_id, _, server = str(rows.recall("refused") or "").partition(" ")
    return server if consent_id == consent.consent_id and server != pinned(rows, consent) else None
