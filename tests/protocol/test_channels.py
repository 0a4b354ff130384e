from decimal import Context, Decimal
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from overstory.protocol import channels as channel_module
from overstory.protocol.channels import ONE, BinaryChannel, Rounds, SymbolChannel, log_ratio, round_up
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds import sets
from overstory.protocol.kinds.calibration import ONE_BIT_EACH, least_noise, optimized, symmetric
from overstory.protocol.kinds.registry import mechanism

PRECISE = Context(prec=60)
grid = st.integers(1, ONE - 1).map(lambda t: Fraction(t, ONE))
channels = st.builds(BinaryChannel, grid, grid)


def matrix(channel):
    """Rows: input 0, 1; columns: output 0, 1."""
    return [[1 - channel.raise_zero, channel.raise_zero], [1 - channel.keep_one, channel.keep_one]]


def matrix_product(left, right):
    size = range(len(left))
    return [[sum(left[i][k] * right[k][j] for k in size) for j in size] for i in size]


def exact_one_hot_epsilon(channel) -> Decimal:
    """Both one-hot vectors, all four outputs."""
    ratios = []
    for first, second in product((0, 1), repeat=2):
        m = matrix(channel)
        ratio = m[1][first] * m[0][second] / (m[0][first] * m[1][second])
        ratios.append(PRECISE.ln(PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))))
    return max(ratios)


@given(channels, channels, channels)
def test_composing_is_the_matrix_product_and_associative(a, b, c):
    assert matrix(a.then(b)) == matrix_product(matrix(a), matrix(b))
    assert a.then(b).then(c) == a.then(b.then(c))
    assert BinaryChannel.identity().then(a) == a == a.then(BinaryChannel.identity())


@given(channels, channels)
def test_a_second_round_never_reveals_more(a, b):
    assume(a.span and b.span)
    assert a.then(b).epsilon <= min(a.epsilon, b.epsilon)


@given(channels)
def test_epsilon_is_the_exact_one_rounded_up_to_the_next_float(channel):
    exact, stated = exact_one_hot_epsilon(channel), Decimal(channel.epsilon)
    assert stated >= exact
    assert stated - exact <= max(exact, Decimal(1)) * Decimal(2) ** -51


numbers = st.one_of(st.floats(0, 1), st.fractions(0, 1), st.sampled_from([0, 1, 0.1, 0.3, 1e-12, 1 - 1e-12]))


@settings(max_examples=300)
@given(numbers, numbers)
def test_rounding_to_the_grid_is_towards_privacy(keep, raised):
    exact, rounded = BinaryChannel(keep, raised), BinaryChannel.of(keep, raised)
    assert all(0 <= t <= ONE for t in rounded.thresholds)
    assert abs(rounded.keep_one - exact.keep_one) < Fraction(1, ONE)
    assert abs(rounded.raise_zero - exact.raise_zero) < Fraction(1, ONE)
    assert rounded.span * exact.span >= 0
    assert abs(rounded.span) <= abs(exact.span)
    if rounded.span:
        assert rounded.epsilon <= exact.epsilon


def test_probabilities_too_close_for_the_grid_meet():
    for keep, raised in ((0.3, 0.3 + 1e-12), (0.3 + 1e-12, 0.3), (0.3, 0.3)):
        assert BinaryChannel.of(keep, raised).span == 0


def test_a_product_is_on_a_finer_grid_and_not_sampled():
    fine = BinaryChannel.of(0.3, 0.1).then(BinaryChannel.of(0.3, 0.1))
    with pytest.raises(ParameterError, match="sample the rounds"):
        fine.thresholds  # noqa: B018


@pytest.mark.parametrize(("size", "first", "second"), [(2, "1/2", "1/3"), (3, "2/5", "1/7"), (5, "9/10", "1/2")])
def test_the_product_of_symbol_channels_is_the_product_of_their_alphas(size, first, second):
    a, b = (SymbolChannel(size, Fraction(x)) for x in (first, second))

    def full(channel):
        return [[channel.keep if i == j else channel.other for j in range(size)] for i in range(size)]

    assert full(a.then(b)) == matrix_product(full(a), full(b))
    assert all(sum(row) == 1 for row in full(a.then(b)))
    with pytest.raises(ParameterError, match="cannot feed"):
        a.then(SymbolChannel(size + 1, Fraction(1, 2)))


@given(st.integers(2, 1000), st.floats(0.001, 20))
def test_a_symbol_channel_of_epsilon_keeps_below_it_and_near(size, epsilon):
    channel = SymbolChannel.of(size, epsilon=epsilon)
    ratio = channel.keep / channel.other
    exact = PRECISE.ln(PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    assert exact <= Decimal(channel.epsilon) <= Decimal(epsilon)
    finer = SymbolChannel(size, channel.alpha + Fraction(2, ONE))
    assert finer.epsilon > epsilon


@given(grid, grid)
def test_logarithms_are_rounded_up(a, b):
    exact = PRECISE.ln(PRECISE.divide(Decimal(a.numerator) * b.denominator, Decimal(a.denominator) * b.numerator))
    stated = Decimal(round_up(log_ratio(a, b)))
    assert exact <= stated or abs(exact - stated) < Decimal("1e-55")


@given(channels, channels)
def test_both_losses_are_known_to_more_digits_than_a_float_could_round_wrongly(permanent, instantaneous):
    kept, raised = permanent.then(instantaneous).keep_one, permanent.then(instantaneous).raise_zero
    ratios = [kept / raised, (1 - kept) / (1 - raised)]
    found = Rounds(permanent, instantaneous).losses()
    for stated, exact in zip(found, (max(ratios), 1 / min(ratios)), strict=True):
        assert abs(stated - PRECISE.ln(_quotient(exact))) < Decimal("1e-50")


def _quotient(ratio):
    return PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))


def test_a_logarithm_is_computed_once():
    Rounds(BinaryChannel.of(0.7, 0.2), BinaryChannel.of(0.6, 0.3)).losses()
    before = channel_module._logarithm.cache_info().misses
    Rounds(BinaryChannel.of(0.7, 0.2), BinaryChannel.of(0.6, 0.3)).losses()
    assert channel_module._logarithm.cache_info().misses == before


def test_infinite_and_equal():
    assert round_up(log_ratio(Fraction(1), Fraction(0))) == float("inf")
    assert round_up(log_ratio(Fraction(1, 3), Fraction(1, 3))) == 0.0


@given(channels, channels, st.integers(1, 60))
def test_more_reports_reveal_more_up_to_the_permanent_response(permanent, instantaneous, reports):
    assume(permanent.span)
    rounds = Rounds(permanent, instantaneous)
    here, next_ = (rounds.epsilon([(1, 1)], reports=n) for n in (reports, reports + 1))
    assert here <= next_ * (1 + 1e-12) + 1e-90  # the last of a hundred digits, where nothing is revealed
    assert next_ <= rounds.epsilon_permanent([(1, 1)]) * (1 + 1e-12)


def test_a_million_reports_do_not_vanish():
    """2**-31 to the power of a million is far below the default exponents of decimal numbers."""
    rare = BinaryChannel(Fraction(1, 2**31), Fraction(1, 2**30))
    rounds = Rounds(BinaryChannel.of(0.75, 0.25), rare)
    few, many = (rounds.epsilon([(1, 1)], reports=n) for n in (10**5, 10**6))
    assert few <= many * (1 + 1e-12)
    assert many > 1


def bisected(promised, epsilon, low, high):
    """The slow twin of `least_noise`: one bit a step."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if promised(middle) <= epsilon else (middle + 1, high)
    return low


AFTER = symmetric(ONE // 50)
FAMILIES = {
    "symmetric": (lambda t: symmetric(t).epsilon, 1, ONE // 2 - 1),
    "optimized": (lambda t: optimized(t).epsilon, 1, ONE // 2 - 1),
    "second round": (lambda t: Rounds(AFTER, symmetric(t)).epsilon(ONE_BIT_EACH), 0, ONE // 2 - 1),
    "sets": (lambda t: channel_module.set_epsilon(20, 5, 1 - Fraction(t, ONE)), 1, 15 * ONE // 20),
    "steps": (lambda t: 10.0 - t // (ONE // 8), 0, ONE // 2),
    "a cliff": (lambda t: 700.0 if t < 12_345_678 else 0.0, 1, ONE // 2),
    "without bound": (lambda t: float("inf") if t < 7 else 1 / t, 0, ONE // 2),
}


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25)
@given(st.floats(1e-6, 30), st.integers(-5, ONE))
def test_the_least_noise_is_what_bisection_finds_wherever_one_looks_first(family, epsilon, near):
    promised, low, high = FAMILIES[family]
    assume(promised(high) <= epsilon)
    found = bisected(promised, epsilon, low, high)
    assert least_noise(promised, epsilon, low, high) == least_noise(promised, epsilon, low, high, near=near) == found


@pytest.mark.parametrize("family", ["symmetric", "optimized", "second round", "sets"])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
def test_the_least_noise_takes_few_logarithms_to_a_hundred_digits(family, epsilon):
    """A program pays for them at every start (finding A17): bisection takes 32."""
    (promised, low, high), asked = FAMILIES[family], []
    least_noise(lambda t: asked.append(t) or promised(t), epsilon, low, high)
    assert len(asked) <= 18


@pytest.mark.parametrize("name", ["subset", "projective"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_an_oracle_of_sets_asks_for_few_logarithms(monkeypatch, name, epsilon):
    asked, exact = [], sets.set_epsilon
    monkeypatch.setattr(sets, "set_epsilon", lambda *sizes: asked.append(sizes) or exact(*sizes))
    built = mechanism(name, domain_size=200, epsilon=epsilon)
    tried = len({(outputs, own) for outputs, own, _ in asked})
    assert len(asked) <= 6 * tried
    assert built.epsilon_report <= epsilon


@pytest.mark.parametrize("inside", [Fraction(1, 3), Fraction(9, 10), Fraction(1, 4), Fraction(1)])
def test_the_epsilon_of_sets_is_the_worst_of_both_ways_round(inside):
    within, without = inside / 3, (1 - inside) / 9
    both = max(log_ratio(within, without), log_ratio(without, within))
    assert channel_module.set_epsilon(12, 3, inside) == round_up(both)
