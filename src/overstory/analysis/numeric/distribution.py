"""A distribution over the bins of a range: Square Wave, the server's half (Li et al., SIGMOD 2020, sections 5.4, 5.5).

The table that the decoder inverts is P(bucket of cells | bin of values), exactly. A bin is a piece of the range, its
people taken as spread evenly over it; a bucket is a run of cells. With ``r(x) = max(x, 0)``, a window of W cells at
position s covers ``r(b-s) - r(a-s) - r(b-s-W) + r(a-s-W)`` of the bucket [a, b). The sum of r over consecutive
positions is a triangular number, so the table needs no quadrature.

Expectation maximization (iterative Bayesian update: Agrawal and Aggarwal, PODS 2001) stops early, because the maximum
is jagged where the channel blurs neighbours. How far the distribution then is from the truth is found by simulation,
from a less smoothed fit of the same reports as its proxy: docs/explanation/numbers.md.

A *spike*, a value that many people hold, has a shape that neither the fit nor that proxy can take. So it is tested for,
by the efficient score of one more column of the table: with e = A f the expected share of each bucket, and r what is
left of P(bucket | place) / sqrt(e) by least squares on bins of twice the width,

    z = sqrt(n) sum_i r_i (c_i / n - e_i) / sqrt(e_i) / |r|

is standard normal where nobody's value is a spike at that place, and z^2 / 2 is the log-likelihood that it gains. From
`SURE` on it is one, and the fit and its proxy have its column. From `POSSIBLE` on it may be one: then intervals also
hold what a fit with that column would say. Where a spike is, is known to some places: a row of shares that has only
some of them in it may or may not have the spike, and its interval holds both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtri

from overstory.analysis.kinds.numbers import WaveSupport
from overstory.analysis.reports import SupportCounts
from overstory.analysis.selection import normal_reach
from overstory.protocol.numeric.mechanisms import SquareWave, WindowChannel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.selection import F64


def transition_table(channel: WindowChannel, cells: NDArray[np.int64], num_bins: int) -> F64:
    """Return P(bucket | bin), shape (len(cells) - 1, num_bins); `cells` are of `bucket_edges`, bins equal pieces."""
    # The edges of the bins, in positions; one may lie within a position.
    positions = np.arange(num_bins + 1) * (channel.num_positions / num_bins)
    starts: F64 = cells[:, None].astype(np.float64)
    ends: F64 = positions[None, :].astype(np.float64)
    # The integral of r(b - s) - r(b - s - W) over positions s up to each edge of a bin: its difference over a bucket
    # and over a bin, divided by the bin's width, is the mean overlap of the window with the bucket.
    covered: F64 = _ramp_integral(starts, ends) - _ramp_integral(starts - channel.window, ends)
    overlap = np.diff(np.diff(covered, axis=0), axis=1) / np.diff(positions)[None, :]
    # With probability alpha the report is uniform over the window of W cells, else over all cells.
    alpha = float(channel.alpha)
    return np.asarray(overlap * (alpha / channel.window) + np.diff(cells)[:, None] * float(channel.outside))


def _ramp_integral(corner: F64, end: F64) -> F64:
    """Integrate ``r(corner - floor(u))`` over u from 0 to `end`: complete positions, and the share of the last one."""
    complete = np.floor(end)
    rest = (end - complete) * np.maximum(corner - complete, 0.0)
    return np.asarray(_triangular(corner) - _triangular(corner - complete) + rest)


def _triangular(count: F64) -> F64:
    """Return 1 + 2 + ... + count, the sum of r over a run of positions; 0 below 0."""
    positive = np.maximum(count, 0.0)
    return np.asarray(positive * (positive + 1) / 2)


MOST_ITERATIONS: Final = 100_000


def expectation_maximization(
    counts: F64,  # shape (rows, m): how often each output was seen, in each of several collections
    table: F64,  # shape (m, d): P(output | symbol); columns sum to 1
    tolerance: float,
    start: F64,  # shape (d,): the shares to start from, all positive
    most_iterations: int = MOST_ITERATIONS,
) -> tuple[F64, bool]:
    """Raise each row's likelihood step by step until a step gains less than `tolerance`.

    Return the shares, shape (rows, d), not negative and of sum 1, and whether the tolerance ended every search.
    """
    seen = counts.any(axis=0)  # what was never seen adds 0 to the likelihood, even where its chance is 0
    counts, table = counts[:, seen], table[seen]
    learned, converged = np.empty((len(counts), table.shape[1])), True
    rows, before = np.arange(len(counts)), np.full(len(counts), -np.inf)
    shares, total = np.tile(start, (len(counts), 1)), counts.sum(axis=1)
    for iteration in range(most_iterations + 1):
        # L(f) = sum c_i log(A f)_i
        expected = shares @ table.T
        likelihood = (counts * np.log(expected)).sum(axis=1)
        finished = likelihood - before < tolerance
        if iteration == most_iterations:
            converged, finished = bool(finished.all()), np.ones_like(finished)
        learned[rows[finished]] = shares[finished]
        going = ~finished
        if not going.any():
            break
        rows, before, total, counts = rows[going], likelihood[going], total[going], counts[going]
        # Expectation and maximization in one, which never lowers L: f_j <- f_j sum_i c_i A_ij / (A f)_i / n.
        shares = shares[going] * ((counts / expected[going]) @ table) / total[:, None]
    return np.asarray(learned / learned.sum(axis=1, keepdims=True)), converged


# A step that gains less log-likelihood than this fits noise. With it EM stops after some hundred steps, at about the
# least Wasserstein distance; run to its maximum it would be jagged (docs/explanation/numbers.md;
# `bench/numeric_accuracy.py`).
GAIN: Final = 0.01


ROUNDS: Final = 40  # simulated collections: their root mean square is known to about a tenth
LESS: Final = 10  # the proxy's least gain is this many times smaller
MOST_STEPS: Final = 3000
FEW_BUCKETS: Final = 256  # the number of buckets that simulated collections are counted into
PLACES: Final = 16  # places of a bin where a spike may be
MOST_SPIKES: Final = 12
START: Final = 0.25
"""A fit starts from a spike of this share of the rest: of .02 to 1, it ended nearest to the truth at epsilon 2."""
SURE: Final = 0.01  # the chance of a spike where there is none is at most this, over all places
POSSIBLE: Final = 3.0
"""From this score on intervals allow for a spike: one found in 9 of 10 collections is below in 1 of 200."""
LEFT: Final = 0.63
"""Of a spike's score this part is left, the bins' fit has taken the rest: .59 to .69 at epsilon 2, about .8 at 1."""
UNLIKELY: Final = 4.0
"""A spike may be where its log-likelihood is at most this below the highest: 191 of 191 found were there."""


@dataclass(frozen=True)
class Spike:
    """A value that many people hold: between `low` and `high`, and `value` is the likeliest or the edge among them."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Spread:
    """A fitted distribution of d bins with its spikes, and how far it is from the truth."""

    edges: F64  # of the bins, shape (d + 1,)
    spikes: tuple[Spike, ...]
    shares: F64  # of the bins without their spikes, then of the spikes; shape (d + spikes,)
    simulated: F64  # the same of the simulated collections, shape (rounds, d + spikes)
    proxy: F64  # what these were drawn from, shape (d + spikes,)
    converged: bool
    smallest: float = 1.0  # a spike of this share is found in 9 of 10 collections like this one
    other: Spread | None = None  # the fit with possible spikes: intervals hold its own

    def share(self, start: int, stop: int, level: float = 0.95) -> tuple[float, float, float, float]:
        """Return the share of bins ``start .. stop - 1``, its root mean square error, and the ends of its interval."""
        first, last = self.edges[start], self.edges[stop]
        inside = [start <= place < stop for place in range(self.edges.size - 1)]
        surely, perhaps = inside.copy(), inside.copy()
        for spike in self.spikes:
            inside.append(bool(first <= spike.value and (spike.value < last or stop == self.edges.size - 1)))
            surely.append(bool(first <= spike.low and spike.high <= last))
            perhaps.append(bool(first < spike.high and spike.low < last))
        (value, low, high), (error, least, most) = self._sums(np.array([inside, surely, perhaps], np.float64))
        reach = normal_reach(level)
        ends = max(low - reach * least, 0.0), min(high + reach * most, 1.0)
        if self.other is not None:
            _, _, low, high = self.other.share(start, stop, level)
            ends = min(ends[0], low), max(ends[1], high)
        return float(value), float(error), float(ends[0]), float(ends[1])

    def quantile(self, share: float, level: float = 0.95) -> tuple[float, float, float]:
        """Return the value that `share` are at or below, and its interval: the share's, inverted (Woodruff 1952)."""
        ends = []
        for side, place in ((0.0, "value"), (1.0, "low"), (-1.0, "high")):
            values, parts = self._below(np.array([getattr(spike, place) for spike in self.spikes]))
            below, errors = self._sums(parts)
            rising = np.maximum.accumulate(np.clip(below + side * normal_reach(level) * errors, 0.0, 1.0))
            at = min(max(int(np.searchsorted(rising, share)), 1), values.size - 1)
            ends.append(float(np.interp(share, rising[at - 1 : at + 1], values[at - 1 : at + 1])))
        value, low, high = ends
        if self.other is not None:
            _, least, most = self.other.quantile(share, level)
            low, high = min(low, least), max(high, most)
        return value, low, high

    def _sums(self, parts: F64) -> tuple[F64, F64]:
        """Return sums of shares, weighted by each row of `parts`, and their root mean square errors."""
        errors = np.sqrt((((self.simulated - self.proxy) @ parts.T) ** 2).mean(axis=0))
        return parts @ self.shares, np.asarray(errors)

    def _below(self, places: F64) -> tuple[F64, F64]:
        """Return values, ascending, and the part of each share that is below: of a spike's place, before and at it."""
        values = np.concatenate((self.edges, places, places))
        reached = np.repeat([True, False, True], [self.edges.size, places.size, places.size])
        order = np.lexsort((reached, values))
        values, reached = values[order, None], reached[order, None]
        bins = np.clip((values - self.edges[:-1]) / np.diff(self.edges), 0.0, 1.0)
        return values[:, 0], np.hstack((bins, (places < values) | (places == values) & reached))


def fitted_spread(wave: SquareWave, counts: SupportCounts, *, num_bins: int, reports_per_device: float = 1.0) -> Spread:
    """Fit a distribution with its spikes, and simulated collections; a device sends so many reports, all alike."""
    bins, places = (transition_table(wave.channel, WaveSupport(wave).cells, n) for n in (num_bins, num_bins * PLACES))
    domain = wave.domain
    edges = np.linspace(domain.minimum, domain.maximum, num_bins * PLACES + 1)
    reports = _Reports(counts.ones[0].astype(np.float64), bins, places, edges, reports_per_device)
    sure, smallest = reports.spikes(float(-ndtri(SURE / places.shape[1])))
    possible, _ = reports.spikes(POSSIBLE, sure)
    other = None if len(possible) == len(sure) else reports.fit(possible)
    return replace(reports.fit(sure), smallest=smallest, other=other)


Spot = tuple[int, int, int]  # the likeliest place of a spike, the first possible one, and one more than the last


@dataclass(frozen=True, eq=False)
class _Reports:
    """Counts of buckets, P(bucket | bin) and P(bucket | place)."""

    observed: F64
    bins: F64
    places: F64
    edges: F64  # of the places
    per_device: float

    def _table(self, spots: tuple[Spot, ...]) -> tuple[F64, F64]:
        """Return the table of bins and spikes, and the shares that a fit starts from."""
        start = np.repeat([1 / self.bins.shape[1], START], [self.bins.shape[1], len(spots)])
        return np.hstack((self.bins, self.places[:, [at for at, _, _ in spots]])), start / start.sum()

    def spikes(self, limit: float, spots: tuple[Spot, ...] = ()) -> tuple[tuple[Spot, ...], float]:
        """Return where spikes are of a score beyond the limit, `spots` first, and how large one must be to be found."""
        while True:
            scores, share = self._scores(spots)
            at = int(scores.argmax())
            if scores[at] < limit or len(spots) == MOST_SPIKES:
                # A score's mean is LEFT of the spike's share over `share`; 9 in 10 are above that less 1.28.
                return spots, (limit - float(ndtri(0.1))) * share / LEFT
            unlikely = np.flatnonzero(scores**2 < scores[at] ** 2 - 2 * UNLIKELY)
            below, above = unlikely[unlikely < at], unlikely[unlikely > at]
            # One place more at both sides: a value at the edge of a place is in one of two.
            low = int(below[-1]) if below.size else 0
            high = min(int(above[0]) + 1 if above.size else scores.size, scores.size)
            spots = (*spots, (at, low, high))

    def _scores(self, spots: tuple[Spot, ...]) -> tuple[F64, float]:
        """Return each place's score as of a spike, and the share of one whose score is 1, the median over places."""
        (table, start), number = self._table(spots), self.observed.sum()
        expected = table @ expectation_maximization(self.observed[None], table, GAIN, start)[0][0]
        scale = np.sqrt(expected)[:, None]
        wide = np.add.reduceat(table, [*range(0, self.bins.shape[1], 2), *range(self.bins.shape[1], table.shape[1])], 1)
        basis, points = np.linalg.qr(wide / scale)[0], self.places / scale
        rest = points - basis @ (basis.T @ points)
        sizes = np.sqrt((rest**2).sum(axis=0) * number / self.per_device)
        gained = rest.T @ ((self.observed - number * expected) / scale[:, 0]) / self.per_device
        scores = np.divide(gained, sizes, out=np.zeros_like(sizes), where=sizes > 1e-6 * np.sqrt(number))
        for _, low, high in spots:
            scores[low:high] = 0.0
        return scores, float(1 / max(np.median(sizes), 1e-9))

    def fit(self, spots: tuple[Spot, ...]) -> Spread:
        """Fit bins and these spikes, and simulated collections."""
        table, start = self._table(spots)
        fitted, converged = expectation_maximization(self.observed[None], table, GAIN, start)
        starts = np.arange(0, self.observed.size, -(-self.observed.size // FEW_BUCKETS))
        merged, few = (np.add.reduceat(counts, starts) for counts in (self.observed, table))
        (proxy,), _ = expectation_maximization(merged[None], few, GAIN / LESS, start, MOST_STEPS)
        # The seed is fixed: the same counts have the same intervals, and no person's report depends on it.
        rng, sent, reports = np.random.default_rng(0), few @ proxy, float(merged.sum())
        people = max(round(reports / self.per_device), 1)
        drawn = rng.multinomial(people, sent / sent.sum(), size=ROUNDS) * (reports / people)
        simulated, _ = expectation_maximization(np.asarray(drawn, np.float64), few, GAIN, start, MOST_STEPS)
        spikes = tuple(self._spike(*spot) for spot in spots)
        return Spread(self.edges[::PLACES], spikes, fitted[0], simulated, proxy, converged)

    def _spike(self, at: int, low: int, high: int) -> Spike:
        # People round: an edge of bins that it may be at is likelier than what is next to it.
        edges = self.edges[low : high + 1][np.arange(low, high + 1) % PLACES == 0]
        middle = (self.edges[at] + self.edges[at + 1]) / 2
        value = edges[np.abs(edges - middle).argmin()] if edges.size else middle
        return Spike(float(value), float(self.edges[low]), float(self.edges[high]))
