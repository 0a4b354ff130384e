"""The linear hash: linear, pairwise independent; device and server agree. What counts it in bulk: tests/kernels."""

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.analysis.kinds.base import support_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.hashes import LinearHash, best_hash_bits, linear_hash

WORDS = st.integers(0, (1 << 64) - 1)


@given(WORDS, WORDS, st.integers(0, (1 << 31) - 1))
def test_the_hash_is_linear(a, b, seed):
    encoding = LinearHash(1 << 64, 5)
    assert encoding.symbol(a ^ b, seed) == encoding.symbol(a, seed) ^ encoding.symbol(b, seed)


@pytest.mark.parametrize(("num_bits", "hash_bits", "epsilon"), [(3, 1, 0.5), (4, 2, 1.0), (3, 3, 3.0)])
def test_over_all_matrices_estimates_are_unbiased_and_their_variance_is_olhs(num_bits, hash_bits, epsilon):
    """The proof of docs/how-to/discovery.md by enumeration: every matrix, every report, as fractions."""
    channel = linear_hash(domain_size=1 << num_bits, epsilon=epsilon, hash_bits=hash_bits).channel
    size, true = 1 << hash_bits, 5
    matrices = list(product(range(1 << num_bits), repeat=hash_bits))
    keep, other = channel.other + channel.alpha, channel.other
    for value in range(1 << num_bits):
        supported = Fraction(0)
        for matrix in matrices:
            held, asked = (sum(((row & v).bit_count() & 1) << j for j, row in enumerate(matrix)) for v in (true, value))
            supported += keep if held == asked else other
        supported /= len(matrices)
        assert supported == (keep if value == true else Fraction(1, size))
    gain = math.expm1(epsilon)
    p, q = float(keep), 1 / size
    assert q * (1 - q) / (p - q) ** 2 == pytest.approx((gain + size) ** 2 / (gain**2 * (size - 1)), rel=1e-6)


def test_shapes_outside_are_refused():
    for shape in ((1, 2), ((1 << 64) + 1, 2), (256, 0), (256, 13)):
        with pytest.raises(ParameterError):
            LinearHash(*shape)
    with pytest.raises(ParameterError, match="too many to count at once"):
        support_of(linear_hash(domain_size=1 << 64, epsilon=1.0)).count(None, None)


def test_the_range_is_the_power_of_two_of_least_variance():
    assert [best_hash_bits(epsilon) for epsilon in (0.1, 1.0, 2.0, 3.0, 4.0, 5.0)] == [1, 2, 3, 4, 6, 7]
