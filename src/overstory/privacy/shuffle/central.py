"""What one person's shuffled reports reveal to whoever sees all of them: epsilon and delta, and what they rest on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from overstory.presentation.document import Block, Lines
from overstory.privacy.shuffle.mechanisms import MOST_PERIODS, blankets_of, has_own_blanket
from overstory.privacy.text import epsilon_text, plural
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer

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
    "Every device reports in each period, or whether it does says nothing about its value; each period has at "
    "least that many reports."
)
UNCHANGED: Final = "All reports are of one unchanged value: a change of value is not covered."
SAME_PATTERN: Final = "Both histories change between as many values at the same times."
GENERIC: Final = "The bound of any mechanism of this epsilon: this one's own is not computed."
KNOWN_SEED: Final = (
    "A report has a seed of its device, always the same: once somebody knows whose it is, shuffling hides nothing."
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
    values
        Different values that these reports are of.
    known_cohort
        The epsilon where somebody knows the person's cohort, so that only its reports hide hers; None without cohorts.
    rests_on
        What has to be true for that, a sentence each.
    """

    epsilon: float
    delta: float
    reports: int
    periods: int | None
    values: int
    known_cohort: float | None
    rests_on: tuple[str, ...]

    def words(self) -> str:
        """Return the claim in a sentence: never an epsilon without its delta and its number of reports."""
        several = "any number of reports" if self.periods is None else plural(self.periods, "report")
        of = f" of {self.values} values" if self.values > 1 else ""
        return (
            f"shuffled among {self.reports:,} honest reports, {several} of a person{of}: epsilon "
            f"{epsilon_text(self.epsilon)} at delta {self.delta:g}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        return {
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "reports": self.reports,
            "periods": self.periods,
            "values": self.values,
            "epsilon_known_cohort": self.known_cohort,
            "rests_on": list(self.rests_on),
        }

    def blocks(self) -> Iterator[Block]:
        """Return the claim, and what it rests on."""
        yield Lines(f"{self.words()[:1].upper()}{self.words()[1:]}. It rests on this:", *self.rests_on)


def shuffled(
    mechanism: LocalRandomizer,
    reports: int,
    delta: float = DELTA,
    *,
    periods: int | None = 1,
    values: int = 1,
    honest: float = 1.0,
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
    values
        So many different values, each reported any number of times: then `periods` must be None.
    honest
        The share of the reports that come from devices which do as declared, above 0: only these hide anybody.

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

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> [round(shuffled(rappor, 100_000, 1e-6, periods=n).epsilon, 4) for n in (1, None)]
    [0.0067, 0.1036]
    """
    number = _honest(reports, honest)
    _check(number, delta, periods, values)
    epsilon = _epsilon(mechanism, number, delta, periods, values)
    of_cohort = number // mechanism.num_cohorts
    known = None
    if mechanism.num_cohorts > 1:
        known = _local(mechanism, periods, values)
        if of_cohort >= 2:
            known = min(known, _epsilon(mechanism, of_cohort, delta, periods, values))
    rests_on = tuple(_sentences(mechanism, reports, number, periods, values, known))
    return CentralPrivacy(epsilon, delta, number, periods, values, known, rests_on)


def _honest(reports: int, honest: float) -> int:
    if not isinstance(reports, int) or isinstance(reports, bool) or not 2 <= reports <= MOST_REPORTS:
        raise ParameterError(f"{reports!r} shuffled reports: give a whole number from 2 to {MOST_REPORTS:.0e}")
    if not isinstance(honest, int | float) or isinstance(honest, bool) or not 0 < honest <= 1:
        raise ParameterError(f"honest = {honest!r}: give the share of reports by honest devices, above 0 and at most 1")
    number = math.floor(reports * honest)
    if number < 2:
        raise ParameterError(f"{honest:g} of {reports} reports is fewer than 2 honest ones: nobody is hidden")
    return number


def _check(reports: int, delta: float, periods: int | None, values: int) -> None:
    most = 1 / (10 * reports)
    if not isinstance(delta, int | float) or isinstance(delta, bool) or not 0 < delta <= most:
        raise ParameterError(
            f"delta = {delta!r}: give a chance above 0 and at most {most:.2g}, a tenth of one in the {reports:,} "
            "reports; with a larger one, a person's value might simply be published"
        )
    if periods is not None and (not isinstance(periods, int) or isinstance(periods, bool) or periods < 1):
        raise ParameterError(f"periods = {periods!r}: give a whole number from 1, or None for any number")
    if not isinstance(values, int) or isinstance(values, bool) or values < 1:
        raise ParameterError(f"values = {values!r}: give a whole number from 1")
    if values > 1 and periods is not None:
        raise ParameterError("several values are counted for any number of periods: leave the periods out")


def _epsilon(mechanism: LocalRandomizer, reports: int, delta: float, periods: int | None, values: int) -> float:
    best = _local(mechanism, periods, values)
    if mechanism.fresh:
        if periods is None:
            return math.inf
        # Fresh noise of different periods is independent: the epsilons and the deltas add up.
        single = _bound(mechanism, reports, delta / periods, 1, 1)
        best = min(best, math.nextafter(periods * single, math.inf))
        return min(best, _bound(mechanism, reports, delta, periods, 1)) if 1 < periods <= MOST_PERIODS else best
    # Whatever is drawn afresh and permuted later follows from one shuffle of the permanent responses.
    best = min(best, _bound(mechanism, reports, delta, None, values))
    return best if periods is None else min(best, _bound(mechanism, reports, delta, periods, values))


def _bound(mechanism: LocalRandomizer, reports: int, delta: float, periods: int | None, values: int) -> float:
    return max(blanket.epsilon(reports, delta) for blanket in blankets_of(mechanism, periods, values))


def _local(mechanism: LocalRandomizer, periods: int | None, values: int) -> float:
    """Return the epsilon of the same reports where they are not shuffled."""
    return values * (mechanism.epsilon_permanent if periods is None else mechanism.epsilon_n(periods))


def _sentences(
    mechanism: LocalRandomizer, reports: int, number: int, periods: int | None, values: int, known: float | None
) -> Iterator[str]:
    yield BATCH
    if number < reports:
        yield f"{number:,} of the {reports:,} reports are honest: those of colluders and robots hide nobody."
    else:
        yield f"All {reports:,} reports are of honest devices: those of colluders and robots hide nobody."
    if periods != 1:
        yield TAKING_PART
        yield SAME_PATTERN if values > 1 else UNCHANGED
    if known is not None:
        yield _of_cohorts(mechanism.num_cohorts, number, known)
    if not has_own_blanket(mechanism):
        yield GENERIC
    yield ONE_MESSAGE
    yield OWN_SHUFFLE


def _of_cohorts(cohorts: int, reports: int, known: float) -> str:
    if reports // cohorts < 2:
        return KNOWN_SEED
    return (
        f"Nobody knows the person's cohort, which is in every report and always the same. To somebody who does, her "
        f"reports reveal epsilon {epsilon_text(known)}: only the {reports // cohorts:,} or so of that cohort hide hers."
    )
