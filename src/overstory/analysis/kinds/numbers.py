"""The server's halves of what takes numbers: how its reports are counted, and what simulated devices send.

Counts are whole numbers that add up, like support counts, and nothing that an estimate uses is rounded away:

- a mean needs the sum of all payloads and the sum of their squares. Both follow from how often each bit of a payload
  is 1, and how often each pair of bits: with ``x = sum 2^i b_i``, ``sum x = sum 2^i n_i`` and
  ``sum x^2 = sum 4^i n_i + 2 sum 2^(i+j) n_ij``. A count is at most the number of reports, so nothing overflows;
- a distribution needs the cells of Square Wave, in up to 1,024 buckets.

Hybrid's reports are counted by branch, a branch in the place of a cohort: Duchi's (lowest bit 0), then Piecewise's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Cohorts, Rng, ServerHalf, Words, generator, server_half
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.protocol.channels import ONE
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric.mechanisms import EitherChannel, NumericRandomizer, WindowChannel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from overstory.analysis.reports import I64
    from overstory.kernels.devices import StreamKey


MOST_BUCKETS: Final = 1024  # square Wave's cells are counted in at most this many buckets
ROWS: Final = 1 << 16  # payloads whose bits are counted at a time: sums of float32 are exact up to 2**24


class GeneratorDraws:
    """Fresh randomness of n simulated devices, from a generator."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self._rng, self._count = rng, count

    def below(self, size: int) -> I64:
        """Return a uniform number below `size` for each device, int64 of shape (n,)."""
        return self._rng.integers(size, size=self._count)


class KeyedDraws:
    """A keyed function of device and position: a device's response to a position is always the same."""

    def __init__(self, stream: StreamKey, places: I64) -> None:
        from overstory.kernels.devices import stream_starts

        devices = np.arange(stream.first_device, stream.first_device + places.size, dtype=np.int64)
        self._starts = stream_starts(stream.key, b"number-1", devices, places)
        self._next = 0

    def below(self, size: int) -> I64:
        from overstory.kernels.devices import below, stream_words

        if size > ONE:
            raise ParameterError("devices are simulated up to 2**32 cells: choose a lower resolution")
        words = stream_words(self._starts, self._next)
        self._next += 1
        return below(words, size).astype(np.int64)


Draws = GeneratorDraws | KeyedDraws


def positions(randomizer: NumericRandomizer, values: ArrayLike) -> I64:
    """Return each value's position, as a device has it: near an edge by the device's own exact code."""
    given, domain = np.asarray(values, np.float64), randomizer.domain
    if given.ndim != 1 or not np.isfinite(given).all():
        raise ParameterError("values must be a list of finite numbers")
    if domain.outside == "reject" and given.size and not domain.minimum <= given.min() <= given.max() <= domain.maximum:
        raise ParameterError(f"values must lie in {domain.minimum} .. {domain.maximum}: this domain rejects others")
    clamped = np.clip(given, domain.minimum, domain.maximum)
    last = randomizer.position(domain.maximum)  # resolution - 1 where positions are pieces, resolution where points
    steps = (clamped - domain.minimum) / domain.width * randomizer.resolution + (last - randomizer.resolution + 1) / 2
    places = np.minimum(np.floor(steps).astype(np.int64), last)
    # Rounding moves `steps` by about the machine's precision times this scale: near an edge the device's code decides.
    scale = 1 + max(abs(domain.minimum), abs(domain.maximum)) / domain.width
    near = np.abs(steps - np.rint(steps)) < 1e-14 * scale * randomizer.resolution
    exact, where = np.unique(clamped[near], return_inverse=True)
    places[near] = np.array([randomizer.position(value) for value in exact.tolist()], np.int64)[where]
    return places


def count_bit_pairs(payloads: I64, num_bits: int) -> I64:
    """Return how many payloads have bits i and j, i <= j, both 1, row by row: i = j is the bit alone."""
    pairs = np.zeros((num_bits, num_bits), np.int64)
    for start in range(0, payloads.size, ROWS):
        bits = (payloads[start : start + ROWS, None] >> np.arange(num_bits) & 1).astype(np.float32)
        pairs += (bits.T @ bits).astype(np.int64)
    return pairs[np.triu_indices(num_bits)]


def sums_of_pairs(pairs: I64, num_bits: int) -> tuple[int, int]:
    """Return the sum of the payloads and of their squares, exactly, from `count_bit_pairs`."""
    total = squares = 0
    for i, j, count in zip(*np.triu_indices(num_bits), pairs, strict=False):
        low, high, seen = int(i), int(j), int(count)
        total += seen << low if low == high else 0
        squares += seen << (low + high + (low != high))
    return total, squares


class NumberSupport(ServerHalf[Any]):
    """What all randomizers of numbers have in common: positions, and draws from them."""

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return positions(self.mechanism, np.array([float(value) for value in values]))

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002 - one cohort
        """Return each device's response to its position, in every report the same."""
        places = table[symbols]
        return self.draw(places, KeyedDraws(stream, places)).astype(np.uint64).reshape(-1, 1)

    @abstractmethod
    def draw(self, places: I64, draws: Draws) -> I64:
        """Return a payload for each position, int64 of shape (n,), by the device's own integer thresholds."""


def draw_cells(channel: WindowChannel, places: I64, draws: Draws) -> I64:
    """Draw a cell of each position's window, or any cell."""
    near = draws.below(ONE) < channel.threshold
    within, anywhere = (draws.below(size) for size in (channel.window, channel.num_cells))
    return np.where(near, places + within, anywhere)


class MeanSupport(NumberSupport):
    """Hybrid: pairs of bits, by branch."""

    @cached_property
    def branches(self) -> tuple[Any, ...]:
        channel = self.mechanism.channel
        return (channel.duchi, channel.piecewise) if isinstance(channel, EitherChannel) else (channel,)

    @property
    def branch_bits(self) -> tuple[int, ...]:
        return tuple((branch.num_cells - 1).bit_length() for branch in self.branches)

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:  # noqa: ARG002 - there are none
        wide = max(self.branch_bits)
        return len(self.branches), wide * (wide + 1) // 2

    def count(self, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:  # noqa: ARG002 - no candidates
        """Count pairs of bits; of a branch of one bit, that bit alone."""
        payloads, ones = self.outputs(batch), np.zeros(self.shape(()), np.int64)
        mark = len(self.branches) - 1  # the lowest bit, where it says which branch
        chosen = [payloads[(payloads & mark) == branch] >> mark for branch in range(len(self.branches))]
        for row, branch, width in zip(ones, chosen, self.branch_bits, strict=True):
            row[: width * (width + 1) // 2] = count_bit_pairs(branch, width)
        return SupportCounts([branch.size for branch in chosen], ones)

    def draw(self, places: I64, draws: Draws) -> I64:
        channel, duchi = self.mechanism.channel, self.branches[0]
        if isinstance(channel, EitherChannel):
            is_piecewise = draws.below(ONE) < channel.threshold
            pieces = draw_cells(channel.piecewise, places, draws)
        rounded = draws.below(duchi.resolution) < places
        unchanged = draws.below(ONE) < int(duchi.alpha * ONE)
        ends = np.where(unchanged, rounded, draws.below(2)).astype(np.int64)
        return np.where(is_piecewise, pieces << 1 | 1, ends << 1) if isinstance(channel, EitherChannel) else ends

    def lines(self) -> Iterator[tuple[Fraction, Fraction, int]]:
        """Yield of each branch (a, b) with debias(payload) = a + b * (the payload within its branch), and its bits."""
        debias = self.mechanism.debias
        for branch, width in enumerate(self.branch_bits):
            start = debias(branch)
            yield start, debias(branch + len(self.branches)) - start, width


def simulate_payloads(randomizer: NumericRandomizer, values: ArrayLike, rng: Rng = None) -> I64:
    """Return one report's payload of each of n simulated people, int64 of shape (n,)."""
    places = positions(randomizer, values)
    half: Any = server_half(randomizer)
    drawn: I64 = half.draw(places, GeneratorDraws(generator(rng), places.size))
    return drawn


class WaveSupport(NumberSupport):
    """Square Wave: cells, in buckets."""

    @cached_property
    def cells(self) -> I64:
        """Where the buckets begin in which reports are counted: at most 1,024 of them."""
        cells = self.mechanism.channel.num_cells
        return bucket_edges(cells, min(cells, MOST_BUCKETS))

    def draw(self, places: I64, draws: Draws) -> I64:
        return draw_cells(self.mechanism.channel, places, draws)

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:  # noqa: ARG002 - there are none
        return 1, self.cells.size - 1

    def count(self, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:  # noqa: ARG002 - no candidates
        payloads = self.outputs(batch)
        buckets = np.searchsorted(self.cells, payloads, side="right") - 1
        return SupportCounts([payloads.size], [np.bincount(buckets, minlength=self.cells.size - 1)])


def bucket_edges(num_cells: int, num_buckets: int) -> I64:
    """Return the cells at which buckets begin, and the number of cells: as even as whole numbers are."""
    return np.array([num_cells * i // num_buckets for i in range(num_buckets + 1)], np.int64)
