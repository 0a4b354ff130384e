"""The arithmetic code: against exact fractions, over every code of small widths, and with its model pinned."""

import itertools
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.discovery import CodedStrings, ModelStrings, NoCodeError, discover
from overstory.protocol.domains.models import CharacterModel
from overstory.protocol.errors import ParameterError

TREES = ("oak", "elm", "ash", "alder", "hazel", "maple", "yew", "esche", "ahorn", "birke", "weißdorn")
ORDERS = {order: ModelStrings(TREES, order=order) for order in range(5)}
LETTERS = "".join(sorted(set("".join(TREES))))
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "string-codes.json").read_text())


def interval(domain, text):
    """The string's interval in fractions: the product of its characters' shares."""
    low, size = Fraction(0), Fraction(1)
    for at in range(len(text) + 1):
        place = domain.model.symbols.index(text[at]) if at < len(text) else 0
        bounds = [Fraction(bound, 1 << 16) for bound in domain.model.bounds(text[:at])]
        low, size = low + size * bounds[place], size * (bounds[place + 1] - bounds[place])
    return low, low + size


def shortest(low, high):
    """The first dyadic fraction in [low, high) with the fewest bits, and no fewer than so long an interval needs."""
    needed = next(num_bits for num_bits in range(2000) if Fraction(1, 2 ** (num_bits + 1)) <= high - low)
    for num_bits in range(needed, 2000):
        point = Fraction(math.ceil(low * 2**num_bits), 2**num_bits)
        if point < high:
            return point, num_bits
    raise AssertionError


@given(st.sampled_from(sorted(ORDERS)), st.text(LETTERS, max_size=40))
def test_a_code_is_a_short_fraction_in_the_strings_interval(order, text):
    domain = ORDERS[order]
    point, num_bits = shortest(*interval(domain, text))
    if num_bits > 96:
        with pytest.raises(NoCodeError, match="needs more than the 96 bits"):
            domain.code(text)
    else:
        assert Fraction(domain.code(text), 2**96) == point
        assert domain.value(domain.code(text)) == text.encode()
        assert domain.holds(domain.code(text), 96)


@pytest.mark.parametrize(
    ("words", "order", "width"), [(TREES, 2, 14), (("ab", "ba", "a"), 1, 12), (("x",), 0, 10), (("a" * 8,), 2, 12)]
)
def test_every_code_of_a_small_width(words, order, width):
    """All codes, all prefixes: what `holds` and `only` answer is counted."""
    domain = ModelStrings(words, order=order, width=width)
    by_code = {code: value for code in range(1 << width) if (value := domain.value(code)) is not None}
    assert len(set(by_code.values())) == len(by_code) > 10
    assert all(domain.code(value) == code for code, value in by_code.items())
    early = 0
    for num_bits in range(1, width + 1):
        below = {}
        for code in by_code:
            below.setdefault(code >> (width - num_bits), []).append(code)
        for bits in range(1 << num_bits):
            codes = below.get(bits, [])
            assert domain.holds(bits, num_bits) or not codes
            assert domain.holds(bits, num_bits) == bool(codes) or num_bits < width
            if (only := domain.only(bits, num_bits)) is not None:
                assert codes == [only]
                early += num_bits < width
            assert all(by_code[code].decode().startswith(domain.prefix_text(bits, num_bits)) for code in codes)
    assert early > 10


@given(st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=9), st.integers(0, 4), st.text(max_size=9))
@settings(deadline=None)
def test_the_characters_after_any_context_share_the_unit(words, order, before):
    words = [word for word in words if not any(0xD800 <= ord(c) < 0xE000 for c in word)] or ["a"]
    model = CharacterModel(tuple(words), order)
    bounds = model.bounds(before)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, 1 << 16, len(model.symbols) + 1)
    assert all(low < high for low, high in itertools.pairwise(bounds))


def test_a_context_is_mixed_with_the_shorter_ones():
    """By hand, order 1 of "ab": after the start, a is 1 of 1: 1/(1+2) its own, 2/(1+2) of the order below."""
    model = CharacterModel(("ab",), 1)
    order_0 = Fraction(1, 3 + 2 * 3) + Fraction(2 * 3, 3 + 2 * 3) * Fraction(1, 3)  # end, a and b: once each
    share = Fraction(1, 3) + Fraction(2, 3) * order_0
    bounds = model.bounds("")
    assert (bounds[2] - bounds[1]) / 65536 == pytest.approx(float(share), abs=3 / 65536)


def test_neither_order_nor_repetition_of_the_words_matters():
    again = ModelStrings((*reversed(TREES), "oak", ""))
    assert again.digest == ORDERS[2].digest
    assert again.code("oaken".replace("n", "")) == ORDERS[2].code("oake")


def test_the_digest_pins_the_model():
    others = [ORDERS[1], ModelStrings(TREES, width=64), ModelStrings(TREES[1:]), ModelStrings((*TREES, "oakelm"))]
    assert len({domain.digest for domain in [ORDERS[2], *others]}) == 5
    joined = ModelStrings(("ab", "c")), ModelStrings(("a", "bc"))
    assert joined[0].digest != joined[1].digest
    plans = [discover(epsilon=1.0, domain=domain) for domain in (ORDERS[2], others[2])]
    assert plans[0].digest != plans[1].digest


def test_another_process_builds_the_same_model():
    """Whatever the hashes of strings are there."""
    script = "from overstory.discovery import ModelStrings; print(ModelStrings({!r}).code('hazelnew'))"
    codes = {
        subprocess.run(
            [sys.executable, "-c", script.format(TREES)], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert codes == {b"%d\n" % ORDERS[2].code("hazelnew")}


def test_likely_strings_have_short_codes():
    def bits(text):
        code = ORDERS[2].code(text)
        return 96 - (code & -code).bit_length() + 1

    assert bits("maple") < bits("elpam") - 10
    assert bits("maple") < 8 * 6 < CodedStrings(5).width + 1


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("fir tree", "'fir tree': no candidate of the model has 'f'"),
        (b"\xff", "is no UTF-8"),
        ("\ud800", "is no UTF-8"),
        ("kkkkkkkkkkkkkkkkkkkkkkkkkkkkk", "needs more than the 96 bits"),
        ("a" * 65, "has 65 characters: a model codes up to 64"),
    ],
)
def test_what_has_no_code_is_elsewhere(value, says):
    with pytest.raises(NoCodeError, match=says):
        ORDERS[2].code(value)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: ModelStrings(()), "at least one candidate"),
        (lambda: ModelStrings(("",)), "at least one candidate"),
        (lambda: ModelStrings("oak"), "give the model's candidates"),
        (lambda: ModelStrings((b"oak",)), "give the model's candidates"),
        (lambda: ModelStrings(("\ud800",)), "surrogate"),
        (lambda: ModelStrings(TREES, order=5), "give a whole number from 0 to 4"),
        (lambda: ModelStrings(TREES, width=7), "give a whole number from 8 to 256"),
        (lambda: ModelStrings(tuple(map(chr, range(0x4E00, 0x5E01)))), "4097 different characters"),
        (lambda: ORDERS[2].code(7), "is no string"),
    ],
)
def test_a_model_that_is_none_is_refused(build, says):
    with pytest.raises(ParameterError, match=says):
        build()


def domain_of(vector):
    given = dict(vector["domain"])
    return ModelStrings(tuple(given.pop("words")), **given) if "words" in given else CodedStrings(**given)


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=[vector["name"] for vector in VECTORS["vectors"]])
def test_codes_are_what_they_always_were(vector):
    domain = domain_of(vector)
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
