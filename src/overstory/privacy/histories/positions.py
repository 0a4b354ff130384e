"""What n reports can disclose at one position of the bits: a bound for any n and any history.

A position's reports have the product of g(x; t, z) over the permanent responses that the history reads them through:
the probability of t ones and z zeros through one response of a bit x, that is a u + (1 - a) v with a = P1(1|x), u the
probability of these through a permanent 1, v through a 0. The bound is the largest such product over the smallest.

- The largest is at most g(x; t, 0) g(x'; 0, z). Ones and zeros want the response to be opposite things, so
  g(x; t, z) <= g(x; t, 0) g(x; 0, z), and g(x; t, 0) g(x; t', 0) <= g(x; t + t', 0) (Chebyshev's inequality, both).
- The smallest is searched for up to `MOST_SHARED` reports. Besides, for any weights (w, 1 - w) a response's g is at
  least e^-KL(w, a) u^w v^(1-w), by the inequality of the means; with w = a nothing is lost by the first factor. The
  logarithm of this is linear in t, while that of the largest is convex in t, so the ratio is worst at t = 0 or t = n.

With n it starts at 0, is convex and never below 0: it never falls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from overstory.protocol.channels import Rounds

MOST_SHARED: Final = 10
"""Up to as many reports the smallest probability is searched for."""
TILTS: Final = 16


@dataclass(frozen=True)
class Position:
    """One position in floats, its outputs named so that a one is likelier from a one.

    Attributes
    ----------
    ones, zeros
        Logarithms of P(a one), P(a zero) through a permanent 1 and 0.
    reports, blocks
        n, and how many permanent responses there can be among them.
    """

    weights: tuple[float, float]  # P(permanent bit is 1 | true bit), for a true 0 and 1
    ones: tuple[float, float]
    zeros: tuple[float, float]
    reports: int
    blocks: int
    single: bool  # whether at most one of a history's values has a one at a position

    @classmethod
    def of(cls, rounds: Rounds, reports: int, blocks: int, *, single: bool) -> Position:
        """Return the position of two rounds."""
        later = rounds.instantaneous
        ones = _log(float(later.keep_one)), _log(float(later.raise_zero))
        zeros = _log(float(1 - later.keep_one)), _log(float(1 - later.raise_zero))
        if ones[0] < ones[1]:
            ones, zeros = zeros, ones
        weights = float(rounds.permanent.raise_zero), float(rounds.permanent.keep_one)
        return cls(weights, ones, zeros, reports, blocks, single)

    def worst(self, first: Sequence[int], second: Sequence[int]) -> float:
        """Return a bound on the log ratio where the true bits are among `one` in one history, `other` in the other."""
        # The log ratio is convex in the number of ones t, so t = 0 and t = n are enough.
        ends = self._most(first, self.reports), self._most(first, 0)
        floors = [self._floor(w, second) for w in self._tilts(second)]
        floors.append(
            (min(self._mean(b, self.ones) for b in second), min(self._mean(b, self.zeros) for b in second), 0.0)
        )
        # Every choice of weights is a bound: take the best of them.
        bound = min(
            max(end - self.reports * rate for end, rate in zip(ends, rates, strict=True)) + apart
            for *rates, apart in floors
        )
        if self.reports > MOST_SHARED:
            return bound
        least = self._least(second)
        return min(bound, max(self._most(first, t) - least[t][self.reports - t] for t in range(self.reports + 1)))

    def _seen(self, bit: int, ones: int, zeros: int) -> float:
        """Logarithm of g."""
        likely = [_times_log(ones, self.ones[i]) + _times_log(zeros, self.zeros[i]) for i in (0, 1)]
        return _log_mix(self.weights[bit], *likely)

    def _most(self, bits: Sequence[int], ones: int) -> float:
        zeros = self.reports - ones
        return max(self._seen(bit, ones, 0) for bit in bits) + max(self._seen(bit, 0, zeros) for bit in bits)

    def _least(self, bits: Sequence[int]) -> list[list[float]]:
        """Return the smallest probabilities of up to n ones and zeros, over all patterns."""
        size = range(self.reports + 1)
        seen = {(b, t, z): self._seen(b, t, z) for b in bits for t in size for z in size if 0 < t + z <= self.reports}
        if not self.single:
            return self._shared({(t, z): min(seen[b, t, z] for b in bits) for _, t, z in seen})
        unlit = self._shared({(t, z): seen[0, t, z] for _, t, z in seen})
        if 1 not in bits:
            return unlit
        # One response may have the true bit 1: split (ones, zeros) between it and the others.
        lit = [row[:] for row in unlit]
        for (bit, t, z), loss in seen.items():
            if bit:
                for ones, zeros in product(range(t, self.reports + 1), range(z, self.reports + 1)):
                    if ones + zeros <= self.reports:
                        lit[ones][zeros] = min(lit[ones][zeros], loss + unlit[ones - t][zeros - z])
        return lit

    def _shared(self, items: dict[tuple[int, int], float]) -> list[list[float]]:
        least = [[math.inf] * (self.reports + 1) for _ in range(self.reports + 1)]
        least[0][0] = 0.0
        for (t, z), loss in items.items():
            for ones in range(t, self.reports + 1):
                for zeros in range(z, self.reports + 1 - ones):
                    # Unbounded knapsack: one more response that shows t ones and z zeros.
                    reached = least[ones - t][zeros - z] + loss
                    least[ones][zeros] = min(least[ones][zeros], reached)
        return least

    def _mean(self, bit: int, logs: tuple[float, float]) -> float:
        weight = self.weights[bit]
        return _times_log(weight, logs[0]) + _times_log(1 - weight, logs[1])

    def _tilts(self, bits: Sequence[int]) -> Iterable[float]:
        low, high = min(self.weights), max(self.weights)
        even = [low + (high - low) * i / TILTS for i in range(TILTS + 1)]
        return [*even, *(self.weights[bit] for bit in bits), 0.0, 1.0]

    def _floor(self, w: float, bits: Sequence[int]) -> tuple[float, float, float]:
        """Least logarithms of a one and of a zero with weights (w, 1 - w), and what these weights cost over all."""
        apart = max(_divergence(w, self.weights[bit]) for bit in bits)
        # g >= e^-KL(w, a) u^w v^(1-w): what one more one, and one more zero, takes at least.
        one, zero = (_times_log(w, logs[0]) + _times_log(1 - w, logs[1]) for logs in (self.ones, self.zeros))
        return one, zero, self.blocks * apart


def _log(chance: float) -> float:
    return math.log(chance) if chance else -math.inf


def _times_log(times: float, logarithm: float) -> float:
    return times * logarithm if times else 0.0


def _log_mix(share: float, first: float, second: float) -> float:
    terms = [weight + loss for weight, loss in ((_log(share), first), (_log(1 - share), second))]
    top = max(terms)
    return top if math.isinf(top) else top + math.log(math.fsum(math.exp(term - top) for term in terms))


def _divergence(w: float, weight: float) -> float:
    """KL divergence of (w, 1 - w) from (weight, 1 - weight)."""
    total = 0.0
    for given, real in ((w, weight), (1 - w, 1 - weight)):
        if given:
            total += given * (math.log(given / real) if real else math.inf)
    return total
