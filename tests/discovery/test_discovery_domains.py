"""Codes: injective, padded as documented, and refused with one clear message."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.discovery import CodedIntegers, CodedStrings
from overstory.discovery.codes import are_values, byte_strings, distinct, extensions, prefixes, rows_of, values_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.search.plans import prefix_bytes

SHORT = st.binary(max_size=6)


@given(st.lists(SHORT, unique=True))
def test_no_two_strings_share_a_code(values):
    domain = CodedStrings(6)
    codes = [domain.code(value) for value in values]
    assert len(set(codes)) == len(values)
    assert [domain.value(code) for code in codes] == values
    assert all(code < 1 << domain.width for code in codes)


@given(st.binary(min_size=7, max_size=7))
def test_a_code_is_some_strings_or_it_is_none(raw):
    domain = CodedStrings(6)
    value = domain.value(int.from_bytes(raw, "big"))
    assert value is None or domain.code(value) == int.from_bytes(raw, "big")
    rows = np.frombuffer(raw, np.uint8).reshape(1, -1)
    assert are_values(domain, rows).tolist() == [value is not None]


@given(st.integers(1, 64).flatmap(lambda bits: st.tuples(st.just(bits), st.integers(0, (1 << bits) - 1))))
def test_integers_are_their_own_codes_in_any_width(drawn):
    bits, value = drawn
    domain = CodedIntegers(bits)
    rows = rows_of(domain, np.array([value], np.uint64))
    assert domain.value(domain.code(value)) == value
    assert rows.tobytes() == prefix_bytes(value, bits, bits) == rows_of(domain, [value]).tobytes()
    assert values_of(domain, rows) == [value]


@given(st.integers(0, (1 << 24) - 1), st.integers(1, 24))
def test_bulk_prefixes_are_the_devices_own(code, num_bits):
    rows = rows_of(CodedIntegers(24), [code])
    assert byte_strings(prefixes(rows, num_bits)) == [prefix_bytes(code, 24, num_bits)]


@given(st.integers(0, 20), st.integers(1, 9), st.integers(1, 30), st.data())
def test_extensions_are_all_the_prefixes_that_go_on(before, step, width, data):
    width = max(width, before + step)
    code = data.draw(st.integers(0, (1 << width) - 1))
    parent = np.frombuffer(prefix_bytes(code, width, before), np.uint8).reshape(1, -1)
    raw = byte_strings(extensions(parent, before, step))
    start = code >> (width - before) << step
    assert raw == [prefix_bytes(start + suffix, before + step, before + step) for suffix in range(1 << step)]
    assert prefix_bytes(code, width, before + step) in raw


def test_chosen_extensions_are_those_of_all():
    parents = np.array([[1, 2], [3, 4]], np.uint8)
    every = extensions(parents, 16, 5)
    assert np.array_equal(extensions(parents, 16, 5, np.array([40, 3])), every[[40, 3]])


def test_distinct_values_of_both_kinds():
    rows, index, _ = distinct(CodedIntegers(16), np.array([5, 9, 5]))
    assert values_of(CodedIntegers(16), rows[index]) == [5, 9, 5]
    rows, index, _ = distinct(CodedStrings(3), ["oak", b"a", "oak"])
    assert values_of(CodedStrings(3), rows[index]) == [b"oak", b"a", b"oak"]


@pytest.mark.parametrize(
    ("domain", "value", "says"),
    [
        (CodedIntegers(8), 256, r"outside the domain: integers from 0 to 2\*\*8 - 1"),
        (CodedIntegers(8), -1, "outside the domain"),
        (CodedIntegers(8), True, "outside the domain"),
        (CodedIntegers(8), "7", "no integer"),
        (CodedStrings(3), "oaks", "has 4 bytes: this domain holds strings of up to 3"),
        (CodedStrings(3), 7, "a int is no string"),
    ],
)
def test_a_value_outside_is_refused(domain, value, says):
    with pytest.raises(ParameterError, match=says):
        domain.code(value)


def test_arrays_outside_are_refused():
    for wrong in (np.array([-1]), np.array([256])):
        with pytest.raises(ParameterError, match="outside the domain"):
            rows_of(CodedIntegers(8), wrong)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1e3", "9" * 21, "٣", "18446744073709551616"])
def test_text_that_is_no_integer_is_refused(text):
    with pytest.raises(ParameterError):
        CodedIntegers(64).parse(text)


def test_text_is_parsed_and_shown():
    assert CodedIntegers(64).parse(" 18446744073709551615 ") == 2**64 - 1
    assert CodedStrings(8).parse("é") == "é".encode()
    assert CodedStrings(8).text("é".encode() + b"\xff") == "é\\xff"


@pytest.mark.parametrize(
    "build", [lambda: CodedIntegers(0), lambda: CodedIntegers(65), lambda: CodedStrings(0), lambda: CodedStrings(33)]
)
def test_domains_have_limits(build):
    with pytest.raises(ParameterError, match="give a whole number from 1 to"):
        build()
