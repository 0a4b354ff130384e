"""Support of reports that are points of a projective space, drawn from the value's hyperplane or from outside it.

Points are those of PG(t-1, q), numbered as `overstory.protocol.kinds.sets.Projective` does: with ``P(s) = (q^s - 1)
/ (q - 1)``, point number i, ``P(s) <= i < P(s + 1)``, is (0, ..., 0, 1, and the s digits of i - P(s) in base q).

A value v owns the points x with <v, x> = 0.  Let coordinate number j be v's first that is not 0, so that it is 1.  Any
other t - 1 coordinates of x, and the product <v, x>, fix the coordinate x_j = <v, x> - sum_{i > j} v_i x_i.  Hence

- the P(t-1) points inside correspond one to one to the points y of PG(t-2, q), which are x without coordinate j;
- the q^(t-1) points outside, scaled so that <v, x> = 1, correspond one to one to the vectors of q^(t-1).

So one uniform number below P(t-1) or q^(t-1) gives a uniform point of either kind, and nothing is tried twice.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Cohorts, Words
from overstory.analysis.kinds.symbols import CountedByValue, OutputSupport
from overstory.analysis.kinds.work import Work
from overstory.analysis.reports import ReportBatch
from overstory.kernels.columns import are_few
from overstory.kernels.devices import StreamKey, below, in_tiles, stream_starts, stream_words
from overstory.protocol.channels import ONE
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.finite_fields import Field, PowerField
from overstory.protocol.kinds.sets import Projective

I64 = NDArray[np.int64]


class PointSupport(CountedByValue, OutputSupport):
    """A point supports the values on its hyperplane."""

    encoding: Projective
    work = Work("n + q t d", value=4e-7)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002
        """Draw points; they are memoized, so all reports of a device are one."""
        points = simulate_points(table[symbols], self.encoding, self.inside, stream)
        return points.astype(np.uint64).reshape(-1, 1)

    def supports(self, batch: ReportBatch) -> I64:
        histogram = np.bincount(self.outputs(batch), minlength=self.num_outputs)
        return count_plane_support(histogram, self.encoding)


MOST_PAIRS: Final = 1 << 22  # pairs of a value and a point that somebody sent, up to which NumPy tries each


def simulate_points(symbols: NDArray[Any], space: Projective, inside: int, stream: StreamKey) -> I64:
    """Return one point from each of many devices, a function of the key, the device and its value alone."""
    points, own, _ = space.sizes
    if points > ONE:
        raise ParameterError(f"the space has {points} points: devices are simulated in spaces of up to 2**32")
    held, out = np.asarray(symbols, np.int64), np.empty(len(symbols), np.int64)

    def draw(rows: slice, devices: I64) -> None:
        starts = stream_starts(stream.key, b"points-1", devices, held[rows])
        is_inside = stream_words(starts, 0) >> np.uint64(32) < np.uint64(inside)
        drawn = below(stream_words(starts, 1), np.where(is_inside, own, points - own))
        out[rows] = _points(space, held[rows], is_inside, drawn.astype(np.int64))

    in_tiles(draw, stream, held.size)
    return out


def count_plane_support(histogram: I64, space: Projective) -> I64:
    """Return how many reports lie on each value's hyperplane; see `overstory.kernels.planes`."""
    there = np.flatnonzero(histogram)
    if there.size * space.domain_size > MOST_PAIRS or not are_few(0, "planes"):
        from overstory.kernels import planes

        return planes.count_plane_support(histogram, packed(space.field), space.dimension, space.domain_size)
    values = _coordinates(space, np.arange(space.domain_size), space.dimension)
    sent = _coordinates(space, there, space.dimension)
    products = _inner(space.field, values[:, None, :], sent[None, :, :])
    return np.asarray((products == 0) @ histogram[there], np.int64)


def packed(field: Field) -> I64:
    """Return a field as `overstory.kernels.planes` takes it."""
    every = np.arange(field.size)
    inverses = [0, *map(field.inverse, every[1:].tolist())]
    if not isinstance(field, PowerField):
        return np.concatenate([[field.size, 0], inverses, _opposite(field, every)])
    powers, logarithms = _logarithms(field)
    sums = _plus(field, every[:, None], every).ravel()
    return np.concatenate([[field.size, 1], inverses, _opposite(field, every), powers, powers, logarithms, sums])


def _points(space: Projective, symbols: I64, inside: NDArray[np.bool_], drawn: I64) -> I64:
    """Return point number `drawn` of those inside each value's set, or of those outside: see the module."""
    size, dimension, field = space.field_size, space.dimension, space.field
    rows = np.arange(symbols.size)
    normal = _coordinates(space, symbols, dimension)
    pivot = (normal != 0).argmax(axis=1)
    digits = drawn[:, None] // size ** np.arange(dimension - 1)[::-1] % size
    others = np.where(inside[:, None], _coordinates(space, np.where(inside, drawn, 0), dimension - 1), digits)
    places = np.arange(dimension)
    vector = np.take_along_axis(others, np.clip(places - (places > pivot[:, None]), 0, dimension - 2), axis=1)
    vector[rows, pivot] = 0
    minus = _opposite(field, _inner(field, normal, vector))
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
    if not isinstance(field, PowerField):
        return np.asarray((first * second).sum(axis=-1) % field.size)
    total = np.zeros(np.broadcast_shapes(first.shape, second.shape)[:-1], np.int64)
    for place in range(first.shape[-1]):
        total = _plus(field, total, _times(field, first[..., place], second[..., place]))
    return total


def _plus(field: Field, a: I64, b: I64) -> I64:
    if not isinstance(field, PowerField):
        return (a + b) % field.size
    return (_digits(field, a) + _digits(field, b)) % field.prime @ _places(field)


def _opposite(field: Field, a: I64) -> I64:
    return -a % field.size if not isinstance(field, PowerField) else -_digits(field, a) % field.prime @ _places(field)


def _times(field: Field, a: I64, b: I64) -> I64:
    if not isinstance(field, PowerField):
        return a * b % field.size
    powers, logarithms = _logarithms(field)
    return np.where((a == 0) | (b == 0), 0, powers[(logarithms[a] + logarithms[b]) % len(powers)])


def _places(field: PowerField) -> I64:
    degree = next(k for k in itertools.count() if field.prime**k == field.size)
    return field.prime ** np.arange(degree)


def _digits(field: PowerField, a: I64) -> I64:
    """Return an element's digits in base p, its polynomial's coefficients, along a new last axis."""
    return a[..., None] // _places(field) % field.prime


@lru_cache(maxsize=4)
def _logarithms(field: PowerField) -> tuple[I64, I64]:
    """Return the powers of x, which are all elements but 0, and to each element the power that it is."""
    powers, logarithms = np.array(field.powers), np.zeros(field.size, np.int64)
    logarithms[powers] = np.arange(powers.size)
    return powers, logarithms
