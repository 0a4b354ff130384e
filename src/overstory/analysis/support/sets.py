"""Support of reports that are drawn from the value's set: subset selection, projective geometry.

Projective geometry response by NumPy alone while devices are few: the points of `overstory.kernels.sets.simulation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.support.base import Cohorts, StreamKey, Support, Words, chosen, pooled
from overstory.analysis.support.positions import symbols_of
from overstory.analysis.support.work import Work
from overstory.kernels.columns import are_few
from overstory.kernels.few import below
from overstory.kernels.random.chacha import blocks, key_words
from overstory.protocol.channels import ONE
from overstory.protocol.encodings.finite_fields import Field, is_prime
from overstory.protocol.encodings.sets import Projective, Subsets
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.sets import SetMechanism


class SetSupport(Support[SetMechanism]):
    """A report supports the values whose sets hold it."""

    @property
    def inside(self) -> int:
        """P(the value's own set) over 2**32."""
        return int(self.mechanism.inside * ONE)

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the symbols themselves."""
        return symbols_of(values, self.domain_size or 0)


class SubsetSupport(SetSupport):
    """A subset supports its members."""

    work = Work("n d bits added", cell=5e-11)

    @property
    def system(self) -> Subsets:
        """The subsets."""
        system = self.mechanism.encoding
        assert isinstance(system, Subsets)
        return system

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002
        """Draw subsets; they are memoized, so all reports of a device are one."""
        from overstory.kernels.devices import simulate_subsets

        return simulate_subsets(
            table[symbols],
            self.system.domain_size,
            self.system.subset_size,
            self.inside,
            stream.key,
            first_device=stream.first_device,
        )

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count bits."""
        size, members = self.system.subset_size, np.bitwise_count(batch.bits).sum(axis=1)
        if (wrong := members[members != size]).size:
            raise ParameterError(f"a report of {self.mechanism.name} has {size} members, not {wrong[0]}")
        return chosen(batch.accumulate(), values)


class PointSupport(SetSupport):
    """A point supports the values on its hyperplane."""

    work = Work("n + q t d", value=4e-7)

    @property
    def space(self) -> Projective:
        """The projective space."""
        system = self.mechanism.encoding
        assert isinstance(system, Projective)
        return system

    @property
    def num_outputs(self) -> int:
        """The space's points."""
        return self.space.sizes[0]

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002
        """Draw points; they are memoized, so all reports of a device are one."""
        points = simulate_points(table[symbols], self.space, self.inside, stream.key, first_device=stream.first_device)
        return points.astype(np.uint64).reshape(-1, 1)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Sum the histogram of points over every value's hyperplane."""
        histogram = np.bincount(self.outputs(batch), minlength=self.num_outputs)
        ones = count_plane_support(histogram, self.space)
        return chosen(pooled(ones, len(batch)), values)


LARGEST_TABLE: Final = 64
"""Fields of a prime's power up to this size have their sums and products looked up; larger ones take the kernels."""
MOST_PAIRS: Final = 1 << 22
"""Pairs of a value and a point that somebody sent, up to which NumPy tries each."""

I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]


def simulate_points(symbols: NDArray[Any], space: Projective, inside: int, key: bytes, *, first_device: int = 0) -> U32:
    """Return one point from each of many devices; see `overstory.kernels.sets.simulation.simulate_points`."""
    if not _is_small(space) or not are_few(len(symbols)):
        from overstory.kernels.sets import simulation

        points: U32 = simulation.simulate_points(
            symbols, space.field_size, space.dimension, inside, key, first_device=first_device
        )
        return points
    held = np.asarray(symbols, np.int64)
    devices = first_device + np.arange(held.size, dtype=np.int64)
    words = blocks(key_words(key, b"points-1"), (devices >> 32, devices, 0, held), 12)
    _, own, _ = space.sizes
    is_inside = words[0] < np.uint64(inside)
    drawn = below(words[1], words[2], np.where(is_inside, own, space.field_size ** (space.dimension - 1)))
    return _points(space, held, is_inside, drawn.astype(np.int64)).astype(np.uint32)


def count_plane_support(histogram: I64, space: Projective) -> I64:
    """Return how many reports lie on each value's hyperplane; see `overstory.kernels.sets.planes`."""
    there = np.flatnonzero(histogram)
    if not _is_small(space) or there.size * space.domain_size > MOST_PAIRS or not are_few(0):
        from overstory.kernels.sets import planes

        return planes.count_plane_support(histogram, space.field_size, space.dimension, space.domain_size)
    values = _coordinates(space, np.arange(space.domain_size), space.dimension)
    sent = _coordinates(space, there, space.dimension)
    products = _inner(space.field, values[:, None, :], sent[None, :, :])
    return np.asarray((products == 0) @ histogram[there], np.int64)


def _is_small(space: Projective) -> bool:
    return is_prime(space.field_size) or space.field_size <= LARGEST_TABLE


def _points(space: Projective, symbols: I64, inside: NDArray[np.bool_], drawn: I64) -> I64:
    """Return point number `drawn` of those inside each value's set, or of those outside: the kernel's maps."""
    size, dimension, field = space.field_size, space.dimension, space.field
    rows = np.arange(symbols.size)
    normal = _coordinates(space, symbols, dimension)
    pivot = (normal != 0).argmax(axis=1)
    digits = drawn[:, None] // size ** np.arange(dimension - 1)[::-1] % size
    others = np.where(inside[:, None], _coordinates(space, np.where(inside, drawn, 0), dimension - 1), digits)
    places = np.arange(dimension)
    vector = np.take_along_axis(others, np.clip(places - (places > pivot[:, None]), 0, dimension - 2), axis=1)
    vector[rows, pivot] = 0
    minus = np.array([field.minus(0, a) for a in range(size)])[_inner(field, normal, vector)]
    vector[rows, pivot] = np.where(inside, minus, _plus(field, np.ones_like(minus), minus))
    first = (vector != 0).argmax(axis=1)
    leading, where = np.unique(vector[rows, first], return_inverse=True)
    scale = np.array([field.inverse(int(a)) for a in leading], np.int64)[where]
    scaled = _times(field, vector, scale[:, None])
    scaled[rows, first] = 0
    rest = scaled @ size ** np.arange(dimension)[::-1]
    return np.asarray(_starts(size, dimension)[dimension - 1 - first] + rest)


def _starts(size: int, dimension: int) -> I64:
    """Return how many points the spaces of 0, 1, ... coordinates have."""
    return np.array([(size**s - 1) // (size - 1) for s in range(dimension + 1)], np.int64)


def _coordinates(space: Projective, points: I64, dimension: int) -> I64:
    """Return `Projective.coordinates` of many points, shape (n, dimension)."""
    size, starts = space.field_size, _starts(space.field_size, dimension)
    tail = np.searchsorted(starts, points, side="right") - 1
    vectors = (points - starts[tail])[:, None] // size ** np.arange(dimension)[::-1] % size
    vectors[np.arange(points.size), dimension - 1 - tail] = 1
    return vectors


def _inner(field: Field, first: I64, second: I64) -> I64:
    """Return the inner products along the last axis."""
    if is_prime(field.size):
        return np.asarray((first * second).sum(axis=-1) % field.size)
    total = np.zeros(np.broadcast_shapes(first.shape, second.shape)[:-1], np.int64)
    for place in range(first.shape[-1]):
        total = _plus(field, total, _times(field, first[..., place], second[..., place]))
    return total


def _plus(field: Field, a: I64, b: I64) -> I64:
    return (a + b) % field.size if is_prime(field.size) else _table(field, "plus")[a, b]


def _times(field: Field, a: I64, b: I64) -> I64:
    return a * b % field.size if is_prime(field.size) else _table(field, "times")[a, b]


@lru_cache(maxsize=4)
def _table(field: Field, operation: str) -> I64:
    apply, numbers = getattr(field, operation), range(field.size)
    return np.array([[apply(a, b) for b in numbers] for a in numbers], np.int64)
