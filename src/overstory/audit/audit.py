"""The audit: ask a client in phases, check what it answers, play the guessing games."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.audit.answers import Answers
from overstory.audit.bits import BitConformance
from overstory.audit.checks import Check, Conformance
from overstory.audit.cohorts import cohort_checks, equal_cohorts, kept_cohorts
from overstory.audit.game import detectable_excess, play
from overstory.audit.probabilities import most_extreme
from overstory.audit.questions import Questions, fresh, repeated, twins
from overstory.audit.result import AuditResult, Timed
from overstory.audit.sets import PointConformance, SubsetConformance
from overstory.audit.symbols import SymbolConformance
from overstory.protocol.encodings.base import check_count
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism

if TYPE_CHECKING:
    from overstory.audit.clients import AuditedClient
    from overstory.audit.declared import Declared

Advance = Callable[[float, str], object]
"""Called with how many lines have been answered, and what is being done."""

FEWEST_REPORTS: Final = 200
MOST_REPORTS: Final = 10_000_000
MOST_REPEATS: Final = 1000
MOST_CELLS: Final = 1 << 29
"""Bits of all fresh reports together: they are in memory, several times."""


@dataclass(frozen=True)
class Settings:
    """How long an audit is, and what it takes for granted.

    Parameters
    ----------
    reports
        Of fresh devices, from 200.
    repeats
        Reports of each device in the test of its memory, from 2.
    alpha
        The chance that a right client fails any check, and, apart from that, that its epsilon is bounded too high.
    restart
        Whether devices are asked again in another run, which must remember them.
    own_cohorts
        Whether clients choose their cohorts.
    """

    reports: int = 100_000
    repeats: int = 16
    alpha: float = 0.001
    restart: bool = False
    own_cohorts: bool = False

    def __post_init__(self) -> None:
        check_count("--reports", self.reports, FEWEST_REPORTS, MOST_REPORTS)
        check_count("--repeats", self.repeats, 2, MOST_REPEATS)
        if not 0 < self.alpha <= 0.5:
            raise ParameterError(f"--alpha {self.alpha:g}: give a chance above 0, at most 0.5")

    @property
    def twins(self) -> int:
        """Lines of each of the processes that start at once."""
        return min(max(self.reports // 10, 100), 2000)

    @property
    def devices(self) -> int:
        """Devices that report several times."""
        return min(max(self.reports // 50, 100), 4000)

    @property
    def lines(self) -> int:
        """Lines of all runs."""
        return self.reports + 3 * self.twins + self.devices * self.repeats * (2 if self.restart else 1)


def conformance_of(declared: Declared) -> Conformance:
    """Return the checks for the kind of report that is declared."""
    if isinstance(declared.mechanism, BitMechanism):
        return BitConformance(declared)
    if isinstance(declared.mechanism, SymbolMechanism):
        return SymbolConformance(declared)
    return SubsetConformance(declared) if declared.are_bits else PointConformance(declared)


def audit(
    declared: Declared,
    client: AuditedClient,
    settings: Settings,
    *,
    rng: np.random.Generator | None = None,
    advance: Advance | None = None,
) -> AuditResult:
    """Audit a client.

    Parameters
    ----------
    rng
        Where coins and cohorts come from; by default the operating system's entropy, which no client can foresee.
    """
    bits = declared.mechanism.payload_bits if declared.are_bits else 1
    if settings.reports * bits > MOST_CELLS:
        problem = f"{bits:,} bits each are too many for the memory; give at most {MOST_CELLS // bits:,}"
        raise ParameterError(f"--reports {settings.reports:,}: {problem}")
    return _Audit(declared, client, settings, rng or np.random.default_rng(), advance or (lambda *_: None)).result()


class _Audit:
    def __init__(
        self,
        declared: Declared,
        client: AuditedClient,
        settings: Settings,
        rng: np.random.Generator,
        advance: Advance,
    ) -> None:
        self.declared, self.client, self.settings, self.rng = declared, client, settings, rng
        self.advance, self.done = advance, 0
        self.conformance = conformance_of(declared)
        self.timed: list[Timed] = []
        self.notes: list[str] = []

    def result(self) -> AuditResult:
        """Go through the phases."""
        settings, declared = self.settings, self.declared
        choose = settings.own_cohorts
        (answers,) = self._ask(fresh(declared, settings.reports, self.rng, choose=choose))
        self._check(self.conformance.fresh(answers))
        if choose and declared.num_cohorts > 1:
            self._check(cohort_checks(answers, declared.num_cohorts))
        self.notes += self.conformance.remarks(answers)
        games = play(self.conformance, answers, settings.alpha)
        levels = self.conformance.levels(answers.take(answers.values < 2))
        excess = detectable_excess(levels, declared.epsilon, settings.alpha)
        self._check(self._at_once(self._ask(*twins(declared, settings.twins, self.rng, choose=choose))))
        self._remember(choose=choose)
        return AuditResult(
            mechanism=declared.mechanism.name,
            pair=(declared.texts[0], declared.texts[1]),
            reports=settings.reports,
            lines=self.done,
            alpha=settings.alpha,
            declared=declared.epsilon,
            timed=tuple(self.timed),
            games=tuple(games),
            detectable_excess=excess,
            notes=tuple(self.notes),
        )

    def _ask(self, *questions: Questions) -> list[Answers]:
        self.advance(self.done, questions[0].phase)
        answers = self.client.answer(self.declared, questions)
        self.done += sum(map(len, questions))
        self.advance(self.done, "checking")
        return answers

    def _check(self, checks: Iterable[Check]) -> None:
        started = time.process_time()
        for check in checks:
            now = time.process_time()
            self.timed.append(Timed(check, now - started))
            started = now

    def _at_once(self, runs: list[Answers]) -> Iterable[Check]:
        """Check that processes that start at the same time have noise of their own."""
        first, second, other = runs
        p_values = [
            self.conformance.likeness(first, second, same_devices=True),
            self.conformance.likeness(first, other, same_devices=False),
            self.conformance.likeness(second, other, same_devices=False),
        ]
        if self.settings.own_cohorts and self.declared.num_cohorts > 1:
            p_values.append(equal_cohorts(first, other, self.declared.num_cohorts))
        p_value = most_extreme(p_values)
        same = int((first.reports == other.reports).reshape(len(first), -1).all(axis=1).sum())
        texts = ("independent", f"{same:,} of {len(first):,} reports equal")
        yield Check("processes started at once", *texts, same, p_value)

    def _remember(self, *, choose: bool) -> None:
        """Check that devices repeat their permanent response, and still do after a restart."""
        settings, repeats = self.settings, self.settings.repeats
        questions = repeated(self.declared, settings.devices, repeats, self.rng, choose=choose)
        (answers,) = self._ask(questions)
        if choose and self.declared.num_cohorts > 1:
            self._check([kept_cohorts(answers, repeats)])
        self._check(self.conformance.memory(answers, repeats))
        if not settings.restart:
            self.notes.append(
                "memory over a restart was not tested: give --restart if the command remembers its clients"
            )
            return
        (again,) = self._ask(questions)
        both = joined_runs(answers, again)
        if choose and self.declared.num_cohorts > 1:
            check = kept_cohorts(both, 2 * repeats)
            self._check([replace(check, name=check.name + " after a restart")])
        self._check(self.conformance.memory(both, 2 * repeats, " after a restart"))


def joined_runs(first: Answers, second: Answers) -> Answers:
    """Return the lines of one run after those of another."""
    runs = first.questions, second.questions
    clients, values = (np.concatenate([getattr(run, name) for run in runs]) for name in ("clients", "values"))
    given = [run.cohorts for run in runs if run.cohorts is not None]
    cohorts = np.concatenate(given) if given else None
    questions = Questions(runs[0].phase, runs[0].prefix, clients, cohorts, values)
    columns = (np.concatenate([getattr(run, name) for run in (first, second)]) for name in ("cohorts", "reports"))
    return Answers(questions, *columns)
