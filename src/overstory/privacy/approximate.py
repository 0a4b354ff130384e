"""(epsilon, delta): what n reports of fresh noise disclose, except with probability delta.

Where all noise is fresh, reports are independent given the values, so their losses add up as random variables, and
n of them hardly ever lose n times the worst. delta(epsilon) is the largest P(E) - e^epsilon Q(E) over events E.

*The worst pair.* Let the encodings of a report's two values differ in `l` ones lowered and `l` zeros raised at most. A
pair that differs less is that pair with some bits thrown away and made up again, so in every report the pair that
differs most dominates all others, equal values too, and pairs that dominate report by report dominate together. So the
numbers hold between any two histories, and two histories that differ most in every report attain them.

*Its loss.* Of the N = n l lowered bits i are 1, of the N raised ones j: under P these are Bin(N, q) and Bin(N, p),
under Q the other way round, and the loss is K = i - j steps of ln(q (1-p) / (p (1-q))). Hence, with k the most steps
that epsilon holds,

    delta(epsilon) = P(K > k) - e^epsilon Q(K > k),

in closed form: two sums over binomial probabilities. These are floats; what rounding can do to them is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import mul
from typing import Final, NamedTuple

from overstory.privacy.terms import SLACK, Terms
from overstory.protocol.channels import ONE
from overstory.protocol.errors import ParameterError

DELTA: Final = 1e-6  # the chance that statements name unless asked for another
MOST_BITS: Final = 2_000_000
"""Past so many bits that differ in all reports together, the pure bound is all that is stated."""
MOST_EPSILON: Final = 700.0  # the same past such an epsilon of one report: its exponential would be no float
TINY: Final = 1e-300
_ROUNDING: Final = 2.0**-53


def epsilon_at(terms: Terms, reports: int, delta: float = DELTA) -> float:
    """Epsilon between any two histories of `reports` reports but for a chance of `delta`, rounded up.

    Never above `Terms.epsilon_any`, which it is where responses are memoized: there delta spares little.

    Parameters
    ----------
    terms
        What the mechanism's privacy depends on; see `terms_of`.
    reports
        How many reports an attacker sees; at least 1.
    delta
        The chance with which the privacy loss may be larger; above 0 and below 1.

    Raises
    ------
    ParameterError
        When `reports` is not positive, or `delta` is not between 0 and 1.

    Examples
    --------
    >>> from overstory.privacy.terms import terms_of
    >>> from overstory.protocol.kinds.registry import mechanism
    >>> meter = terms_of(mechanism("opt-wb", domain_size=100, epsilon=1.0, window=10))
    >>> round(meter.epsilon_any(334), 2), round(epsilon_at(meter, 334), 2), round(epsilon_at(meter, 334, 1e-9), 2)
    (33.4, 6.53, 8.17)
    """
    if not isinstance(delta, int | float) or isinstance(delta, bool) or not 0 < delta < 1:
        raise ParameterError(f"delta = {delta!r}: give a number between 0 and 1")
    pure = terms.epsilon_any(reports)
    return min(pure, _epsilon_at(terms, reports, float(delta))) if terms.fresh else pure


@lru_cache(maxsize=1024)
def _epsilon_at(terms: Terms, reports: int, delta: float) -> float:
    losses = _losses(terms, reports)
    return math.inf if losses is None else losses.epsilon(delta)


def _losses(terms: Terms, reports: int) -> _Losses | None:
    """Return the losses of the worst pair; None where there are too many, or two that no pair dominates."""
    pure = terms.epsilon_n(1)
    if math.isinf(pure):
        return None
    if terms.even_bits is not None:
        # N = n l bits lowered and N raised: P is Bin(N, q) against Bin(N, p), Q the other way round.
        lowered, chances = terms.even_bits
        bits = reports * lowered
        if bits > MOST_BITS:
            return None
        q, p = max(chances) / ONE, min(chances) / ONE
        log_odds = math.log(q) - math.log(p) + math.log1p(-p) - math.log1p(-q)
        high, low = _Binomial.of(bits, q / (1 - q)), _Binomial.of(bits, p / (1 - p))
        return _Losses(log_odds, bits, (high, low), (low, high))
    if reports > MOST_BITS or pure > MOST_EPSILON:
        return None
    # No report discloses more than a coin that names one of two values, wrong once in 1 + e^epsilon times.
    unit = pure * (1 + SLACK)
    none = _Binomial.of(0, 1.0)
    right, wrong = (_Binomial.of(reports, math.exp(sign * unit)) for sign in (1, -1))
    return _Losses(unit, reports, (right, none), (wrong, none), 2)


class _Binomial(NamedTuple):
    """Probabilities of a binomial from `start` up, as far as they are above `TINY`, and the sums from each one up."""

    start: int
    chances: list[float]
    above: list[float]

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, trials: int, odds: float) -> _Binomial:
        """Return Bin(trials, odds / (1 + odds)), from its mode outwards; a rate near 1 would lose what it lacks."""
        # C(n, k) odds^k up to a factor, by the ratio of neighbours, so that nothing under- or overflows at the mode.
        mode = min(int((trials + 1) * (odds / (1 + odds))), trials)
        up = _while_above(lambda k, chance: chance * (trials - k) / (k + 1) * odds, range(mode, trials))
        down = _while_above(lambda k, chance: chance * k / (trials - k + 1) / odds, range(mode, 0, -1))
        shape = [*reversed(down), 1.0, *up]
        total = math.fsum(shape)
        chances = [chance / total for chance in shape]
        return cls(mode - len(down), chances, list(accumulate(reversed(chances)))[::-1])


def _while_above(following: Callable[[int, float], float], steps: range) -> list[float]:
    chances, chance = [], 1.0
    for k in steps:
        chance = following(k, chance)
        if chance < TINY:
            break
        chances.append(chance)
    return chances


@dataclass(frozen=True, eq=False)
class _Losses:
    """The loss of a pair of histories: `unit` times (step i - j, less the middle), i and j being binomial."""

    unit: float
    most: int
    first: tuple[_Binomial, _Binomial]  # (i, j) under the first history
    second: tuple[_Binomial, _Binomial]
    step: int = 1

    @cached_property
    def rounding(self) -> float:
        """How far, relatively, a sum can be off."""
        longest = max(len(binomial.chances) for pair in (self.first, self.second) for binomial in pair)
        return 32 * (longest + 4) * _ROUNDING

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon whose delta is not above, rounded up."""
        low, high = -1, self.most  # at all units nothing is left
        while high - low > 1:
            # delta(k unit) falls with k: bisection for the least k that is small enough.
            middle = (low + high) // 2
            low, high = (low, middle) if self._excess(middle) <= delta else (middle, high)
        if high == 0:
            return 0.0
        # From (high - 1) units up to high the event stays: losses of more than high - 1 units.
        over, under = self._tails(high - 1)
        # On this stretch P - e^epsilon Q = delta has the solution epsilon = ln((P - delta) / Q).
        within = math.log((over - delta) / under) if over > delta and under else self.unit * high
        return max(self.unit * (high - 1), min(within, self.unit * high)) * (1 + SLACK) + 1e-12

    def _excess(self, k: int) -> float:
        """delta(k units), rounded up: P - e^epsilon Q of a loss of more than k units; past what a float holds, P."""
        epsilon = k * self.unit
        over, under = self._tails(k)
        return over - math.exp(epsilon) * under if epsilon < 700 else over

    def _tails(self, k: int) -> tuple[float, float]:
        """P(loss > k units) under the first history, rounded up, and under the second, rounded down."""
        limit = k if self.step == 1 else (k + self.most) // 2
        return (
            min(_more(*self.first, limit) * (1 + self.rounding) + 1e-250, 1.0),
            _more(*self.second, limit) * (1 - self.rounding),
        )


def _more(plus: _Binomial, minus: _Binomial, limit: int) -> float:
    """P(i - j > limit)."""
    # With j at other.start + n, i must be at place limit + 1 + j - one.start or above.
    first = limit + 1 + minus.start - plus.start
    total: float = 0.0
    skipped = max(0, -first)
    if skipped:  # for these j every i is enough
        total += math.fsum(minus.chances[:skipped]) * plus.above[0]
    return total + math.fsum(map(mul, minus.chances[skipped:], plus.above[max(0, first) :]))
