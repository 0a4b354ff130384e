"""The privacy blanket: what all values have in common, and a certified bound on what a shuffled report reveals.

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

*Blankets of mechanisms*, of one report, several, any number, come from the exact thresholds. A law of r - e^epsilon r'
that is above another in convex order gives a larger bound. So these do, whatever the cohort:

- a value that has its bits, against nothing, a value with fewer, or one that is not asked for: their ratios are
  conditional expectations of its own;
- two values without a common bit, against two that share some; and two symbols that differ, against one symbol for
  both: for a convex f, E[f(r - t r')] is least where r and r' rise together (f(x - t y) is submodular).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from overstory.protocol.channels import BinaryChannel

if TYPE_CHECKING:
    from overstory.protocol.kinds.bits import BitMechanism
    from overstory.protocol.kinds.symbols import OutputMechanism
    from overstory.protocol.numeric.randomizer import NumberChannel

Atom = tuple[float, float, float]
"""A probability under omega, and there r and r'."""

BERRY_ESSEEN: Final = 0.4748
"""For independent summands of one law (Shevtsova, arXiv 1111.6554)."""
ROUNDING: Final = 1 + 1e-9
"""Covers the rounding of floats, which is below 1e-11 at 10^8 reports."""
TILTS: Final = (1.0, 1.02, 1.05, 1.1, 1.2)
"""Multiples of the tilt that centres the law: any is valid, and the best is taken."""
TOLERANCE: Final = 1e-7
"""How far an epsilon may be above the least that the bound gives, relatively."""
STEPS: Final = 200
_SQRT_2PI: Final = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Blanket:
    """What a pair of values has in common with all others."""

    gamma: float  # the share of a report that does not depend on the value, above 0
    atoms: tuple[Atom, ...]  # the joint law of r and r' under omega: the probabilities add up to 1

    def delta(self, epsilon: float, reports: int) -> float:
        """Return a bound on delta at `epsilon`, of one shuffle of that many reports."""
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
        low, high, tilt = 0.0, self._local, 1.0
        for _ in range(STEPS):
            if high - low <= TOLERANCE * high:
                break
            middle = (low + high) / 2
            bound, tilt = self._delta(middle, reports, tilt)
            low, high = (low, middle) if bound <= delta else (middle, high)
        return math.nextafter(high, math.inf)

    @property
    def _local(self) -> float:
        return max(abs(math.log(r / s)) for _, r, s in self.atoms)


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


MOST_PERIODS: Final = 16
"""Periods up to which their reports are counted together; past them, the permanent response is."""

Ratios = Mapping[float, float]
"""What one value's report is likelier by than the blanket, with its probability under omega."""


# --- bits -----------------------------------------------------------------------------------------------------------


def of_bits(mechanism: BitMechanism, periods: int | None, *, in_cohort: bool) -> list[Blanket]:
    """Return the blankets of a vector of bits."""
    encoding = mechanism.encoding
    ratios = _bit_ratios(mechanism, periods)
    if encoding.asked < 1 and not in_cohort:
        return list(_of_sampled_bits(ratios, float(encoding.asked)))
    # A vector of the value's own bits: r is the product of the ratios of its bits.
    least, bits = min(ratios), encoding.ones[1]
    law = _product(ratios, least, bits)
    return [Blanket(least**bits, tuple((p * q, r, s) for r, p in law.items() for s, q in law.items()))]


def _bit_ratios(mechanism: BitMechanism, periods: int | None) -> Ratios:
    """Return P(what is seen of a bit | it is the value's) / P(the same | it is not), with the latter."""
    rounds = mechanism.rounds
    if periods is None or periods > MOST_PERIODS or rounds.instantaneous.is_identity:
        return _of_channel(rounds.permanent)
    if periods == 1:
        return _of_channel(rounds.combined)
    ratios: dict[float, float] = {}
    for ones in range(periods + 1):
        seen = [_times(rounds.instantaneous, rate, ones, periods) for rate in _rates(rounds.permanent)]
        ratio, chance = float(seen[0] / seen[1]), float(seen[1])
        ratios[ratio] = ratios.get(ratio, 0.0) + chance
    return ratios


def _rates(channel: BinaryChannel) -> tuple[Fraction, Fraction]:
    return channel.keep_one, channel.raise_zero


def _of_channel(channel: BinaryChannel) -> Ratios:
    high, low = _rates(channel)
    return {float(high / low): float(low), float((1 - high) / (1 - low)): float(1 - low)}


def _times(channel: BinaryChannel, permanent: Fraction, ones: int, periods: int) -> Fraction:
    lit, unlit = (rate**ones * (1 - rate) ** (periods - ones) for rate in _rates(channel))
    return math.comb(periods, ones) * (permanent * lit + (1 - permanent) * unlit)


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


def of_outputs(mechanism: OutputMechanism, periods: int | None, *, in_cohort: bool) -> list[Blanket]:
    """Return the blanket of one report, or of the permanent response, that is one of K outputs."""
    (keep, other), encoding = mechanism.chances(permanent=periods != 1), mechanism.encoding
    outputs, own, shared = encoding.sizes
    # Of a few pseudo-random seeds, no two values are known to collide in any: this bound is then larger than needed.
    common = Fraction(shared, own) if in_cohort or encoding.uneven else encoding.collision
    if keep < other:  # the value's own output is the unlikely one: what is left of all others is in the blanket
        return []
    alone, both = own * (1 - common) / outputs, own * common / outputs
    return [two_levels(float(outputs * other), odds=float(keep / other), alone=float(alone), both=float(both))]


def of_windows(channel: NumberChannel) -> list[Blanket]:
    """Return the blanket of a cell of one of two windows that share the fewest cells: those of both ends."""
    likely = channel.likely_cells()
    if likely is None:
        return []
    (window, both), cells = likely, channel.num_cells
    alone = Fraction(window - both, cells)
    gamma = channel.probability(cells - 1, 0) * cells
    return [two_levels(float(gamma), odds=float(channel.odds), alone=float(alone), both=both / cells)]
