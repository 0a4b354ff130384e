"""Law 2: probabilities are integer thresholds, sampled exactly; no floating-point comparison decides a bit."""

import ast
import inspect
import textwrap
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overstory.protocol import sampling
from overstory.protocol.channels import ONE, BinaryChannel, SymbolChannel
from overstory.protocol.kinds import sets
from overstory.protocol.sampling import bit_sampler, channel_digits, symbol_sampler, uniform_below
from support.contract_cases import SMALL_CASES, TYPICAL_CASES


class Scripted:
    def __init__(self, *drawn):
        self.drawn = list(drawn)

    def bits(self, count):
        assert self.drawn[0] >> count == 0, "the script has more bits than were asked for"
        return self.drawn.pop(0)


def share(output, bits, channel, size):
    total = Fraction(1)
    for i in range(size):
        one = channel.keep_one if bits >> i & 1 else channel.raise_zero
        total *= one if output >> i & 1 else 1 - one
    return total


EIGHTHS = [Fraction(n, 8) for n in range(9)]


@pytest.mark.parametrize("keep", EIGHTHS, ids=str)
def test_every_random_word_together_gives_exactly_the_channel(keep):
    """All words there are, each once: outputs must appear exactly in their shares, so bits are also independent."""
    size = 3
    for raised, bits in product(EIGHTHS, (0b000, 0b101, 0b111)):
        channel = BinaryChannel(keep, raised)
        words = 1 << size * len(channel_digits(channel))
        draw = bit_sampler(channel, size)
        seen = Counter(draw(bits, Scripted(pool).bits) for pool in range(words))
        assert seen == {y: words * p for y in range(1 << size) if (p := share(y, bits, channel, size))}


def pool_of(uniforms, channel):
    """The pool in which bit i has the number uniforms[i]: the last digit's word lowest, trailing zeros absent."""
    digits, pool = len(channel_digits(channel)), 0
    for place in range(digits):
        for i, uniform in enumerate(uniforms):
            pool |= (uniform >> (32 - digits + place) & 1) << (place * len(uniforms) + i)
    return pool


thresholds = st.one_of(
    st.integers(0, ONE), st.integers(0, 32).map(lambda s: 1 << s), st.integers(0, 31).map(lambda s: ONE - (1 << s))
)


@settings(max_examples=300)
@given(thresholds, thresholds, st.lists(st.integers(0, ONE - 1), min_size=1, max_size=70), st.data())
@example(ONE, 0, [0, ONE - 1], None)
def test_a_bit_is_its_own_number_against_the_threshold_of_its_input(keep, raised, uniforms, data):
    """The rule of docs/explanation/laws.md, around thresholds too, where a float would err (t = 2**32)."""
    near = [u for t in (keep, raised) for u in (t - 1, t, t + 1) if 0 <= u < ONE]
    uniforms = uniforms + near
    channel, size = BinaryChannel(Fraction(keep, ONE), Fraction(raised, ONE)), len(uniforms)
    bits = data.draw(st.integers(0, (1 << size) - 1)) if data else 0b01
    expected = sum((u < (keep if bits >> i & 1 else raised)) << i for i, u in enumerate(uniforms))
    assert bit_sampler(channel, size)(bits, Scripted(pool_of(uniforms, channel)).bits) == expected


@pytest.mark.sampled(28)
@pytest.mark.parametrize("case", SMALL_CASES + TYPICAL_CASES, ids=str)
def test_every_round_is_held_as_integers(case):
    built = case.build()
    held = [t for entry in built.canonical()["thresholds"] for t in (entry if isinstance(entry, list) else [entry])]
    assert all(type(t) is int and 0 <= t <= ONE for t in held)
    assert all(type(p) is Fraction for p in (built.p_star, built.q_star))
    drawn = ast.parse(textwrap.dedent(inspect.getsource(type(built))))
    assert not any(isinstance(node, ast.Constant) and isinstance(node.value, float) for node in ast.walk(drawn))


@pytest.mark.parametrize("size", range(2, 9))
@pytest.mark.parametrize("threshold", [0, 1, ONE // 3, ONE - 1])
def test_a_symbol_is_kept_below_its_threshold_and_uniform_from_it_on(size, threshold):
    """Numbers next to the threshold, and every second draw there is; one that fits no symbol is drawn again."""
    draw = symbol_sampler(SymbolChannel(size, Fraction(threshold, ONE)))
    for number in {0, threshold - 1} if threshold else ():
        assert [draw(symbol, Scripted(number).bits) for symbol in range(size)] == list(range(size))
    width = (size - 1).bit_length()
    for number in {threshold, ONE - 1}:
        drawn = [draw(1, Scripted(number, second, 0).bits) for second in range(1 << width)]
        assert drawn[:size] == list(range(size))
        assert set(drawn[size:]) <= {0}


DECIDING = [sampling, sets.Subsets, sets.Projective, sets.SetMechanism]


@pytest.mark.parametrize("module", DECIDING, ids=lambda decides: decides.__name__)
def test_no_float_is_written_where_bits_are_decided(module):
    """No float constant outside docstrings, no `random`, no `float(...)`, no true division but of fractions."""
    tree = ast.parse(inspect.getsource(module))
    floats = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, float)]
    names = {getattr(node.func, "id", None) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not floats
    assert not names & {"float", "random", "randint"}
    assert "import random" not in inspect.getsource(module)


@pytest.mark.parametrize("bound", range(1, 10))
def test_uniform_below_is_exactly_uniform(bound):
    """Every first draw there is: each number below the bound comes once, the others are drawn again."""
    scripts = [Scripted(first, 0) for first in range(1 << (bound - 1).bit_length())]
    drawn = [uniform_below(bound, script) for script in scripts]
    accepted = [d for d, script in zip(drawn, scripts, strict=True) if script.drawn]
    assert sorted(accepted) == list(range(bound))
