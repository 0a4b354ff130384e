"""Codes: every kind under one contract; padded and in blocks, as documented; refused with one clear message."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.discovery import (
    AlphabetStrings,
    CodedIntegers,
    CodedStrings,
    NoCodeError,
    discover,
    find,
    simulate,
)
from overstory.discovery.heavy_hitters import KEEP
from overstory.discovery.simulation import (
    byte_strings,
    code_rows,
    distinct,
    extensions,
    integer_rows,
    may_go_on,
    prefixes,
)
from overstory.protocol.domains.codes import coded_strings
from overstory.protocol.errors import ParameterError
from overstory.protocol.search import level_weights, prefix_bytes

NAMES = "abcdefghijklmnopqrstuvwxyz0123456789-_."
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "string-codes.json").read_text())

# --- every kind -------------------------------------------------------------------------------------------------

ALPHABETS = [
    AlphabetStrings(longest, letters)
    for letters, longest in (("ab", 4), ("abc", 3), ("abcde", 2), ("abcdefg", 3), ("ab", 1))
]


@pytest.mark.parametrize("domain", [CodedIntegers(6), CodedStrings(1), *ALPHABETS], ids=str)
def test_every_code_of_a_small_domain(domain):
    """All codes, all prefixes: what `holds`, `only` and `most_values` answer is counted.

    Of bytes, a prefix that begins no string may be held for one, and a string that ends may not show.
    """
    width, exact = domain.width, domain in ALPHABETS or domain.is_numeric
    by_code = {code: value for code in range(1 << width) if (value := domain.value(code)) is not None}
    assert len(set(by_code.values())) == len(by_code) > 2
    assert all(domain.code(value) == code for code, value in by_code.items())
    if domain in ALPHABETS:
        sizes = range(domain.longest + 1)
        strings = [b"".join(word) for size in sizes for word in itertools.product(letters_of(domain), repeat=size)]
        assert [by_code[code] for code in sorted(by_code)] == sorted(strings)
    for num_bits in range(width + 1):
        left, below = width - num_bits, {}
        for code in by_code:
            below.setdefault(code >> left, []).append(code)
        assert max(map(len, below.values())) <= domain.most_values(left)
        for bits in range(1 << num_bits):
            codes, only = below.get(bits, []), domain.only(bits, num_bits)
            assert domain.holds(bits, num_bits) == bool(codes) or not (codes or exact or num_bits == width)
            assert only is None or codes == [only]
            assert only is not None or len(codes) != 1 or not (exact or num_bits == width)


def letters_of(domain):
    return [letter.encode() for letter in domain.alphabet]


@pytest.mark.parametrize(
    ("domain", "value", "says"),
    [
        (CodedIntegers(8), 256, r"outside the domain: integers from 0 to 2\*\*8 - 1"),
        (CodedIntegers(8), -1, "outside the domain"),
        (CodedIntegers(8), True, "outside the domain"),
        (CodedStrings(3), "oaks", "has 4 bytes: this domain holds strings of up to 3"),
        (CodedStrings(3), b"\xff", "is no UTF-8"),
        (AlphabetStrings(3, "ab"), "abc", "'abc' has a character outside the alphabet, 'ab'"),
        (AlphabetStrings(3, "ab"), "abab", "has 4 characters: this domain holds strings of up to 3"),
        (AlphabetStrings(3, "ab"), b"\xff", "outside the alphabet"),
        (AlphabetStrings(3, "ab"), "\ud800", "outside the alphabet"),
    ],
)
def test_what_has_no_code_is_elsewhere(domain, value, says):
    with pytest.raises(NoCodeError, match=says):
        domain.code(value)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: CodedIntegers(0), "give a whole number from 1 to"),
        (lambda: CodedIntegers(65), "give a whole number from 1 to"),
        (lambda: CodedIntegers(8).code("7"), "no integer"),
        (lambda: integer_rows(np.array([-1]), 8), "outside the domain"),
        (lambda: integer_rows(np.array([256]), 8), "outside the domain"),
        (lambda: CodedStrings(0), "give a whole number from 1 to"),
        (lambda: CodedStrings(33), "give a whole number from 1 to"),
        (lambda: CodedStrings(3).code(7), "a int is no string"),
        (lambda: AlphabetStrings(4, "a"), "at least two"),
        (lambda: AlphabetStrings(4, 7), "at least two"),
        (lambda: AlphabetStrings(4, "aba"), "'a' is in it twice"),
        (lambda: AlphabetStrings(4, "a\ud800"), "surrogate"),
        (lambda: AlphabetStrings(4, "".join(map(chr, range(0x20000, 0x30000)))), "65536 characters; at most 65535"),
        *(
            (lambda text=text: CodedIntegers(64).parse(text), "no whole number in digits|outside the domain")
            for text in ("", "-1", "1.5", "1e3", "9" * 21, "٣", "18446744073709551616")
        ),
    ],
)
def test_what_is_none_is_refused(build, says):
    with pytest.raises(ParameterError, match=says):
        build()


def test_text_is_parsed_and_shown():
    assert CodedIntegers(64).parse(" 18446744073709551615 ") == 2**64 - 1
    assert CodedStrings(8).parse("é") == "é".encode()
    assert CodedStrings(8).text("é".encode()) == "é"


def test_digests_tell_the_codes_apart():
    strings = CodedStrings(8), CodedStrings(9), AlphabetStrings(8, "ab"), AlphabetStrings(8, "ba")
    assert len({discover(epsilon=1.0, domain=domain).digest for domain in strings}) == len(strings)
    assert CodedStrings(8).canonical() == {"domain": "strings", "max_bytes": 8, "text": True}


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=[vector["name"] for vector in VECTORS["vectors"]])
def test_codes_are_what_they_always_were(vector):
    domain = coded_strings(**vector["domain"])
    assert domain.width == vector["width"]
    assert domain.canonical() == vector["canonical"]
    for text, code in vector["codes"].items():
        assert f"{domain.code(text):x}" == code
        assert domain.value(int(code, 16)) == text.encode()
    for text in vector["elsewhere"]:
        with pytest.raises(NoCodeError):
            domain.code(text)
    for code in vector["not_values"]:
        assert domain.value(int(code, 16)) is None


@pytest.mark.parametrize("fault", VECTORS["must_fail"], ids=[fault["about"] for fault in VECTORS["must_fail"]])
def test_a_changed_vector_fails(fault):
    vector = VECTORS["vectors"][fault["of"]]
    changed = vector | {"domain": vector["domain"] | fault.get("domain", {}), **fault.get("change", {})}
    with pytest.raises((AssertionError, NoCodeError, pytest.fail.Exception)):
        test_codes_are_what_they_always_were(changed)


# --- codes of many values at once ---------------------------------------------------------------------------------


@given(st.integers(1, 64).flatmap(lambda bits: st.tuples(st.just(bits), st.integers(0, (1 << bits) - 1))))
def test_bulk_codes_of_integers_are_the_devices_own(drawn):
    bits, value = drawn
    rows = integer_rows(np.array([value], np.uint64), bits)
    assert rows.tobytes() == prefix_bytes(value, bits, bits) == code_rows([value], bits).tobytes()
    for num_bits in range(1, bits + 1):
        assert byte_strings(prefixes(rows, num_bits)) == [prefix_bytes(value, bits, num_bits)]


@given(st.integers(0, 20), st.integers(1, 9), st.integers(1, 30), st.data())
def test_extensions_are_all_the_prefixes_that_go_on(before, step, width, data):
    width = max(width, before + step)
    code = data.draw(st.integers(0, (1 << width) - 1))
    parent = np.frombuffer(prefix_bytes(code, width, before), np.uint8).reshape(1, -1)
    rows = extensions(parent, before, step)
    start = code >> (width - before) << step
    each = [prefix_bytes(start + suffix, before + step, before + step) for suffix in range(1 << step)]
    assert byte_strings(rows) == each
    assert prefix_bytes(code, width, before + step) in each
    assert np.array_equal(extensions(parent, before, step, np.array([1, 0])), rows[[1, 0]])


def test_distinct_values_of_both_kinds():
    for domain, values in ((CodedIntegers(16), np.array([5, 9, 5])), (CodedStrings(3), ["oak", b"a", "oak"])):
        rows, index, _ = distinct(domain, values)
        assert byte_strings(rows[index]) == [prefix_bytes(domain.code(v), domain.width, domain.width) for v in values]


@given(st.binary(min_size=7, max_size=7))
def test_complete_codes_without_an_end_are_ruled_out_at_once(raw):
    domain = CodedStrings(6)
    held = may_go_on(domain, np.frombuffer(raw[:-1], np.uint8).reshape(1, -1), 48, 8)
    value = domain.value(int.from_bytes(raw, "big"))
    assert held[raw[-1]] == (value is not None)
    assert value is None or domain.code(value) == int.from_bytes(raw, "big")


@given(st.integers(2, 100), st.integers(1, 32), st.integers(1, 10), st.data())
def test_extensions_that_begin_no_string_are_ruled_out_at_once(size, longest, step, data):
    """By tables of blocks, exactly those that `holds` rules out one by one."""
    alphabet = "".join(map(chr, range(0x4E00, 0x4E00 + size)))
    domain = AlphabetStrings(longest, alphabet)
    before = data.draw(st.integers(0, max(domain.width - step, 0)))
    step = min(step, domain.width)
    words = data.draw(st.lists(st.text(alphabet, max_size=longest), min_size=1, max_size=4))
    begun = {domain.code(word) >> (domain.width - before) for word in words}
    begun = sorted(bits for bits in begun if domain.only(bits, before) is None)  # what has ended leaves a search
    raw = b"".join(prefix_bytes(bits, before, before) for bits in begun)
    parents = np.frombuffer(raw, np.uint8).reshape(len(begun), -(-before // 8))
    held = [domain.holds(bits << step | more, before + step) for bits in begun for more in range(1 << step)]
    assert may_go_on(domain, parents, before, step).tolist() == held


@pytest.mark.parametrize(
    ("size", "longest"), [(2, 1), (2, 20), (2, 32), (5, 12), (20, 12), (20, 24), (39, 32), (100, 9)]
)
def test_a_search_asks_of_few_prefixes_whether_they_are_one(monkeypatch, size, longest):
    """At the last level of `find`, one extension in thousands may be a string; others take none of its time."""
    alphabet = "".join(map(chr, range(0x4E00, 0x4E00 + size)))
    plan = discover(epsilon=2.0, domain=AlphabetStrings(longest, alphabet), beam=64)
    rng = np.random.default_rng(longest)
    words = ["".join(rng.choice(list(alphabet), longest)) for _ in range(20)]
    asked, holds = [], AlphabetStrings.holds
    monkeypatch.setattr(AlphabetStrings, "holds", lambda *given: asked.append(given) or holds(*given))
    found = find(plan, simulate(plan, words * 50, rng))
    assert found.levels
    assert 0 < len(asked) <= 2 * max(KEEP, plan.beam) * len(plan.levels)


# --- bytes and alphabets ------------------------------------------------------------------------------------------


@given(st.text(max_size=8).filter(lambda text: len(text.encode("utf-8", "surrogatepass")) <= 8), st.integers(0, 72))
def test_a_text_that_has_ended_shares_its_prefix_with_none(text, num_bits):
    domain = CodedStrings(8)
    try:
        code = domain.code(text)
    except NoCodeError:
        assert any(0xD800 <= ord(c) < 0xE000 for c in text)
        return
    bits, size = code >> (72 - num_bits), 8 * len(text.encode())
    assert domain.value(code) == text.encode()
    assert domain.holds(bits, num_bits)
    assert (domain.only(bits, num_bits) is None) == (num_bits < size + 8)
    assert domain.only(bits, num_bits) in {None, code}


def test_bits_after_a_texts_end_are_no_texts_and_what_may_go_on_is():
    domain = CodedStrings(8)
    ends = {b"a\x80b": False, b"\x80\x80": False, b"a\xff": False, b"\xe6\x9c": True, b"a": True, b"a\x80\0": True}
    for raw, held in ends.items():
        bits, num_bits = int.from_bytes(raw, "big"), 8 * len(raw)
        assert domain.holds(bits, num_bits) == held, raw
        assert domain.only(bits, num_bits) == (domain.code("a") if raw == b"a\x80\0" else None)


def test_the_last_level_counts_values_alone():
    """Of twenty bytes' last 14 bits, 65 are ends: shares that suppose 2^14 give the last level too many users."""
    plan = discover(epsilon=2.0, domain=CodedStrings(20))
    assert plan.tried[-1] == 192 * 65
    supposed = level_weights([*plan.tried[:-1], 192 << 14], 192)
    weights = level_weights(plan.tried, 192)
    assert weights[:-1] == supposed[:-1]
    assert weights[-1] < 0.8 * supposed[-1]
    assert plan.shares[-1] == pytest.approx(weights[-1] / sum(weights), rel=1e-6)
