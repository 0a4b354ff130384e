"""Support of reports that are one output of a set system: a report supports the values whose symbol or subset it is.

Points are those of PG(t-1, q), numbered as `overstory.protocol.kinds.sets.Projective` does: with ``P(s) = (q^s - 1)
/ (q - 1)``, point number i, ``P(s) <= i < P(s + 1)``, is (0, ..., 0, 1, and the s digits of i - P(s) in base q).

A value v owns the points x with <v, x> = 0.  Let coordinate number j be v's first that is not 0, so that it is 1.  Any
other t - 1 coordinates of x, and the product <v, x>, fix the coordinate x_j = <v, x> - sum_{i > j} v_i x_i.  Hence

- the P(t-1) points inside correspond one to one to the points y of PG(t-2, q), which are x without coordinate j;
- the q^(t-1) points outside, scaled so that <v, x> = 1, correspond one to one to the vectors of q^(t-1).

So one uniform number below P(t-1) or q^(t-1) gives a uniform point of either kind, and nothing is tried twice.

*Support* is the sum of a histogram over a hyperplane. Let h(x) be the reports at point x, and extend it to vectors:
h(c x) = h(x) for c != 0, h(0) = 0. A value v = (0, ..., 0, 1, u), u having r digits, sees no more of x than its last
r + 1 coordinates w = (w_0, w_1 .. w_r):

    (q - 1) support(v) = sum { M(w) : w_0 + <u, w_1 .. w_r> = 0 },    M(w) = sum of h(x) over all x that end in w.

The sum over one coordinate after the other, digits of u taking the places of coordinates of w, is the dynamic program

    B_0(z; y) = M(z, y),    B_i(u_1 .. u_i; z; y) = sum_a B_(i-1)(u_1 .. u_(i-1); z - u_i a; a, y),

and B_r(u; 0) is wanted. (Feldman, Nelson, Nguyen and Talwar, "Private frequency estimation via projective geometry",
ICML 2022, give O(K q t) for K points.) That bound needs the symmetry B(c z; c y) = B(z; y): of all multiples, only that
is kept whose *last* coordinate of y that is not 0 is 1. All terms of the sum end in the y of its left side, so none
ever has to be scaled, unless y = 0; there, the terms with a != 0 are B(z / a - u_i; 1, 0), whose sum over a needs no
division either: for z = 0 all are B(-u_i; 1, 0), for z = 1 each residue but -u_i comes once. For y of m coordinates
there are P(m) = q P(m-1) + 1 numbers: number ``a P(m-1) + c`` is (a, the y of number c), and the last is (1, 0 ..).
B(0; 0) and B(1; 0) are kept beside them.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Cohorts, Support, Words, chosen, pooled, symbols_of
from overstory.analysis.kinds.work import Work
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.kernels.devices import (
    StreamKey,
    below,
    in_tiles,
    simulate_subsets,
    simulate_symbols,
    stream_starts,
    stream_words,
)
from overstory.protocol.channels import ONE
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_SYMBOLS, check_symbol
from overstory.protocol.kinds.finite_fields import Field, PowerField
from overstory.protocol.kinds.sets import Projective
from overstory.protocol.kinds.symbols import SymbolMechanism

I64 = NDArray[np.int64]


class OutputSupport(Support[Any]):
    """One output a report."""

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return symbols_of(values, self.domain_size or 0)

    @property
    def inside(self) -> int:
        """P(the output is one of the value's own) over 2**32."""
        return int(self.mechanism.p_star * ONE)

    def histogram(self, batch: ReportBatch) -> NDArray[np.intp]:
        """Return how often each output was sent."""
        return np.bincount(self.outputs(batch), minlength=self.num_outputs)


class CountedByValue(Support[Any]):
    """Which values an output supports is counted at once, for the whole domain."""

    @abstractmethod
    def supports(self, batch: ReportBatch) -> NDArray[np.integer[Any]]:
        """Return how many reports support each value of the domain."""

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        return chosen(pooled(self.supports(batch), len(batch)), values)


class SymbolSupport(OutputSupport):
    """The output is a symbol: what the value is encoded as, sent through the channels."""

    mechanism: SymbolMechanism

    @abstractmethod
    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        """Return the symbol that the channels work on, for each device."""

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        rounds = self.mechanism.rounds
        alphas = [int(channel.alpha * ONE) for channel in (rounds.permanent, rounds.instantaneous)]
        permanent, instantaneous = (None if alpha == ONE else alpha for alpha in alphas)
        reported = simulate_symbols(
            self.encode(table, symbols, cohorts),
            cohorts.astype(np.uint32),
            self.num_outputs,
            permanent,
            instantaneous,
            stream,
        )
        return reported.astype(np.uint64).reshape(-1, 1)


class DirectSupport(CountedByValue, SymbolSupport):
    """The value is the symbol."""

    work = Work("n + d")

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:  # noqa: ARG002
        return table[symbols]

    def supports(self, batch: ReportBatch) -> NDArray[np.intp]:
        return self.histogram(batch)


class HadamardSupport(CountedByValue, SymbolSupport):
    """The value's sign in the report's row of the Hadamard matrix; all values at once by a fast transform."""

    work = Work("n + d log d")
    watched: ClassVar[frozenset[str]] = frozenset({"pairs", "seeds"})

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[Any]:
        from overstory.kernels.small_hashes import encode_hadamard

        return encode_hadamard(table[symbols], cohorts)

    def supports(self, batch: ReportBatch) -> NDArray[np.int64]:
        from overstory.kernels.small_hashes import count_hadamard_support

        return count_hadamard_support(batch.cohorts, self.outputs(batch).astype(np.uint32), self.encoding.domain_size)

    def votes(self, batch: ReportBatch, num_values: int) -> Words:
        table, signs = self.table(range(num_values)), batch.bits[:, 0].astype(np.uint32)
        votes = np.zeros((len(batch), -(-num_values // 64)), np.uint64)
        for value in range(num_values):
            encoded = self.encode(table, np.full(len(batch), value, np.int32), batch.cohorts)
            votes[:, value // 64] |= (encoded == signs).astype(np.uint64) << np.uint64(value % 64)
        return votes


class LinearSupport(CountedByValue, SymbolSupport):
    """The value's linear hash under the report's seed; all values at once by a fast transform."""

    work = Work("n g + d log d", report=1e-7)
    watched: ClassVar[frozenset[str]] = frozenset({"seeds"})
    independent_seeds = True

    @property
    def hash_shape(self) -> tuple[int, int]:
        """Bits of a value, and of its hash."""
        return self.encoding.num_bits, self.encoding.hash_bits

    def table(self, values: Sequence[Any]) -> NDArray[np.uint64]:
        size = self.domain_size or 0
        if size > 1 << 63:  # no signed integer holds these
            return np.array([check_symbol(value, size) for value in values], np.uint64)
        return super().table(values).astype(np.uint64)

    def encode(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts) -> NDArray[np.uint32]:
        from overstory.kernels.small_hashes import encode_linear

        return encode_linear(table, symbols, cohorts, *self.hash_shape)

    def supports(self, batch: ReportBatch) -> NDArray[np.int64]:
        size = self.encoding.domain_size
        if size > MAX_SYMBOLS:
            raise ParameterError(f"{self.mechanism.name}: {size} values are too many to count at once: give values")
        return self._first_supports(batch, size)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count the domain, or a range from 0, by one transform; other values one by one."""
        if values is None:
            return super().count(batch, None)
        if isinstance(values, range) and len(values) and values == range(len(values)):
            return pooled(self._first_supports(batch, len(values)), len(batch))
        return pooled(self.count_extensions(batch, self.table(values), 0)[:, 0], len(batch))

    def _first_supports(self, batch: ReportBatch, size: int) -> NDArray[np.int64]:
        return self.count_extensions(batch, np.zeros(1, np.uint64), (size - 1).bit_length())[0, :size]

    def count_extensions(self, batch: ReportBatch, parents: NDArray[np.uint64], step: int) -> NDArray[np.int64]:
        """Return the support of every extension of `parents` by `step` bits, shape (b, 2**step)."""
        from overstory.kernels.small_hashes import count_blocks, masks_of

        masks = masks_of(batch.cohorts, *self.hash_shape)
        return count_blocks(masks, self.outputs(batch).astype(np.uint32), parents, step)


class SubsetSupport(CountedByValue, OutputSupport):
    """A subset of the values, as bits, supports its members."""

    work = Work("n d bits added", cell=5e-11)
    watched: ClassVar[frozenset[str]] = frozenset({"pairs"})

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002
        """Draw subsets; they are memoized, so all reports of a device are one."""
        shape = self.encoding.domain_size, self.encoding.subset_size
        return simulate_subsets(table[symbols], *shape, self.inside, stream)

    def supports(self, batch: ReportBatch) -> NDArray[np.int64]:
        size, members = self.encoding.subset_size, np.bitwise_count(batch.bits).sum(axis=1)
        if (wrong := members[members != size]).size:
            raise ParameterError(f"a report of {self.mechanism.name} has {size} members, not {wrong[0]}")
        return batch.accumulate().ones


class DrawnSupport(CountedByValue, OutputSupport):
    """An output is drawn from the value's own, or from the others."""

    purpose: ClassVar[bytes]  # tells these draws from all others

    @abstractmethod
    def output(self, held: I64, is_inside: NDArray[np.bool_], place: I64) -> I64:
        """Return output number `place` of each value's own, or of those that are not."""

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002
        """Draw outputs; they are memoized, so all reports of a device are one."""
        (outputs, own, _), held, drawn = self.encoding.sizes, table[symbols], np.empty(len(symbols), np.uint64)
        if outputs > ONE:
            raise ParameterError(f"there are {outputs} outputs: devices are simulated with up to 2**32")

        def draw(rows: slice, devices: I64) -> None:
            starts = stream_starts(stream.key, self.purpose, devices, held[rows])
            is_inside = stream_words(starts, 0) >> np.uint64(32) < np.uint64(self.inside)
            place = below(stream_words(starts, 1), np.where(is_inside, own, outputs - own)).astype(np.int64)
            drawn[rows] = self.output(held[rows], is_inside, place)

        in_tiles(draw, stream, held.size)
        return drawn.reshape(-1, 1)


class ListedSupport(DrawnSupport):
    """An output supports the values that own it, as `protocol.kinds.own_oracles` lists them."""

    work = Work("n + d outputs each", value=1e-7)
    purpose = b"listed-1"

    @property
    def inside(self) -> int:
        return int(self.mechanism.inside * ONE)  # p* is what its author states

    @cached_property
    def order(self) -> I64:
        """Each value's own outputs, then all others."""
        every = range(self.encoding.sizes[0])
        return np.array(
            [[*owned, *(output for output in every if output not in owned)] for owned in self.encoding.owned]
        )

    def output(self, held: I64, is_inside: NDArray[np.bool_], place: I64) -> I64:
        return np.asarray(self.order[held, np.where(is_inside, place, self.encoding.sizes[1] + place)])

    def supports(self, batch: ReportBatch) -> NDArray[np.integer[Any]]:
        return np.asarray(self.histogram(batch)[np.array(self.encoding.owned)].sum(axis=1))


class PointSupport(DrawnSupport):
    """A point of a projective space supports the values on its hyperplane."""

    encoding: Projective
    work = Work("n + q t d", value=4e-7)
    purpose = b"points-1"

    def output(self, held: I64, is_inside: NDArray[np.bool_], place: I64) -> I64:
        return _points(self.encoding, held, is_inside, place)

    def supports(self, batch: ReportBatch) -> I64:
        return count_plane_support(self.histogram(batch), self.encoding)


TOGETHER: Final = 1 << 18  # terms of sums that are looked up at once: 2 MB


def count_plane_support(histogram: I64, space: Projective) -> I64:
    """Return how many reports lie on each value's hyperplane: see the module."""
    size, field = space.field_size, space.field
    smallest = replace(space, domain_size=space.sizes[1] + 1)  # of those with these points
    table = histogram[_arranged(smallest)][None]  # by prefix of u, z, and y
    ends = np.array([[0, histogram[_starts(size, space.dimension)[-2]]]])  # B(0; 0), B(1; 0)
    supports: list[I64] = []
    for tail in range(space.dimension - 1, 0, -1):
        wanted = min(max(space.domain_size - int(_starts(size, tail)[tail]), 0), size**tail)
        supports.insert(0, _first_planes(field, table, ends, tail, wanted))
        # Of (z; a, y) remains (a; y): summed over z, B(0; 0) comes once and B(1; 0) for each of its q - 1 multiples.
        ends = np.stack([ends @ [1, size - 1], table[:, :, -1].sum(axis=1)], axis=1)
        table = table[:, :, :-1].sum(axis=1).reshape(1, size, -1)
    return np.concatenate([ends[:, 0] // (size - 1), *supports])


def _first_planes(field: Field, table: I64, ends: I64, tail: int, wanted: int) -> I64:
    """Return the support of the first values (0, ..., 0, 1, u), u of `tail` digits, in order of u."""
    size, every = field.size, np.arange(field.size)
    minus = _opposite(field, every)
    for left in range(tail - 1, 0, -1):
        needed = -(-wanted // size**left)  # prefixes of one digit more
        digits = minus[: min(needed, size)]
        body = table[:, :, :-1].reshape(len(table), size * size, -1)  # by z and the first of y, then the rest of it
        alone = table[:, :, -1]  # B(z; 1, 0, ..., 0)
        parts, many = [], max(1, TOGETHER // body.size)
        for start in range(0, len(digits), many):
            # B_i(u; z; y) = sum over a of B_(i-1)(z - u_i a; a, y).
            steps = _times(field, digits[start : start + many, None], every)
            rows = _plus(field, every[:, None], steps[:, None, :])
            parts.append(body.take(rows * size + every, axis=1).sum(axis=3))
        table = np.concatenate(parts, axis=1)
        table = table.reshape(-1, *table.shape[2:])[:needed]
        same, column = alone[:, digits], alone.sum(axis=1, keepdims=True)
        both = ends[:, :1] + (size - 1) * same, ends[:, 1:] + column - same
        ends = np.stack(both, axis=-1).reshape(-1, 2)[:needed]
    # The last digit: (q - 1) support = B(0; 0) + (q - 1) B(-u; 1).
    return np.asarray((ends[:, :1] // (size - 1) + table[:, minus, 0]).ravel()[:wanted])


@lru_cache(maxsize=2)
def _arranged(space: Projective) -> I64:
    """Return for each z and each y of the table which point (z, y) is."""
    every, others = np.arange(space.field_size), np.zeros((0, 0), np.int64)
    for _ in range(space.dimension - 1):
        first = np.repeat(every, len(others))[:, None]
        only = np.eye(1, others.shape[1] + 1, dtype=np.int64)
        others = np.vstack([np.hstack([first, np.tile(others, (every.size, 1))]), only])
    return np.stack([_numbers(space, np.insert(others, 0, z, axis=1)) for z in every])


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
    return _numbers(space, vector)


def _numbers(space: Projective, vectors: I64) -> I64:
    """Return the number of the point that each vector is a multiple of; none of which is 0."""
    size, dimension, field, rows = space.field_size, space.dimension, space.field, np.arange(len(vectors))
    first = (vectors != 0).argmax(axis=1)
    leading, where = np.unique(vectors[rows, first], return_inverse=True)
    scale = np.array([field.inverse(int(a)) for a in leading], np.int64)[where]
    scaled = _times(field, vectors, scale[:, None])
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
