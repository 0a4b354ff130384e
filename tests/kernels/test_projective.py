from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.support import sets
from overstory.analysis.support.sets import simulate_points
from overstory.kernels import columns, devices
from overstory.kernels.sets.planes import characteristic, count_plane_support, inverse, opposite, plus, times
from overstory.kernels.sets.planes import field_of as field_table
from overstory.protocol.encodings.finite_fields import PrimeField, field_of
from overstory.protocol.encodings.sets import Projective
from overstory.protocol.errors import ParameterError
from support.kernel_twins import Words

KEY = bytes(range(32))
ONE = 2**32


def space(field_size, dimension):
    """The space all of whose points are values."""
    system = Projective((field_size**dimension - 1) // (field_size - 1), field_size)
    assert system.dimension == dimension
    return system


def twin(symbol, system, inside, device):
    """The one-to-one maps of `overstory.analysis.support.sets`, over the protocol's own coordinates and numbers."""
    q, t = system.field_size, system.dimension
    words = Words(KEY, b"points-1", device, symbol)
    held = words.coin() < inside
    _, own, _ = system.sizes
    drawn = words.below(1, own if held else q ** (t - 1))
    if held:
        others = list(space(q, t - 1).coordinates(drawn)) if t > 2 else [1]
    else:
        others = [drawn // q**i % q for i in reversed(range(t - 1))]
    normal = system.coordinates(symbol)
    pivot = normal.index(1)
    vector = [*others[:pivot], 0, *others[pivot:]]
    vector[pivot] = system.field.minus(int(not held), system.field.inner(normal, vector))
    assert (system.field.inner(normal, vector) == 0) == held
    return system.number(vector)


@pytest.mark.parametrize("size", [2, 3, 7, 101, 4, 8, 9, 16, 27, 125])
def test_a_kernel_calculates_as_the_protocol_does(size):
    field, twin_field = field_table(size), field_of(size)
    numbers = range(size)
    assert [[plus(a, b, field) for b in numbers] for a in numbers] == [
        [twin_field.plus(a, b) for b in numbers] for a in numbers
    ]
    assert [[times(a, b, field) for b in numbers] for a in numbers] == [
        [twin_field.times(a, b) for b in numbers] for a in numbers
    ]
    assert [opposite(a, field) for a in numbers] == [twin_field.minus(0, a) for a in numbers]
    assert [inverse(a, field) for a in numbers] == [0, *(twin_field.inverse(a) for a in numbers[1:])]


PRIMES = [(2, 2), (2, 3), (2, 7), (3, 2), (3, 3), (3, 5), (5, 4), (7, 3), (59, 3), (101, 2), (32749, 2)]
POWERS = [(4, 2), (4, 3), (4, 6), (8, 3), (9, 4), (27, 2), (32, 3), (625, 2), (1024, 2)]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(PRIMES) | st.sampled_from(POWERS),
    st.sampled_from([0, ONE, 1 << 31]),
    st.integers(0, 2**48 - 99),
    st.data(),
)
def test_any_point_equals_the_twin(shape, inside, first_device, data):
    system = space(*shape)
    symbols = data.draw(st.lists(st.integers(0, system.domain_size - 1), min_size=1, max_size=9))
    got = simulate_points(np.array(symbols), system, inside, KEY, first_device=first_device)
    assert got.tolist() == [twin(symbol, system, inside, first_device + row) for row, symbol in enumerate(symbols)]


def test_tiles_equal_the_twin(monkeypatch):
    monkeypatch.setattr(devices, "ROWS", 256)
    n, first_device, system = 523, ONE - 300, space(5, 5)
    symbols = np.random.default_rng(1).integers(0, system.domain_size, n)
    got = simulate_points(symbols, system, 1 << 31, KEY, first_device=first_device)
    assert got.tolist() == [twin(int(s), system, 1 << 31, first_device + row) for row, s in enumerate(symbols)]


def test_rows_together_or_apart_change_nothing():
    symbols = np.random.default_rng(2).integers(0, 121, 9_001)

    def report(start, stop):
        return simulate_points(symbols[start:stop], space(3, 5), 1 << 31, KEY, first_device=9 + start)

    whole = report(0, 9_001)
    assert np.array_equal(whole, np.concatenate([report(0, 1), report(1, 700), report(700, 9_001)]))
    assert simulate_points(symbols[:0], space(3, 5), 0, KEY).size == 0


def test_another_key_device_or_symbol_has_another_point():
    def one(symbol=0, device=0, key=KEY):
        return int(simulate_points(np.array([symbol]), space(101, 4), 0, key, first_device=device)[0])

    assert len({one(), one(symbol=1), one(device=1), one(device=ONE), one(key=bytes(32))}) == 5


def deviation(counts, system, symbol, inside):
    """Sigmas of chi-square over all points; limit 8, as in test_symbols."""
    total, own, _ = system.sizes
    held = np.array([system.contains(point, symbol) for point in range(total)])
    expected = np.where(held, inside / own, (1 - inside) / (total - own)) * counts.sum()
    return (((counts - expected) ** 2 / expected).sum() - (total - 1)) / (2 * (total - 1)) ** 0.5


@pytest.mark.parametrize(
    ("shape", "symbol"), [((2, 4), 0), ((3, 3), 5), ((3, 3), 12), ((5, 3), 30), ((7, 2), 3), ((4, 3), 9), ((9, 2), 8)]
)
def test_every_point_has_its_probability_and_a_wrong_one_is_caught(shape, symbol):
    n, inside, system = 200_000, 0.4, space(*shape)
    points = simulate_points(np.full(n, symbol), system, int(inside * ONE), KEY)
    counts = np.bincount(points, minlength=system.domain_size)
    assert abs(deviation(counts, system, symbol, inside)) < 8
    assert abs(deviation(counts, system, (symbol + 1) % system.domain_size, inside)) > 8
    broken = counts.copy()  # a point in ten goes to its neighbour
    broken[0], broken[1] = counts[0] - counts[0] // 10, counts[1] + counts[0] // 10
    assert abs(deviation(broken, system, symbol, inside)) > 8


def twin_support(histogram, system, domain_size):
    matrix = np.array([system.coordinates(point) for point in range(len(histogram))])
    if isinstance(system.field, PrimeField):
        products = matrix[:domain_size] @ matrix.T % system.field_size
    else:  # the products of all coordinates from the protocol's table, and their sums a digit at a time
        size, (prime, degree) = system.field_size, characteristic(system.field_size)
        table = np.array([[system.field.times(a, b) for b in range(size)] for a in range(size)])
        terms = table[matrix[:domain_size, None, :], matrix[None, :, :]]
        products = sum((terms // prime**i % prime).sum(axis=2) % prime for i in range(degree))
    return [int(histogram[row == 0].sum()) for row in products]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(2, 2), (2, 3), (2, 4), (2, 8), (3, 2), (3, 3), (3, 5), (5, 4), (7, 3), (23, 3), (101, 2)])
    | st.sampled_from([(4, 2), (4, 3), (4, 4), (8, 3), (9, 2), (9, 3), (16, 2), (25, 2)]),
    st.data(),
)
def test_any_support_equals_the_twin(shape, data):
    system = space(*shape)
    domain_size = data.draw(st.integers(1, system.domain_size))
    histogram = np.random.default_rng(domain_size).integers(0, 1 << 40, system.domain_size)
    got = count_plane_support(histogram, *shape, domain_size)
    assert got.dtype == np.int64
    assert got.tolist() == twin_support(histogram, system, domain_size)
    with mock.patch.object(columns, "COMPILER", "no such module"):  # by NumPy alone
        expected = sets.count_plane_support(histogram, system)[:domain_size]
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(2, 2), (2, 6), (3, 4), (5, 3), (31, 3), (32749, 2), (4, 5), (8, 4), (81, 2)])
def test_one_report_supports_the_values_whose_sets_hold_it(shape):
    system = space(*shape)
    for point in {0, 1, 2, system.domain_size // 2, system.domain_size - 1}:
        histogram = np.zeros(system.domain_size, np.int64)
        histogram[point] = 1
        values = min(system.domain_size, 2_000)
        got = count_plane_support(histogram, *shape, values)
        assert got.tolist() == [int(system.contains(point, value)) for value in range(values)]


def test_a_space_larger_than_the_domain_needs():
    system = space(3, 4)
    histogram = np.arange(40)
    assert count_plane_support(histogram, 3, 4, 2).tolist() == twin_support(histogram, system, 2)


def test_a_space_of_too_many_points_is_refused():
    with pytest.raises(ParameterError, match=r"the space has \d+ points: .* up to 2\*\*32"):
        simulate_points(np.array([2]), Projective(1 << 31, 2039), 7, KEY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"field_size": 6}, "field_size"),
        ({"field_size": 2048}, "field_size"),
        ({"dimension": 1}, "dimension"),
        ({"dimension": 33}, "dimension"),
    ],
)
def test_what_is_no_space_is_refused(change, message):
    arguments = {"histogram": np.zeros(13, int), "field_size": 3, "dimension": 3, "domain_size": 3}
    with pytest.raises(ValueError, match=message):
        count_plane_support(**(arguments | change))


@pytest.mark.parametrize(
    ("histogram", "domain_size", "message"),
    [(np.zeros(12, int), 3, "13 integers"), (np.zeros(13), 3, "13 integers"), (np.zeros(13, int), 14, "domain_size")],
)
def test_a_histogram_of_another_space_is_refused(histogram, domain_size, message):
    with pytest.raises(ValueError, match=message):
        count_plane_support(histogram, 3, 3, domain_size)
