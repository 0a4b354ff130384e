"""The support of every value under projective geometry response equals NumPy's: the products of all pairs."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.kinds import symbols
from overstory.analysis.kinds.symbols import packed
from overstory.kernels.planes import count_plane_support, inverse, opposite, plus, times
from overstory.protocol.kinds.finite_fields import field_of
from overstory.protocol.kinds.sets import Projective


def space(field_size, dimension):
    """The space all of whose points are values."""
    return Projective((field_size**dimension - 1) // (field_size - 1), field_size)


@pytest.mark.parametrize("size", [2, 3, 7, 101, 4, 8, 9, 16, 27, 125])
def test_a_kernel_calculates_as_the_protocol_does(size):
    twin_field = field_of(size)
    field = packed(twin_field)
    numbers = range(size)
    assert [[plus(a, b, field) for b in numbers] for a in numbers] == [
        [twin_field.plus(a, b) for b in numbers] for a in numbers
    ]
    assert [[times(a, b, field) for b in numbers] for a in numbers] == [
        [twin_field.times(a, b) for b in numbers] for a in numbers
    ]
    assert [opposite(a, field) for a in numbers] == [twin_field.minus(0, a) for a in numbers]
    assert [inverse(a, field) for a in numbers] == [0, *(twin_field.inverse(a) for a in numbers[1:])]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(2, 2), (2, 3), (2, 4), (2, 8), (3, 2), (3, 3), (3, 5), (5, 4), (7, 3), (23, 3), (101, 2)])
    | st.sampled_from([(4, 2), (4, 3), (4, 4), (8, 3), (9, 2), (9, 3), (16, 2), (25, 2)]),
    st.data(),
)
def test_any_support_equals_numpys(shape, data):
    system = space(*shape)
    domain_size = data.draw(st.integers(1, system.domain_size))
    histogram = np.random.default_rng(domain_size).integers(0, 1 << 40, system.domain_size)
    got = count_plane_support(histogram, packed(system.field), shape[1], domain_size)
    assert got.dtype == np.int64
    with mock.patch.object(symbols, "are_few", return_value=True):  # by NumPy alone
        expected = symbols.count_plane_support(histogram, system)[:domain_size]
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("dimension", [1, 33])
def test_what_is_no_space_is_refused(dimension):
    with pytest.raises(ValueError, match="dimension"):
        count_plane_support(np.zeros(13, int), packed(field_of(3)), dimension, 3)


@pytest.mark.parametrize(
    ("histogram", "domain_size", "message"),
    [(np.zeros(12, int), 3, "13 integers"), (np.zeros(13), 3, "13 integers"), (np.zeros(13, int), 14, "domain_size")],
)
def test_a_histogram_of_another_space_is_refused(histogram, domain_size, message):
    with pytest.raises(ValueError, match=message):
        count_plane_support(histogram, packed(field_of(3)), 3, domain_size)
