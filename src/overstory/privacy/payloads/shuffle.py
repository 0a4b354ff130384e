"""What one person's shuffled report reveals to whoever sees all of them: epsilon and delta, by the privacy blanket.

Neighbours differ in the value of one person; n reports are permuted uniformly, and nothing else comes with them. Let
gamma omega(y) <= P(y | value) for every value and every report y: with probability gamma a report is drawn from omega,
whatever the value. For two values let r(y) = P(y | x) / (gamma omega(y)), r'(y) the same for x', y drawn from omega.
With X = 0 with probability 1 - gamma, else X = r - e^epsilon r',

    delta(epsilon) = E[(X_1 + ... + X_n)_+] / n        (Balle, Bell, Gascón, Nissim, CRYPTO 2019, section 5)

bounds delta of the shuffled reports, and no other decomposition gives less (Su, Cheng, Wang, arXiv 2504.07414).

The expectation is bounded by an exponential tilt: for any t > 0, with the tilted law's mean 0 or not,

    E[S_+] = e^(n K(t)) E_t[S_+ e^(-t S)],      K(t) = ln E[e^(t X)]

The last expectation is at most 1 / (t e); it is also at most its value for a normal S plus twice the Berry-Esseen
distance over t e, because y e^(-t y) on y > 0 varies by 2 / (t e) in all. So every number here is a bound from above.

*Blankets of mechanisms* come from the exact thresholds. A law of r - e^epsilon r'
that is above another in convex order gives a larger bound. So these do, whatever the cohort:

- a value that has its bits, against nothing, a value with fewer, or one that is not asked for: their ratios are
  conditional expectations of its own;
- two values without a common bit, against two that share some; and two symbols that differ, against one symbol for
  both: for a convex f, E[f(r - t r')] is least where r and r' rise together (f(x - t y) is submodular).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from overstory.presentation.formats import epsilon_text, plural
from overstory.privacy.terms import terms_class
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind

if TYPE_CHECKING:
    from overstory.protocol.kinds.bits import BitMechanism
    from overstory.protocol.kinds.symbols import OutputMechanism
    from overstory.protocol.numeric.mechanisms import NumericRandomizer

Atom = tuple[float, float, float]  # A probability under omega, and there r and r'

BERRY_ESSEEN: Final = 0.4748  # for independent summands of one law (Shevtsova, arXiv 1111.6554)
ROUNDING: Final = 1 + 1e-9  # covers the rounding of floats, which is below 1e-11 at 10^8 reports
TILTS: Final = (1.0, 1.02, 1.05, 1.1, 1.2)
"""Multiples of the tilt that centres the law: any is valid, and the best is taken."""
TOLERANCE: Final = 1e-7  # how far an epsilon may be above the least that the bound gives, relatively
STEPS: Final = 200
_SQRT_2PI: Final = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Blanket:
    """What a pair of values has in common with all others."""

    gamma: float  # the share of a report that does not depend on the value, above 0
    atoms: tuple[Atom, ...]  # the joint law of r and r' under omega: the probabilities add up to 1

    def delta(self, epsilon: float, reports: int) -> float:
        return self._delta(epsilon, reports, 1.0)[0]

    def _delta(self, epsilon: float, reports: int, near: float) -> tuple[float, float]:
        """Return the bound, and the tilt that it was found with; `near` is where to look for that."""
        odds = math.exp(epsilon)
        law = _Law(self.gamma, [(weight, r - odds * s) for weight, r, s in self.atoms])
        if law.largest <= 0:
            return 0.0, near
        tilt = law.centring_tilt(near)
        return min(law.bound(tilt * factor, reports) for factor in TILTS) / reports * ROUNDING, tilt

    def epsilon(self, reports: int, delta: float) -> float:
        """Return an epsilon at which the bound is at most `delta`: about the least such, and never below it."""
        local = max(abs(math.log(r / s)) for _, r, s in self.atoms)
        low, high, tilt = 0.0, local, 1.0
        for _ in range(STEPS):
            if high - low <= TOLERANCE * high:
                break
            middle = (low + high) / 2
            bound, tilt = self._delta(middle, reports, tilt)
            low, high = (low, middle) if bound <= delta else (middle, high)
        return math.nextafter(high, math.inf)


def two_levels(gamma: float, *, odds: float, alone: float, both: float) -> Blanket:
    """Return the blanket where a report supports a value, and is then `odds` times likelier, or does not."""
    rest = 1 - 2 * alone - both
    atoms = ((alone, odds, 1.0), (alone, 1.0, odds), (both, odds, odds), (rest, 1.0, 1.0))
    return Blanket(gamma, tuple(atom for atom in atoms if atom[0] > 0))


def clones(epsilon: float) -> Blanket:
    """Return the blanket of any mechanism of that epsilon (Feldman, McMillan, Talwar, FOCS 2021)."""
    odds = math.exp(epsilon)
    high, low = 2 * odds * odds / (odds + 1), 2 * odds / (odds + 1)
    return Blanket(1 / odds, ((0.5, high, low), (0.5, low, high)))


class _Law:
    """The law of X: 0 with probability 1 - gamma, else one of the atoms."""

    def __init__(self, gamma: float, atoms: Iterable[tuple[float, float]]) -> None:
        self._gamma, self._atoms = gamma, list(atoms)
        self.largest = max(x for _, x in self._atoms)

    def centring_tilt(self, near: float) -> float:
        """Return about the t > 0 at which the tilted mean is 0: the least of E[e^(t X)], which is convex in t."""
        low = high = near
        while self._slope(high) < 0:
            low, high = high, 2 * high
        while low == high or (low > 1e-300 and self._slope(low) >= 0):
            low, high = low / 2, low
        for _ in range(6):
            middle = (low + high) / 2
            low, high = (middle, high) if self._slope(middle) < 0 else (low, middle)
        return high

    def _slope(self, t: float) -> float:
        """The derivative of E[e^(t X)], over e^(t largest): of the same sign, and never too large for a float."""
        return math.fsum(weight * x * math.exp(t * (x - self.largest)) for weight, x in self._atoms)

    def bound(self, t: float, reports: int) -> float:
        """Return a bound on E[S_+] by the tilt t; infinite where a float cannot hold it."""
        try:
            log_mean = math.log1p(self._gamma * math.fsum(weight * math.expm1(t * x) for weight, x in self._atoms))
            growth = math.exp(reports * log_mean)
            tilted = [(self._gamma * weight * math.exp(t * x - log_mean), x) for weight, x in self._atoms]
        except OverflowError:
            return math.inf
        most = 1 / (t * math.e)  # of y e^(-t y)
        return growth * min(most, _normal_part(tilted, (1 - self._gamma) * math.exp(-log_mean), t, reports, most))


def _normal_part(tilted: Sequence[tuple[float, float]], stays: float, t: float, reports: int, most: float) -> float:
    """Return E[Y_+ e^(-t Y)] of a normal Y like the sum, and what the sum may differ from it by."""
    mean = math.fsum(p * x for p, x in tilted)
    variance = math.fsum(p * (x - mean) ** 2 for p, x in tilted) + stays * mean * mean
    third = math.fsum(p * abs(x - mean) ** 3 for p, x in tilted) + stays * abs(mean) ** 3
    if variance <= 0:
        return math.inf
    centre, spread = reports * mean, math.sqrt(reports * variance)
    shifted = centre - t * spread * spread  # the mean of Y under the further tilt by -t
    u = shifted / spread
    distance = BERRY_ESSEEN * third / (variance * math.sqrt(variance * reports))
    return _tilted_normal(t, centre, spread, shifted, u) + 2 * distance * most


def _tilted_normal(t: float, centre: float, spread: float, shifted: float, u: float) -> float:
    """Return e^(-t centre + t^2 spread^2 / 2) (shifted Phi(u) + spread phi(u)), u = shifted / spread."""
    if u < -25:
        # u Phi(u) + phi(u) <= phi(u) / u^2 (Mills), and phi(u) times the factor in front is phi(centre / spread).
        return spread * math.exp(-((centre / spread) ** 2) / 2) / _SQRT_2PI / (u * u)
    factor = math.exp(min(-t * centre + t * t * spread * spread / 2, 700.0))
    below = math.erfc(-u / math.sqrt(2)) / 2
    return factor * (shifted * below + spread * math.exp(-u * u / 2) / _SQRT_2PI)


Ratios = Mapping[float, float]
"""What one value's report is likelier by than the blanket, with its probability under omega."""


# --- bits -----------------------------------------------------------------------------------------------------------


def of_bits(mechanism: BitMechanism, *, in_cohort: bool) -> list[Blanket]:
    """Return the blankets of a vector of bits."""
    encoding, channel = mechanism.encoding, mechanism.rounds.combined
    # P(a report's bit | it is the value's) / P(the same | it is not), with the latter.
    high, low = channel.keep_one, channel.raise_zero
    ratios = {float(high / low): float(low), float((1 - high) / (1 - low)): float(1 - low)}
    if encoding.asked < 1 and not in_cohort:
        return list(_of_sampled_bits(ratios, float(encoding.asked)))
    # A vector of the value's own bits: r is the product of the ratios of its bits.
    least, bits = min(ratios), encoding.ones[1]
    law = _product(ratios, least, bits)
    return [Blanket(least**bits, tuple((p * q, r, s) for r, p in law.items() for s, q in law.items()))]


def _product(ratios: Ratios, least: float, bits: int) -> Ratios:
    """Return the law of the product of `bits` independent ratios over the least; equal ones are merged."""
    law: dict[float, float] = {1.0: 1.0}
    for _ in range(bits):
        merged: dict[float, tuple[float, float]] = {}
        for before, chance in law.items():
            for ratio, more in ratios.items():
                value = before * (ratio / least)
                key = round(math.log(value), 10)
                merged[key] = (value, merged.get(key, (0.0, 0.0))[1] + chance * more)
        law = dict(merged.values())
    return law


def _of_sampled_bits(ratios: Ratios, asked: float) -> Iterator[Blanket]:
    """Yield the blankets where a device answers for some of the values: how often for both of two is not known."""
    least = min(ratios)
    answered = {ratio / least: chance for ratio, chance in ratios.items()}
    silent = {1 / least: 1.0}
    for both in {max(0.0, 2 * asked - 1), asked}:
        kinds = ((both, answered, answered), (asked - both, answered, silent), (asked - both, silent, answered))
        neither = 1 - 2 * asked + both
        atoms = [
            (share * first * second, r, s)
            for share, law, other in (*kinds, (neither, silent, silent))
            for r, first in law.items()
            for s, second in other.items()
            if share > 0
        ]
        yield Blanket(least, tuple(atoms))


# --- outputs, numbers -----------------------------------------------------------------------------------------------


def of_outputs(mechanism: OutputMechanism, *, in_cohort: bool) -> list[Blanket]:
    """Return the blanket of a report that is one of K outputs."""
    (keep, other), encoding = mechanism.chances(), mechanism.encoding
    outputs, own, shared = encoding.sizes
    # Of a few pseudo-random seeds, no two values are known to collide in any: this bound is then larger than needed.
    common = Fraction(shared, own) if in_cohort or encoding.uneven else encoding.collision
    if keep < other:  # the value's own output is the unlikely one: what is left of all others is in the blanket
        return []
    alone, both = own * (1 - common) / outputs, own * common / outputs
    return [two_levels(float(outputs * other), odds=float(keep / other), alone=float(alone), both=float(both))]


def of_windows(mechanism: NumericRandomizer, *, in_cohort: bool) -> list[Blanket]:  # noqa: ARG001 - it has one
    """Return the blanket of a cell of one of two windows that share the fewest cells: those of both ends."""
    from overstory.protocol.numeric.mechanisms import WindowChannel

    channel = mechanism.channel
    if not isinstance(channel, WindowChannel):
        return []
    cells, both = channel.num_cells, max(0, channel.window - (channel.num_positions - 1))
    alone = Fraction(channel.window - both, cells)
    gamma = channel.probability(cells - 1, 0) * cells
    return [two_levels(float(gamma), odds=float(channel.odds), alone=float(alone), both=both / cells)]


BLANKETS: Final = {"bits": of_bits, "outputs": of_outputs, "windows": of_windows}
"""As `PayloadTerms.blankets` names them."""

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
GENERIC: Final = "The bound of any mechanism of this epsilon: this one's own is not computed."
KNOWN_SEED: Final = (
    "A report has a cohort or seed, which perhaps no other device has: once somebody knows hers, "
    "shuffling hides nothing."
)


@dataclass(frozen=True)
class CentralPrivacy:
    """What shuffled reports reveal: epsilon but for a chance of delta, among a number of reports."""

    epsilon: float  # in nats, a bound, rounded up; never above the epsilon of reports that are not shuffled
    delta: float  # the chance by which it may be exceeded
    reports: int  # honest reports in the smallest batch, the person's own included
    # the epsilon, at the same delta, where somebody knows the person's cohort; None without cohorts
    known_cohort: float | None
    rests_on: tuple[str, ...]  # what has to be true for that, a sentence each

    def words(self) -> str:
        """Return the claim in a sentence: never an epsilon without its delta and its number of reports."""
        return (
            f"shuffled among {self.reports:,} honest reports, 1 report of a person: epsilon "
            f"{epsilon_text(self.epsilon)} at delta {self.delta:g}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        return {
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "reports": self.reports,
            "epsilon_known_cohort": self.known_cohort,
            "rests_on": list(self.rests_on),
        }


def shuffled(mechanism: Kind, reports: int, delta: float = DELTA, *, honest: float = 1.0) -> CentralPrivacy:
    """Return what a person's report reveals that arrives shuffled among those of others: a certified upper bound.

    The privacy blanket of Balle, Bell, Gascón and Nissim (CRYPTO 2019), from the mechanism's exact thresholds; of a
    mechanism whose blanket is not computed, the clones of Feldman, McMillan and Talwar (FOCS 2021). Reports of several
    periods share a permanent response, so composition theorems do not apply: of these nothing is stated.

    Parameters
    ----------
    mechanism
        What the reports are made with.
    reports
        Reports in the smallest batch that is released together, from 2; several reports of one device count once.
    delta
        The chance by which epsilon may be exceeded: above 0, and at most 1 / (10 reports).
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
    RAPPOR's own parameters:

    >>> from overstory.protocol.kinds.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> round(shuffled(rappor, 100_000, 1e-6).epsilon, 4)
    0.0067
    """
    number = _honest(reports, honest)
    most = 1 / (10 * number)
    if not isinstance(delta, int | float) or isinstance(delta, bool) or not 0 < delta <= most:
        raise ParameterError(
            f"delta = {delta!r}: give a chance above 0 and at most {most:.2g}, a tenth of one in the {number:,} "
            "reports; with a larger one, a person's value might simply be published"
        )
    epsilon = _epsilon(mechanism, number, delta)
    rests_on = tuple(_sentences(mechanism, reports, number))
    if mechanism.num_cohorts == 1:
        return CentralPrivacy(epsilon, delta, number, None, rests_on)
    fewest = _fewest(number, mechanism.num_cohorts, delta / 2)
    known = _epsilon(mechanism, fewest, delta / 2, in_cohort=True)
    return CentralPrivacy(epsilon, delta, number, known, (*rests_on, _of_cohorts(fewest, known)))


def blankets_of(mechanism: Kind, *, in_cohort: bool = False) -> list[Blanket]:
    """Return blankets of one report; the largest bound holds."""
    return _own_blankets(mechanism, in_cohort=in_cohort) or [clones(mechanism.epsilon_report)]


def _own_blankets(mechanism: Any, *, in_cohort: bool) -> list[Blanket]:
    name = terms_class(mechanism).blankets
    return BLANKETS[name](mechanism, in_cohort=in_cohort) if name else []  # type: ignore[operator]


def _epsilon(mechanism: Kind, reports: int, delta: float, *, in_cohort: bool = False) -> float:
    blankets = blankets_of(mechanism, in_cohort=in_cohort)
    return min(mechanism.epsilon_report, max(blanket.epsilon(reports, delta) for blanket in blankets))


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


def _sentences(mechanism: Kind, reports: int, number: int) -> Iterator[str]:
    yield BATCH
    if number < reports:
        yield f"{number:,} of the {reports:,} reports are honest: those of colluders and robots hide nobody."
    else:
        yield f"All {reports:,} reports are of honest devices: those of colluders and robots hide nobody."
    if not _own_blankets(mechanism, in_cohort=True):
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
SEVERAL: Final = "; reports of several periods share their noise, so of several no epsilon is stated"
NO_REPORTS: Final = "There are no reports in this range."


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


@dataclass(frozen=True)
class ReleasedPeriods:
    """The smallest release of each period of a metric."""

    smallest: Mapping[int, int] = field(default_factory=dict)  # messages, by period; 0: some reports came another way
    grouped: bool = False  # whether reports name a group

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
