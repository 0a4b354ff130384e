"""Strings of a declared alphabet, and of text: every code counted through, and what a prefix alone can tell."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.discovery import CodedIntegers, CodedStrings, discover, find, simulate
from overstory.discovery.codes import may_go_on
from overstory.discovery.heavy_hitters import KEEP
from overstory.protocol.errors import NoCodeError, ParameterError
from overstory.protocol.search.plans import prefix_bytes
from overstory.protocol.search.protocols import level_weights

NAMES = "abcdefghijklmnopqrstuvwxyz0123456789-_."
TEXT = st.text(max_size=8).filter(lambda text: len(text.encode("utf-8", "surrogatepass")) <= 8)


@given(st.text("aé語🌳", max_size=9))
def test_an_alphabet_may_hold_any_characters(value):
    domain = CodedStrings(9, alphabet="aé語🌳")
    assert domain.text(domain.value(domain.code(value))) == value
    assert domain.code(value.encode()) == domain.code(value)


@pytest.mark.parametrize(("alphabet", "longest"), [("ab", 4), ("abc", 3), ("abcde", 2), ("abcdefg", 3), ("ab", 1)])
def test_every_code_of_a_small_alphabet(alphabet, longest):
    """All strings, all codes, all prefixes: what `value`, `holds`, `only` and `most_values` answer is counted."""
    domain = CodedStrings(longest, alphabet=alphabet)
    strings = ["".join(word) for size in range(longest + 1) for word in itertools.product(alphabet, repeat=size)]
    by_code = {domain.code(word): word for word in strings}
    assert [by_code[code] for code in sorted(by_code)] == sorted(strings)
    assert {code for code in range(1 << domain.width) if domain.value(code) is not None} == set(by_code)
    for num_bits in range(domain.width + 1):
        left, below = domain.width - num_bits, {}
        for code in by_code:
            below.setdefault(code >> left, []).append(code)
        assert max(map(len, below.values())) <= domain.most_values(left)
        for bits in range(1 << num_bits):
            codes = below.get(bits, [])
            assert domain.holds(bits, num_bits) == bool(codes)
            assert domain.only(bits, num_bits) == (codes[0] if len(codes) == 1 else None)
            certain = domain.prefix_text(bits, num_bits)
            assert all(by_code[code].startswith(certain) for code in codes)


@settings(deadline=None)
@given(st.integers(2, 100), st.integers(1, 32), st.integers(1, 10), st.data())
def test_extensions_that_begin_no_string_are_ruled_out_at_once(size, longest, step, data):
    """By tables of blocks, exactly those that `holds` rules out one by one."""
    alphabet = "".join(map(chr, range(0x4E00, 0x4E00 + size)))
    domain = CodedStrings(longest, alphabet=alphabet)
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
    plan = discover(epsilon=2.0, domain=CodedStrings(longest, alphabet=alphabet), beam=64)
    rng = np.random.default_rng(longest)
    words = ["".join(rng.choice(list(alphabet), longest)) for _ in range(20)]
    asked, holds = [], CodedStrings.holds
    monkeypatch.setattr(CodedStrings, "holds", lambda *given: asked.append(given) or holds(*given))
    found = find(plan, simulate(plan, words * 50, rng))
    assert found.levels
    assert 0 < len(asked) <= 2 * max(KEEP, plan.beam) * len(plan.levels)


def test_the_shortest_blocks_are_taken():
    assert CodedStrings(32, alphabet=NAMES).width == 176  # three of 40 symbols in 16 bits
    assert CodedStrings(20, alphabet=NAMES).width == 112
    assert (
        CodedStrings(20, alphabet="ab").width == 35
    )  # three of three symbols in 5 bits; ten in 16 would not do better
    assert CodedStrings(4, alphabet="01").width == 8  # five of three symbols in eight bits


@given(TEXT, st.integers(0, 72))
def test_a_text_that_has_ended_shares_its_prefix_with_none(text, num_bits):
    domain = CodedStrings(8, is_text=True)
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
    assert text.startswith(domain.prefix_text(bits, num_bits))


@given(st.binary(max_size=9), st.integers(0, 7))
def test_bits_that_hold_no_text_are_no_prefix_of_one(raw, odd):
    domain = CodedStrings(8, is_text=True)
    num_bits = min(8 * len(raw) + odd, 72)
    bits = int.from_bytes(raw.ljust(9, b"\0"), "big") >> (72 - num_bits)
    if not domain.holds(bits, num_bits):
        whole = raw[: num_bits // 8]
        for text in ("", "a", "é", "語", "🌳", "\0", "\x80"):
            assert domain.code(text) >> (72 - 8 * len(whole)) != int.from_bytes(whole, "big") or num_bits == 72 or odd
    if (code := domain.only(bits, num_bits)) is not None:
        assert domain.code(domain.value(code).decode()) == code
        assert code >> (72 - num_bits) == bits


def test_among_arbitrary_bytes_only_a_full_code_is_complete():
    domain = CodedStrings(3)
    code = domain.code("a")
    assert [domain.only(code >> (32 - bits), bits) for bits in (16, 24, 32)] == [None, None, code]
    assert domain.value(domain.code(b"a\x80\0")) == b"a\x80\0"
    assert CodedIntegers(8).only(7, 7) is None
    assert CodedIntegers(8).only(7, 8) == 7


@pytest.mark.parametrize(
    ("domain", "value", "says"),
    [
        (CodedStrings(3, alphabet="ab"), "abc", "'abc' has a character outside the alphabet, 'ab'"),
        (CodedStrings(3, alphabet="ab"), "abab", "has 4 characters: this domain holds strings of up to 3"),
        (CodedStrings(3, alphabet="ab"), b"\xff", "outside the alphabet"),
        (CodedStrings(3, alphabet="ab"), "\ud800", "outside the alphabet"),
        (CodedStrings(3, is_text=True), b"\xff", "is no UTF-8"),
        (CodedStrings(3), "abab", "has 4 bytes"),
        (CodedIntegers(3), 8, "outside the domain"),
    ],
)
def test_what_has_no_code_is_elsewhere(domain, value, says):
    with pytest.raises(NoCodeError, match=says):
        domain.code(value)
    plan = discover(epsilon=1.0, domain=domain)
    assert plan.held(plan.groups[0].questions[0], None) is None


@pytest.mark.parametrize(
    ("alphabet", "says"),
    [
        ("a", "at least two"),
        (7, "at least two"),
        ("aba", "'a' is in it twice"),
        ("a\ud800", "surrogate"),
        ("".join(map(chr, range(0x20000, 0x30000))), "65536 characters; at most 65535"),
    ],
)
def test_an_alphabet_that_is_none_is_refused(alphabet, says):
    with pytest.raises(ParameterError, match=says):
        CodedStrings(4, alphabet=alphabet)


def test_digests_tell_the_codes_apart():
    domains = [
        CodedStrings(8),
        CodedStrings(8, is_text=True),
        CodedStrings(8, alphabet="ab"),
        CodedStrings(8, alphabet="ba"),
    ]
    assert len({discover(epsilon=1.0, domain=domain).digest for domain in domains}) == 4
    assert CodedStrings(8).canonical() == {"domain": "strings", "max_bytes": 8}  # as it always was


def test_the_last_level_counts_values_alone():
    """Of twenty bytes' last 14 bits, 65 are ends: shares that suppose 2^14 give the last level too many users."""
    plan = discover(epsilon=2.0, domain=CodedStrings(20))
    assert plan.tried[-1] == 192 * 65
    supposed = level_weights([*plan.tried[:-1], 192 << 14], 192)
    weights = level_weights(plan.tried, 192)
    assert weights[:-1] == supposed[:-1]
    assert weights[-1] < 0.8 * supposed[-1]
    assert plan.share(len(plan.groups) - 1) == pytest.approx(weights[-1] / sum(weights), rel=1e-6)
