"""What one person's shuffled reports reveal to whoever sees all of them: epsilon and delta, and what they rest on.

Of reports that came through a relay it may be claimed from recorded releases, and from nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from overstory.presentation.document import Block, Lines
from overstory.presentation.formats import epsilon_text, plural
from overstory.privacy.payloads.base import terms_class
from overstory.privacy.payloads.blankets import MOST_PERIODS, Blanket, clones
from overstory.privacy.terms import add_up
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind

DELTA: Final = 1e-9
MOST_REPORTS: Final = 10**15

BATCH: Final = (
    "In each period the reports arrive as one batch, in an order that says nothing, and nothing else comes with them: "
    "no address, no time, no token. Whoever shuffles does not work with whoever reads."
)
OWN_SHUFFLE: Final = "The collector's own shuffle of stored reports does not count: it sees the reports arrive."
ONE_MESSAGE: Final = (
    "Reports of one device that travel together, such as a gateway's, are one message: count devices, not reports."
)
TAKING_PART: Final = (
    "In every period, at least that many of the same honest devices are in one batch with the person's: a device that "
    "is there in some periods alone hides nobody."
)
UNCHANGED: Final = "Nobody's value changes, neither hers nor any other's: of several values nothing is stated."
GENERIC: Final = "The bound of any mechanism of this epsilon: this one's own is not computed."
KNOWN_SEED: Final = (
    "A report has a cohort or seed, which perhaps no other device has: once somebody knows hers, "
    "shuffling hides nothing."
)


@dataclass(frozen=True)
class CentralPrivacy:
    """What shuffled reports reveal: epsilon but for a chance of delta, among a number of reports.

    Attributes
    ----------
    epsilon
        In nats, a bound, rounded up; never above the epsilon of reports that are not shuffled.
    delta
        The chance by which it may be exceeded.
    reports
        Honest reports in the smallest batch, the person's own included.
    periods
        Reports of the person, one in each period; None for any number.
    known_cohort
        The epsilon, at the same delta, where somebody knows the person's cohort; None without cohorts.
    rests_on
        What has to be true for that, a sentence each.
    """

    epsilon: float
    delta: float
    reports: int
    periods: int | None
    known_cohort: float | None
    rests_on: tuple[str, ...]

    def words(self) -> str:
        """Return the claim in a sentence: never an epsilon without its delta and its number of reports."""
        several = "any number of reports" if self.periods is None else plural(self.periods, "report")
        return (
            f"shuffled among {self.reports:,} honest reports, {several} of a person: epsilon "
            f"{epsilon_text(self.epsilon)} at delta {self.delta:g}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        return {
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "reports": self.reports,
            "periods": self.periods,
            "epsilon_known_cohort": self.known_cohort,
            "rests_on": list(self.rests_on),
        }

    def blocks(self) -> Iterator[Block]:
        """Return the claim, and what it rests on."""
        yield Lines(f"{self.words()[:1].upper()}{self.words()[1:]}. It rests on this:", *self.rests_on)


def shuffled(
    mechanism: Kind,
    reports: int,
    delta: float = DELTA,
    *,
    periods: int | None = 1,
    honest: float = 1.0,
    afresh: bool = False,
) -> CentralPrivacy:
    """Return what a person's reports reveal that arrive shuffled among those of others: a certified upper bound.

    The privacy blanket of Balle, Bell, Gascón and Nissim (CRYPTO 2019), from the mechanism's exact thresholds; of a
    mechanism whose blanket is not computed, the clones of Feldman, McMillan and Talwar (FOCS 2021). Reports of several
    periods share a permanent response, so composition theorems do not apply: what is counted is one shuffle of all
    reports of a device together, or of its permanent response, whichever reveals less.

    Parameters
    ----------
    mechanism
        What the reports are made with.
    reports
        Reports in the smallest batch that is released together, from 2; several reports of one device count once.
    delta
        The chance by which epsilon may be exceeded: above 0, and at most 1 / (10 reports).
    periods
        Reports of the person, one in each period, of one value; None for any number.
    honest
        The share of the reports that come from devices which do as declared, above 0: only these hide anybody.
    afresh
        Whether each report has cohort and noise of its own, as in a panel, also where the mechanism memoizes.

    Raises
    ------
    ParameterError
        When a number is out of range.

    References
    ----------
    Balle, Bell, Gascón, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019.

    Examples
    --------
    RAPPOR's own parameters, one report and any number of one value:

    >>> from overstory.protocol.kinds.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> [round(shuffled(rappor, 100_000, 1e-6, periods=n).epsilon, 4) for n in (1, None)]
    [0.0067, 0.1036]
    """
    number = _honest(reports, honest)
    _check(number, delta, periods)
    # Answers with noise of their own are independent: the epsilons and the deltas add up.
    times, each = (math.inf if periods is None else periods, 1) if afresh else (1, periods)
    chance = delta if math.isinf(times) else delta / times

    def together(one: float) -> float:
        return math.inf if math.isinf(times) else add_up([(int(times), one)])

    epsilon = together(_epsilon(mechanism, number, chance, each))
    rests_on = tuple(_sentences(mechanism, reports, number, periods))
    if mechanism.num_cohorts == 1:
        return CentralPrivacy(epsilon, delta, number, periods, None, rests_on)
    fewest = _fewest(number, mechanism.num_cohorts, chance / 2)
    known = together(_epsilon(mechanism, fewest, chance / 2, each, in_cohort=True))
    return CentralPrivacy(epsilon, delta, number, periods, known, (*rests_on, _of_cohorts(fewest, known)))


def blankets_of(mechanism: Kind, periods: int | None = 1, *, in_cohort: bool = False) -> list[Blanket]:
    """Return blankets of one value in `periods`, each shuffled (None: any number); the largest bound holds."""
    blankets = terms_class(mechanism).blankets(mechanism, periods, in_cohort=in_cohort)
    if not blankets:
        epsilon = mechanism.epsilon_permanent if periods is None else mechanism.epsilon_n(periods)
        return [clones(epsilon)]
    return blankets


def has_own_blanket(mechanism: Kind) -> bool:
    """Whether the bound is the mechanism's own, not that of any mechanism of its epsilon."""
    return bool(terms_class(mechanism).blankets(mechanism, 1, in_cohort=True))


def _fewest(reports: int, cohorts: int, delta: float) -> int:
    """Return how many of the reports are of her cohort, but for a chance of `delta`: hers, and others at random.

    A sum of independent bits with mean mu is at most mu - sqrt(2 mu ln(1/delta)) with a chance of at most delta
    (Chernoff).
    """
    mean = (reports - 1) / cohorts
    return 1 + max(0, math.floor(mean - math.sqrt(2 * mean * math.log(1 / delta))))


def _honest(reports: int, honest: float) -> int:
    if not isinstance(reports, int) or isinstance(reports, bool) or not 2 <= reports <= MOST_REPORTS:
        raise ParameterError(f"{reports!r} shuffled reports: give a whole number from 2 to {MOST_REPORTS:.0e}")
    if not isinstance(honest, int | float) or isinstance(honest, bool) or not 0 < honest <= 1:
        raise ParameterError(f"honest = {honest!r}: give the share of reports by honest devices, above 0 and at most 1")
    number = math.floor(reports * honest)
    if number < 2:
        raise ParameterError(f"{honest:g} of {reports} reports is fewer than 2 honest ones: nobody is hidden")
    return number


def _check(reports: int, delta: float, periods: int | None) -> None:
    most = 1 / (10 * reports)
    if not isinstance(delta, int | float) or isinstance(delta, bool) or not 0 < delta <= most:
        raise ParameterError(
            f"delta = {delta!r}: give a chance above 0 and at most {most:.2g}, a tenth of one in the {reports:,} "
            "reports; with a larger one, a person's value might simply be published"
        )
    if periods is not None and (not isinstance(periods, int) or isinstance(periods, bool) or periods < 1):
        raise ParameterError(f"periods = {periods!r}: give a whole number from 1, or None for any number")


def _epsilon(mechanism: Kind, reports: int, delta: float, periods: int | None, *, in_cohort: bool = False) -> float:
    def bound(chance: float, number: int | None) -> float:
        blankets = blankets_of(mechanism, number, in_cohort=in_cohort)
        return max(blanket.epsilon(reports, chance) for blanket in blankets)

    best = mechanism.epsilon_permanent if periods is None else mechanism.epsilon_n(periods)
    if mechanism.fresh:
        if periods is None:
            return math.inf
        # Fresh noise of different periods is independent: the epsilons and the deltas add up.
        best = min(best, math.nextafter(periods * bound(delta / periods, 1), math.inf))
        return min(best, bound(delta, periods)) if 1 < periods <= MOST_PERIODS else best
    # Whatever is drawn afresh and permuted later follows from one shuffle of the permanent responses.
    best = min(best, bound(delta, None))
    return best if periods is None else min(best, bound(delta, periods))


def _sentences(mechanism: Kind, reports: int, number: int, periods: int | None) -> Iterator[str]:
    yield BATCH
    if number < reports:
        yield f"{number:,} of the {reports:,} reports are honest: those of colluders and robots hide nobody."
    else:
        yield f"All {reports:,} reports are of honest devices: those of colluders and robots hide nobody."
    if periods != 1:
        yield TAKING_PART
        yield UNCHANGED
    if not has_own_blanket(mechanism):
        yield GENERIC
    yield ONE_MESSAGE
    yield OWN_SHUFFLE


def _of_cohorts(fewest: int, known: float) -> str:
    if fewest < 2:
        return KNOWN_SEED
    return (
        f"Nobody knows the person's cohort, which is in every report. To somebody who does, her "
        f"reports reveal epsilon {epsilon_text(known)} at the same delta: only reports of that cohort hide hers, and "
        f"there may be as few as {fewest:,}."
    )


ONE_BY_ONE: Final = (
    "Reports that a relay passes on one by one are shuffled only if the times of their arrival say nothing about their "
    "senders: that is assumed, and how many hide each other is not recorded, so no epsilon is stated."
)
GROUPED: Final = (
    "Reports name their group in clear, so only those of one group hide each other; how many these are in a batch is "
    "not known, so no epsilon is stated."
)
SEVERAL: Final = (
    "; whether the same devices were there in each period is not recorded, so of several reports no epsilon is stated"
)
NO_REPORTS: Final = "There are no reports in this range."


class Released(Protocol):
    """What was released of a metric and period."""

    @property
    def smallest(self) -> int:
        """Messages in the smallest release."""
        ...

    @property
    def complete(self) -> bool:
        """Whether these are all reports of the period, made with the same parameters."""
        ...


@dataclass(frozen=True)
class CentralClaim:
    """What shuffled reports reveal, or why that is not stated."""

    privacy: CentralPrivacy | None  # None where nothing is recorded that it could rest on
    reason: str  # where the number of reports comes from, or why there is no claim

    def to_json(self) -> dict[str, Any]:
        return {**({} if self.privacy is None else self.privacy.to_json()), "reason": self.reason}

    def sentences(self) -> list[str]:
        if self.privacy is None:
            return [f"central privacy: {self.reason}"]
        rests_on = (f"  rests on: {sentence}" for sentence in self.privacy.rests_on)
        return [f"central privacy: {self.privacy.words()}", f"  {self.reason}", *rests_on]

    def blocks(self) -> list[Block]:
        return [Lines(*self.sentences())]


@dataclass(frozen=True)
class ReleasedPeriods:
    """The smallest release of each period of a metric."""

    smallest: Mapping[int, int] = field(default_factory=dict)  # messages, by period; 0: some reports came another way
    grouped: bool = False  # whether reports name a group

    @classmethod
    def of(cls, periods: Iterable[int], released: Mapping[int, Released], *, grouped: bool) -> Self:
        """Return the smallest releases of periods with reports, from what a store has of them."""
        complete = {period: each.smallest for period, each in released.items() if each.complete}
        return cls({period: complete.get(period, 0) for period in periods}, grouped)

    def claim(self, mechanism: Kind) -> CentralClaim:
        """Return what one report of this mechanism reveals, in any of the periods."""
        sizes = self.smallest.values()
        without = sum(not size for size in sizes)
        if not sizes:
            return CentralClaim(None, NO_REPORTS)
        if self.grouped:
            return CentralClaim(None, GROUPED)
        if without:
            where = f"In {without} of {plural(len(sizes), 'period')}, reports did not all come in a recorded release. "
            return CentralClaim(None, where + ONE_BY_ONE)
        number = min(sizes)
        if number < 2:
            return CentralClaim(None, f"The smallest release had {plural(number, 'message')}: it hides nobody.")
        privacy = shuffled(mechanism, number, min(DELTA, 1 / (10 * number)))
        several, more = ("", "") if len(sizes) == 1 else (f" of {len(sizes)} periods", SEVERAL)
        return CentralClaim(
            privacy, f"the smallest release{several} had {number:,} messages, as the collector recorded{more}"
        )
