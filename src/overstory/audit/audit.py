"""The audit: ask a client in phases, check what it answers, play the guessing games; its outcome, as a document.

*The guessing game*: for each fresh device a fair coin decides which of two values it holds, and the auditor guesses it
from the report, or does not guess. Under epsilon local differential privacy every guess is right with probability at
most e^eps / (1 + e^eps), whatever the guesses before it were: so the number of right guesses bounds epsilon from below,
exactly (Clopper and Pearson), both values of the pair counting. When to guess is fixed before the reports are looked
at: by the declaration, or by half of the reports for the other. Several games share alpha.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import at_least, holm, lower_bound
from overstory.audit.answers import Answers, Questions, fresh, repeated, twins
from overstory.audit.conformance import (
    BINS,
    Check,
    Column,
    binned,
    conformance_of,
    joined,
    most_extreme,
    outcomes_p,
    too_many,
    two_sided,
)
from overstory.presentation.document import Block, Lines, Notice, Paragraph, Table
from overstory.presentation.document import Column as TableColumn
from overstory.presentation.formats import epsilon_text, finite, p_value, rounded_down, rounded_up
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import check_count

if TYPE_CHECKING:
    from overstory.audit.answers import Declared, OwnClient, Program
    from overstory.audit.conformance import Conformance, Levels, LevelsOf, Marks

SHARES: Final = {"likelihood": 0.8, "truth": 0.1, "learned": 0.1}
"""How the games share alpha: that of the declared likelihood is the sharpest for a client that does as declared."""
POWER: Final = 0.9  # an excess is called detectable if it is seen nine times in ten
LARGEST: Final = 100.0  # no epsilon above this is called detectable: a guess can hardly be more certain
STEPS: Final = 30
FEWEST: Final = 40  # reports of the pair with fewer than this, no score is learned
MOST_GROUPS: Final = 64  # cohorts up to which a score is learned for each


@dataclass(frozen=True)
class Game:
    """One game's outcome."""

    name: str
    guesses: int
    correct: int
    alpha: float  # the chance that `lower` is above the true epsilon, at most

    @property
    def lower(self) -> float:
        """The epsilon that is certainly lost; 0 where nothing is certain."""
        from scipy.special import logit

        return max(0.0, float(logit(lower_bound(self.correct, self.guesses, self.alpha))))

    def needed(self, declared: float) -> int | None:
        """Return the fewest right guesses that give a bound above `declared`."""
        chance, possible = 1 / (1 + math.exp(-declared)), range(self.guesses + 1)
        needed = bisect_left(possible, True, key=lambda right: bool(at_least(right, self.guesses, chance) < self.alpha))
        return needed if needed in possible else None


def play(conformance: Conformance, answers: Answers, alpha: float) -> list[Game]:
    """Return the games that fresh devices' reports allow, the declared likelihood's first."""
    pair = answers.take(answers.values < 2)
    scores = conformance.scores(pair)
    limit = threshold(next(conformance.levels(pair)(0.0)), SHARES["likelihood"] * alpha)
    played = {"likelihood": (np.abs(scores) >= limit, scores > 0)}  # on which reports it guesses, and the second value
    sides = conformance.true_sides(pair)
    if sides is not None:
        played["truth"] = sides >= 0, sides == 1
    if len(pair) >= FEWEST and (features := conformance.features(pair)) is not None:
        played["learned"] = _learned(features, pair, conformance.declared.num_cohorts, SHARES["learned"] * alpha)
    right = {name: guess[guessed] == (pair.values[guessed] == 1) for name, (guessed, guess) in played.items()}
    return [Game(name, len(each), int(each.sum()), SHARES[name] * alpha) for name, each in right.items()]


def threshold(levels: Levels, alpha: float) -> float:
    """Return the log ratio from which on guesses promise the largest lower bound, if all is as declared."""
    order = np.argsort(-levels.ratios, kind="stable")
    ratios = levels.ratios[order]
    counts = levels.counts[order]
    guesses = np.cumsum(counts)
    right = np.cumsum(counts * levels.right[order])
    ends = np.flatnonzero(np.append(np.diff(ratios) < -1e-9, True))
    ends = ends[ratios[ends] > 1e-9]
    if not len(ends):
        return math.inf
    best = max(ends.tolist(), key=lambda end: lower_bound(int(right[end]), max(math.ceil(guesses[end]), 1), alpha))
    return float(ratios[best]) - 1e-9


def detectable_excess(levels_of: LevelsOf, declared: float, alpha: float) -> float | None:
    """Return by which share less noise must raise epsilon to be seen nine times in ten; None where nothing would be."""
    if not 0 < declared < LARGEST:
        return None
    share = SHARES["likelihood"] * alpha
    limit = threshold(next(levels_of(0.0)), share)

    def is_seen(excess: float) -> bool:
        # Of several ways to have less noise, the one that is hardest to see counts.
        return all(_power(levels, limit, declared, share) >= POWER for levels in levels_of(excess))

    low, high = math.inf, math.inf
    for epsilon in np.geomspace(LARGEST, declared, STEPS).tolist():  # from above: every larger fault is seen, too
        low, high = epsilon / declared - 1.0, low
        if not is_seen(low):
            break
    if math.isinf(high):
        return None
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


def _power(levels: Levels, limit: float, declared: float, alpha: float) -> float:
    """Return how likely the expected number of guesses gives a bound above `declared`."""
    # Each guess is right with a chance of its level's: the right ones are binomial.
    guessed = levels.ratios >= limit
    guesses = float(levels.counts[guessed].sum())
    needed = Game("likelihood", int(guesses), 0, alpha).needed(declared)
    if needed is None:
        return 0.0
    right = float((levels.counts * levels.right)[guessed].sum()) / guesses
    return float(at_least(needed, int(guesses), right))


def _learned(features: Marks, pair: Answers, num_cohorts: int, alpha: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Learn each bit's weight in one half of the reports; return on which of the other half to guess, and what."""
    half = len(pair) // 2
    groups = pair.cohorts if num_cohorts <= MOST_GROUPS else np.zeros(len(pair), np.int64)
    scores = np.zeros(len(pair))
    for group in np.unique(groups).tolist():
        rows = np.flatnonzero(groups == group)
        # The log ratio of each report, bits taken as independent, by the rates of the reports to learn from.
        learning = [features[rows[(rows < half) & (pair.values[rows] == value)]] for value in (0, 1)]
        first, second = ((seen.sum(axis=0, dtype=np.int64) + 0.5) / (len(seen) + 1.0) for seen in learning)
        lit, dark = np.log(second / first), np.log((1 - second) / (1 - first))
        scores[rows] = features[rows] @ (lit - dark) + dark.sum()
    order = np.argsort(-np.abs(scores[:half]), kind="stable")
    sizes, right = np.abs(scores[:half][order]), (scores[:half] > 0)[order] == (pair.values[:half] == 1)[order]
    tried = np.unique(np.geomspace(8, half, 40).astype(int)) - 1
    correct = np.cumsum(right)
    best = max(tried.tolist(), key=lambda end: lower_bound(int(correct[end]), end + 1, alpha))
    return (np.abs(scores) >= max(sizes[best], 1e-12)) & (np.arange(len(pair)) >= half), scores > 0


METRICS_UNTESTED: Final = "two metrics of a device were not tested: write {metric} into the command if it takes one"
NO_MEMORY: Final = "every answer of a panel has noise of its own, so memory over a restart was not tested"
RESTART_UNTESTED: Final = "memory over a restart was not tested: give --restart if the command remembers its clients"
NO_PROOF: Final = (
    "No audit proves an epsilon: it bounds it from below. What no check looks at may still be wrong, and a client can "
    "behave otherwise when it is not audited."
)


@dataclass(frozen=True)
class AuditResult:
    """The outcome of an audit."""

    declared: Declared
    settings: Settings
    lines: int  # that were asked in all
    checks: list[Check]
    games: list[Game]
    notes: list[str]  # what was not tested, and why
    # The share of the declared epsilon by which less noise in every report must raise it to be seen nine times in ten;
    # None where that few reports show none. Of a fault in a few reports it says nothing.
    detectable_excess: float | None = None

    @property
    def adjusted(self) -> list[float]:
        return holm([check.p_value for check in self.checks])

    @property
    def best(self) -> Game:
        return max(self.games, key=lambda game: game.lower)

    @property
    def lower(self) -> float:
        """The epsilon that is certainly lost, with confidence 1 - alpha."""
        return self.best.lower

    @property
    def failed(self) -> list[str]:
        judged = zip(self.checks, self.adjusted, strict=True)
        return [check.name for check, adjusted in judged if adjusted <= self.settings.alpha]

    @property
    def verdict(self) -> Literal["violates", "deviates", "no fault found"]:
        """The worst that is certain."""
        if self.lower > self.declared.epsilon:
            return "violates"
        return "deviates" if self.failed else "no fault found"

    def to_json(self) -> dict[str, Any]:
        best = self.best
        return {
            "verdict": self.verdict,
            "mechanism": self.declared.mechanism.name,
            "pair": [*self.declared.texts[:2]],
            "reports": self.settings.reports,
            "lines": self.lines,
            "alpha": self.settings.alpha,
            "epsilon": {
                "declared": finite(self.declared.epsilon),
                "lower": finite(self.lower),
                "confidence": 1 - self.settings.alpha,
                "game": best.name,
                "guesses": best.guesses,
                "correct": best.correct,
                "detectable_excess": finite(self.detectable_excess),
            },
            "games": [{**asdict(game), "lower": finite(game.lower)} for game in self.games],
            "tests": self._tests(),
            "notes": self.notes,
        }

    def _tests(self) -> list[dict[str, Any]]:
        return [
            {
                **asdict(check),
                "statistic": finite(check.p_value if check.statistic is None else check.statistic),
                "adjusted": adjusted,
                "verdict": "deviates" if adjusted <= self.settings.alpha else "as declared",
            }
            for check, adjusted in zip(self.checks, self.adjusted, strict=True)
        ]

    def blocks(self) -> Iterator[Block]:
        declared, (first, second, *_) = self.declared, self.declared.texts
        yield Paragraph(
            f"{declared.mechanism.name}, epsilon {epsilon_text(declared.epsilon)} for one report; "
            f"{self.settings.reports:,} reports of fresh devices, {self.lines:,} lines in all; "
            f"values {first!r} and {second!r} by a fair coin"
        )
        columns = (
            TableColumn("name", "check", is_left=True),
            TableColumn("expected", is_left=True),
            TableColumn("observed", "came", is_left=True),
            TableColumn(
                "interval", "99.9% interval", lambda i: "{:.4f} to {:.4f}".format(*i) if i else "", is_left=True
            ),
            TableColumn("adjusted", "p after Holm", lambda p: p_value(p) if p < 0.001 else f"{p:.3f}"),
            TableColumn("verdict", "", lambda verdict: "DEVIATES" if verdict == "deviates" else "", is_left=True),
        )
        yield Table("", columns, self._tests())
        (lower, stated), best = self._bounds(), self.best
        yield Lines(
            f"{best.correct:,} of {best.guesses:,} guesses of the value were right ({best.name}): epsilon is at least "
            f"{lower} with {100 * (1 - self.settings.alpha):.10g}% confidence",
            f"declared: {stated}",
            *(f"note: {note}" for note in self.notes),
        )
        yield Notice(self._conclusion(), "good" if self.verdict == "no fault found" else "bad")
        yield Paragraph(NO_PROOF)

    def _bounds(self) -> tuple[str, str]:
        """Return the certain epsilon, rounded down, and the declared one, rounded up, in their true order."""
        for digits in count(2):
            step = Decimal(1).scaleb(-digits)
            lower = rounded_down(self.lower, step)
            if self.lower <= self.declared.epsilon:
                return f"{lower:f}", epsilon_text(self.declared.epsilon)
            declared = rounded_up(self.declared.epsilon, step)
            if lower > declared:
                break
        return f"{lower:f}", f"{declared:f}"

    def _conclusion(self) -> str:
        if self.verdict == "violates":
            lower, declared = self._bounds()
            return f"violates: a report reveals more than declared (epsilon at least {lower}, declared {declared})"
        if self.verdict == "deviates":
            names = ", ".join(self.failed)
            return (
                f"deviates: the reports are not those of the declared parameters ({names}); privacy may be worse or "
                "better than declared, and estimates are wrong"
            )
        excess = self.detectable_excess
        if excess is None:
            seen = "that is too few to say how large a fault would have been seen"
        else:
            percent = rounded_up(100 * excess, Decimal("0.1"))
            seen = (
                f"too little noise in every report, with an epsilon {percent:,f}% above the declared one, would have "
                "been seen nine times in ten; a fault in only some of the reports can be larger and not be seen"
            )
        return f"no fault found in {self.settings.reports:,} reports: {seen}"


COUNTED: Final = 1 << 12  # cohorts up to which each is counted; of more, their first and their last bits are


def cohort_checks(answers: Answers, many: int) -> Iterator[Check]:
    """Yield the checks of fresh devices' cohorts, of so many."""
    cohorts, pair = answers.cohorts, answers.values < 2
    views = [(cohorts, np.full(many, 1 / many))] if many <= COUNTED else []
    if not views:
        starts = [-(-place * many // BINS) for place in range(BINS + 1)]
        lasts = [(many - place + BINS - 1) // BINS for place in range(BINS)]
        views = [(binned(cohorts, many), np.diff(starts) / many), (cohorts % BINS, np.array(lasts) / many)]
    alike, apart = [], []
    for groups, law in views:  # in every one the value is a fair coin, for it was one
        alike.append(outcomes_p(np.bincount(groups, minlength=len(law)), law))
        totals, seconds = (np.bincount(groups[pair], each, len(law)) for each in (None, answers.values[pair]))
        apart.append(joined(two_sided(seconds, totals, 0.5)))
    for name, expected, p_values in (
        ("cohorts uniform", f"{many:,} alike", alike),
        ("cohorts and values", "independent", apart),
    ):
        smallest = most_extreme(p_values)
        yield Check(name, expected, f"p = {smallest:.1e} of them", smallest)
    if many > COUNTED:
        repeats = len(cohorts) - len(np.unique(cohorts))
        # Each seed is an earlier one with at most the chance that all earlier ones differ.
        chances = np.minimum(np.arange(len(cohorts)) / many, 1.0)
        expected = f"about {chances.sum():,.1f}"
        yield Check("seeds drawn twice", expected, f"{repeats:,}", too_many(repeats, chances), repeats)


Advance = Callable[[float, str], object]  # called with how many lines have been answered, and what is being done

FEWEST_REPORTS: Final = 200
MOST_REPORTS: Final = 10_000_000
MOST_CELLS: Final = 1 << 29  # bits of all fresh reports together: they are in memory, several times


@dataclass(frozen=True)
class Settings:
    """How long an audit is, and what it takes for granted."""

    reports: int = 100_000  # of fresh devices, from 200
    repeats: int = 16  # reports of each of a device's two values in the test of its memory, from 2
    # The chance that a right client fails any check, and, apart from that, that its epsilon is bounded too high.
    alpha: float = 0.001
    restart: bool = False  # whether devices are asked again in another run, which must remember them
    own_cohorts: bool = False  # whether clients choose their cohorts

    def __post_init__(self) -> None:
        check_count("--reports", self.reports, FEWEST_REPORTS, MOST_REPORTS)
        if not 0 < self.alpha <= 0.5:
            raise ParameterError(f"--alpha {self.alpha:g}: give a chance above 0, at most 0.5")

    @property
    def twins(self) -> int:
        """Lines of each of the processes that start at once."""
        return min(max(self.reports // 10, 100), 2000)

    @property
    def devices(self) -> int:
        return min(max(self.reports // 50, 100), 4000)

    def lines(self, *, takes_metric: bool) -> int:  # of a panel fewer: a bound
        runs = 2 * (2 if self.restart else 1) + takes_metric
        return self.reports + 3 * self.twins + self.devices * self.repeats * runs


def audit(
    declared: Declared,
    client: Program | OwnClient,
    settings: Settings,
    *,
    rng: np.random.Generator | None = None,
    advance: Advance = lambda *_: None,
) -> AuditResult:
    """Audit a client; unless `rng` is given, coins come from the operating system, which no client can foresee."""
    bits = declared.mechanism.payload_bits if declared.are_bits else 1
    if settings.reports * bits > MOST_CELLS:
        problem = f"{bits:,} bits each are too many for the memory; give at most {MOST_CELLS // bits:,}"
        raise ParameterError(f"--reports {settings.reports:,}: {problem}")
    return _Audit(declared, client, settings, rng or np.random.default_rng(), advance).result()


class _Audit:
    def __init__(
        self, declared: Declared, client: Program | OwnClient, settings: Settings, rng: Any, advance: Advance
    ) -> None:
        self.declared, self.client, self.settings, self.rng = declared, client, settings, rng
        self.advance, self.done = advance, 0
        self.conformance = conformance_of(declared)
        self.draws_cohorts = settings.own_cohorts and declared.num_cohorts > 1
        self.checks: list[Check] = []
        self.notes: list[str] = []

    def result(self) -> AuditResult:
        settings, declared = self.settings, self.declared
        choose = settings.own_cohorts
        (answers,) = self._ask(fresh(declared, settings.reports, self.rng, choose=choose))
        self.checks.extend(self.conformance.fresh(answers))
        if self.draws_cohorts:
            self.checks.extend(cohort_checks(answers, declared.num_cohorts))
        games = play(self.conformance, answers, settings.alpha)
        levels = self.conformance.levels(answers.take(answers.values < 2))
        excess = detectable_excess(levels, declared.epsilon, settings.alpha)
        first, second, other = self._ask(*twins(declared, settings.twins, self.rng, choose=choose))
        pairs = (first, second, True), (second, other, False), (first, other, False)
        self.checks.append(self._likeness("processes started at once", *pairs))
        self._remember(choose=choose)
        return AuditResult(declared, settings, self.done, self.checks, games, self.notes, excess)

    def _ask(self, *questions: Questions) -> list[Answers]:
        self.advance(self.done, questions[0].phase)
        answers = self.client.answer(self.declared, questions)
        self.done += sum(map(len, questions))
        self.advance(self.done, "checking")
        return answers

    def _likeness(self, name: str, *pairs: tuple[Answers, Answers, bool]) -> Check:
        """Check that each two runs, perhaps of the same devices, have noise of their own; the last pair is shown."""
        p_values = [self.conformance.likeness(one, two, same_devices=same) for one, two, same in pairs]
        first, other, _ = pairs[-1]
        same = int(self.conformance.same(first, other).sum())
        texts = ("independent", f"{same:,} of {len(first):,} reports equal")
        return Check(name, *texts, most_extreme([*p_values, *self._equal_cohorts(first, other)]), same)

    def _equal_cohorts(self, first: Answers, second: Answers) -> list[float]:
        """Return a bound of how rarely as many lines of two runs have the same cohort, where clients choose it."""
        same = int((first.cohorts == second.cohorts).sum())
        return [too_many(same, np.full(len(first), 1 / self.declared.num_cohorts))] if self.draws_cohorts else []

    def _remember(self, *, choose: bool) -> None:
        """Check that devices repeat each value's permanent response (not a panel's), and no two noises are alike."""
        settings, devices, afresh = self.settings, self.settings.devices, self.declared.afresh
        questions = repeated(self.declared, devices, settings.repeats, self.rng, choose=choose)
        (answers,) = self._ask(questions)
        turns = np.arange(len(answers)).reshape(settings.repeats, -1)  # first each device's one value, then its other
        first, second = self.conformance.encoded(answers.take(turns[0])).reshape(2, devices, -1)
        differ = np.flatnonzero((first != second).any(axis=1))  # whose values are encoded differently
        kept = np.append(np.arange(devices), devices + differ)
        if afresh:  # a device's answers of one value, two by two, are as alike as those of two devices
            one, other = (answers.take(turns[start : len(turns) // 2 * 2 : 2].ravel()) for start in (0, 1))
            self.checks.append(self._likeness("answers of a device", (one, other, False)))
            turns = turns[:1]
        else:
            self.checks.extend(self._memory(answers, kept))
        values = (answers.take(turns[:, columns].ravel()) for columns in (differ, devices + differ))
        self.checks.append(self._apart("two values of a device", *values))
        if self.client.takes_metric:
            one = answers.take(turns[:, :devices].ravel())
            (other,) = self._ask(replace(one.questions, metric=1))
            self.checks.append(self._apart("two metrics of a device", one, other))
        else:
            self.notes.append(METRICS_UNTESTED)
        if settings.restart and not afresh:
            (again,) = self._ask(questions)
            self.checks.extend(self._memory(answers.then(again), kept, " after a restart"))
        else:
            self.notes.append(NO_MEMORY if afresh else RESTART_UNTESTED)

    def _memory(self, answers: Answers, kept: Column, after: str = "") -> Iterator[Check]:
        """Yield the checks that devices' cohorts, and the values in the columns `kept` of each turn, are remembered."""
        devices = self.settings.devices
        if self.draws_cohorts:
            cohorts = answers.cohorts.reshape(-1, devices)
            moved = int((cohorts != cohorts[0]).any(axis=0).sum())
            texts = f"all {devices:,} devices have one", f"{moved:,} do not"
            yield Check("memory of the cohort" + after, *texts, 0.0 if moved else 1.0, moved)
        turns = np.arange(len(answers)).reshape(-1, 2 * devices)
        yield from self.conformance.memory(answers.take(turns[:, kept].ravel()), len(turns), after)

    def _apart(self, name: str, first: Answers, second: Answers) -> Check:
        """Check that the noise of the same devices is independent."""
        p_values = [self.conformance.apart(first, second, 1 if self.declared.afresh else self.settings.repeats)]
        if second.questions.metric:
            turn = slice(self.settings.devices)
            p_values += self._equal_cohorts(first.take(turn), second.take(turn))
        p_value = most_extreme(p_values)
        return Check(name, "independent", f"p = {p_value:.1e}", p_value)
