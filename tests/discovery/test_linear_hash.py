"""The linear hash: linear, pairwise independent; device and server agree. What counts it in bulk: tests/kernels."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from overstory.analysis.support.registry import support_of
from overstory.discovery.simulation import respond, support_counts
from overstory.kernels.small_hashes import encode_linear
from overstory.kernels.symbols.transforms import masks_of
from overstory.protocol.encodings.symbols import LinearHash, matrix_rows
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.calibration import best_hash_bits
from overstory.protocol.mechanisms.symbols import linear_hash
from overstory.protocol.sampling import SeededEntropy

WORDS = st.integers(0, (1 << 64) - 1)


@given(WORDS, WORDS, st.integers(0, (1 << 31) - 1))
def test_the_hash_is_linear(a, b, seed):
    encoding = LinearHash(1 << 64, 5)
    assert encoding.symbol(a ^ b, seed) == encoding.symbol(a, seed) ^ encoding.symbol(b, seed)


def test_different_values_collide_once_in_the_range():
    encoding = LinearHash(1 << 64, 3)
    pairs = [(0, 1), (7, 7 ^ 1 << 63), (123456789, 987654321), (1 << 40, (1 << 40) + 256)]
    for a, b in pairs:
        same = sum(encoding.symbol(a, seed) == encoding.symbol(b, seed) for seed in range(4000))
        assert binomtest(same, 4000, 1 / 8).pvalue > 1e-6


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=20), st.integers(1, 64), st.integers(1, 12))
def test_bulk_matrices_are_the_devices_own(seeds, num_bits, hash_bits):
    masks = masks_of(np.array(seeds, np.uint32), num_bits, hash_bits)
    assert masks.tolist() == [list(matrix_rows(seed, num_bits, hash_bits)) for seed in seeds]


@settings(max_examples=20, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(1, 12))
def test_bulk_hashes_are_the_devices_own(words, hash_bits):
    encoding = LinearHash(1 << 64, hash_bits)
    table, index = np.array(words, np.uint64), np.arange(len(words))
    found = encode_linear(table, index, index.astype(np.uint32), 64, hash_bits)
    assert found.tolist() == [encoding.symbol(word, seed) for seed, word in enumerate(words)]


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


def test_its_epsilon_is_the_channels():
    mechanism = linear_hash(domain_size=1 << 10, epsilon=2.0)
    assert 2 - 1e-8 < mechanism.epsilon_report == mechanism.epsilon_permanent <= 2.0
    assert mechanism.q_star == pytest.approx(1 / 8)


def test_simulated_reports_support_their_own_value_as_often_as_they_should():
    mechanism = linear_hash(domain_size=1 << 64, epsilon=2.0)
    batch = respond(mechanism, [77, 12345], np.zeros(20_000, np.int64), b"k" * 32)
    own, other = support_counts(mechanism, batch, [77, 12345])
    assert binomtest(int(own), 20_000, float(mechanism.p_star)).pvalue > 1e-6
    assert binomtest(int(other), 20_000, float(mechanism.q_star)).pvalue > 1e-6


def test_a_device_and_the_server_agree():
    mechanism = linear_hash(domain_size=1 << 16, epsilon=3.0)
    reports = [mechanism.randomize(500, SeededEntropy(i)) for i in range(300)]
    scan = sum(mechanism.supports(report, 500) for report in reports)
    from overstory.analysis.reports import ReportBatch

    batch = ReportBatch.of(mechanism, reports)
    assert support_counts(mechanism, batch, [500]).tolist() == [scan]
    assert support_of(mechanism).count(batch, None).ones[0, 500] == scan


@pytest.mark.parametrize("value", [-1, 1 << 16, "7", True])
def test_a_value_outside_is_refused(value):
    with pytest.raises(ParameterError, match="outside the domain"):
        LinearHash(1 << 16, 2).symbol(value, 0)


def test_shapes_outside_are_refused():
    for shape in ((1, 2), ((1 << 64) + 1, 2), (256, 0), (256, 13)):
        with pytest.raises(ParameterError):
            LinearHash(*shape)
    with pytest.raises(ParameterError, match="too many to count at once"):
        support_of(linear_hash(domain_size=1 << 64, epsilon=1.0)).count(None, None)


def test_the_range_is_the_power_of_two_of_least_variance():
    assert [best_hash_bits(epsilon) for epsilon in (0.1, 1.0, 2.0, 3.0, 4.0, 5.0)] == [1, 2, 3, 4, 6, 7]
