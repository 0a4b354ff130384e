"""Fields obey the laws of fields, and are numbered as polynomials."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.finite_fields import MAX_POWER, field_of, is_field_size, powers_of_x

SMALL = [2, 3, 5, 4, 8, 9, 16, 25, 27]
POWERS = [4, 8, 9, 16, 25, 27, 32, 49, 64, 81, 121, 125, 128, 169, 243, 256, 289, 343, 361, 512, 529, 625, 729, 841]
POWERS += [961, 1024]


def digits(number, prime):
    return [number // prime**i % prime for i in range(11)]


def long_multiplication(a, b, field):
    """The twin: multiply the polynomials, then take multiples of the field's own away from the top."""
    p, modulus = field.prime, digits(field.polynomial, field.prime)
    degree = max(i for i, digit in enumerate(modulus) if digit)
    product = [0] * 32
    for (i, x), (j, y) in itertools.product(enumerate(digits(a, p)), enumerate(digits(b, p))):
        product[i + j] = (product[i + j] + x * y) % p
    for top in reversed(range(degree, 32)):
        multiple = product[top]
        for i in range(degree + 1):
            product[top - degree + i] = (product[top - degree + i] - multiple * modulus[i]) % p
    return sum(digit * p**i for i, digit in enumerate(product))


@pytest.mark.parametrize("size", SMALL)
def test_the_laws_of_a_field(size):
    field, numbers = field_of(size), range(size)
    for a, b in itertools.product(numbers, repeat=2):
        assert field.plus(a, b) == field.plus(b, a) < size
        assert field.times(a, b) == field.times(b, a) < size
        assert field.plus(field.minus(a, b), b) == a
        assert (field.times(a, b) == 0) == (a == 0 or b == 0)
        for c in numbers:
            assert field.plus(field.plus(a, b), c) == field.plus(a, field.plus(b, c))
            assert field.times(field.times(a, b), c) == field.times(a, field.times(b, c))
            assert field.times(a, field.plus(b, c)) == field.plus(field.times(a, b), field.times(a, c))
    assert all(field.times(a, field.inverse(a)) == 1 for a in numbers[1:])
    assert all(field.plus(a, 0) == a == field.times(a, 1) for a in numbers)


@settings(max_examples=200)
@given(st.sampled_from(POWERS), st.data())
def test_products_are_those_of_polynomials(size, data):
    field = field_of(size)
    a, b = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    assert field.times(a, b) == long_multiplication(a, b, field)


@pytest.mark.parametrize("size", POWERS)
def test_the_polynomial_is_the_least_of_which_x_generates_the_field(size):
    field = field_of(size)
    assert powers_of_x(field.polynomial, size, field.prime) == field.powers
    assert sorted(field.powers) == list(range(1, size))
    assert not any(powers_of_x(lower, size, field.prime) for lower in range(size + 1, field.polynomial))


def test_every_field_size_is_a_prime_or_a_power():
    sizes = {n for n in range(MAX_POWER + 1) if is_field_size(n)}
    primes = {n for n in sizes if not field_of(n).polynomial}
    assert sizes - primes == set(POWERS)
    assert primes == {n for n in range(2, MAX_POWER + 1) if all(n % k for k in range(2, n))}


@pytest.mark.parametrize("size", [-1, 0, 1, 6, 12, 100, 2048, 2**16])
def test_there_is_no_field_of_other_sizes(size):
    with pytest.raises(
        ParameterError, match=f"field_size = {size}: give a prime below 32768, or a power of a prime up"
    ):
        field_of(size)
