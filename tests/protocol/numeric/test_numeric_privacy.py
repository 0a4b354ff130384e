"""Numbers on a device: the declared epsilon is the exact worst log ratio, over every position and every report.

And what a device does with them: positions, canonical forms, the levels of a tree.
"""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.privacy import statement
from overstory.privacy.terms import terms_from_json, terms_of
from overstory.protocol.channels import SymbolChannel
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds import base
from overstory.protocol.numeric import Hybrid, Interval, RangeRandomizer, SquareWave, mechanisms
from overstory.protocol.numeric.mechanisms import EitherChannel, EndsChannel, WindowChannel, half_width
from overstory.protocol.sampling import SeededEntropy, symbol_sampler, uniform_below
from support.exact_draws import exact_distribution, law_of_no_number, law_of_number, worst_ratio

ONE = 1 << 32


class ShortWindow(WindowChannel):
    """Forgets that the rest may fall into the window too, and anywhere: it draws the rest from the first cells."""

    def draw(self, position, entropy):
        if entropy.bits(32) < self.threshold:
            return position + uniform_below(self.window, entropy)
        return uniform_below(self.num_positions - 1, entropy)


class EagerWindow(WindowChannel):
    """Draws from the window more often than it says."""

    def draw(self, position, entropy):
        if entropy.bits(32) < self.threshold + (1 << 28):
            return position + uniform_below(self.window, entropy)
        return uniform_below(self.num_cells, entropy)


def log_ratio_of(channel, extra=()):
    thresholds = (channel.threshold, *extra)
    places = range(channel.num_positions)
    rows = [exact_distribution(lambda entropy, at=at: channel.draw(at, entropy), thresholds) for at in places]
    ratio = worst_ratio(rows)
    return rows, math.log(ratio) if ratio != math.inf else math.inf


# Powers of two where a size is drawn, so that nothing is drawn twice: 1, 2, 4 cells of a window, 4 or 8 in all.
SIZES = [(4, 1), (3, 2), (7, 2), (5, 4), (13, 4)]


@pytest.mark.parametrize(("positions", "window"), SIZES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_window_by_enumeration_of_its_random_bits(positions, window, epsilon):
    channel = WindowChannel.of(positions, window, epsilon=epsilon)
    rows, exact = log_ratio_of(channel)
    for at, row in enumerate(rows):
        assert row == {cell: channel.probability(cell, at) for cell in range(channel.num_cells)}
        debiased = [(channel.debias(Fraction(cell)), chance) for cell, chance in row.items()]
        assert sum(value * chance for value, chance in debiased) == at
        assert sum((value - at) ** 2 * chance for value, chance in debiased) == channel.spread(Fraction(at))
    assert channel.epsilon <= epsilon
    assert channel.epsilon == pytest.approx(exact, abs=1e-12)
    assert epsilon - channel.epsilon < 1e-6


@pytest.mark.parametrize(("broken", "extra"), [(ShortWindow, 0), (EagerWindow, 1 << 28)])
def test_the_enumeration_catches_a_broken_window(broken, extra):
    sound = WindowChannel.of(5, 4, epsilon=1.0)
    channel = broken(5, 4, sound.alpha)
    _, exact = log_ratio_of(channel, (sound.threshold + extra,))
    assert exact > sound.epsilon + 1e-3


RANDOMIZERS = [SquareWave, Hybrid]


@pytest.fixture
def drawn_at_will(monkeypatch):
    monkeypatch.setattr(mechanisms, "uniform_below", lambda bound, entropy: entropy.below(bound))


def cuts_of(built):
    """Every threshold that a draw of 32 bits is compared with."""
    channel = built.channel
    if isinstance(channel, EitherChannel):
        return [channel.threshold, channel.piecewise.threshold, int(channel.duchi.alpha * ONE)]
    return [channel.threshold]


@pytest.mark.parametrize("kind", RANDOMIZERS)
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("resolution", [2, 3, 50])
def test_every_randomizer_over_all_positions_and_reports(kind, epsilon, resolution):
    built = kind(epsilon, Interval(0, 1), resolution)
    rows = [law_of_number(built, at) for at in range(built.domain_size)]
    assert all(sum(row.values()) == 1 for row in rows)
    exact = math.log(worst_ratio(rows))
    assert exact <= built.epsilon_report + 1e-12
    assert built.epsilon_report <= exact + 1e-9
    assert built.epsilon_report <= epsilon
    # An alpha of few units of 2**-32 cannot come nearer: the grid, not the calibration, is the limit.
    assert built.epsilon_report > epsilon - 1e-6 * math.exp(epsilon)
    assert max(max(row) for row in rows) < 1 << built.payload_bits


@pytest.mark.parametrize("kind", RANDOMIZERS)
def test_debiased_reports_average_to_the_value_exactly(kind):
    built = kind(1.0, Interval(-3, 5), 40)
    for step in range(41):
        value = Fraction(-3) + Fraction(8 * step, 40)
        row = law_of_number(built, built.position(value))
        mean = sum(built.debias(payload) * chance for payload, chance in row.items())
        spread = sum((built.debias(payload) - mean) ** 2 * chance for payload, chance in row.items())
        assert spread == built.variance(value)
        if kind is SquareWave:  # the middle of the position that owns the value
            assert abs(mean - value) <= Fraction(8, 80)
        else:
            assert mean == value


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 2), Fraction(1)])
def test_variances_are_the_papers(epsilon, x):
    odds, root = math.exp(epsilon), math.exp(epsilon / 2)
    duchi = ((odds + 1) / (odds - 1)) ** 2 - float(x) ** 2
    piecewise = float(x) ** 2 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)
    hybrid = (1 - 1 / root) * piecewise + duchi / root
    built = Hybrid(epsilon)
    channel, half = built.channel, Fraction(built.resolution, 2)
    is_either = isinstance(channel, EitherChannel)
    parts, expected = (
        ((channel.duchi, channel.piecewise, channel), (duchi, piecewise, hybrid))
        if is_either
        else ((channel,), (duchi,))
    )
    assert is_either == (epsilon > 0.61)
    stated = [part.spread(half * (1 + x)) / half**2 for part in parts]
    assert [float(variance) for variance in stated] == pytest.approx(expected, 1e-5)
    assert built.variance(x) == stated[-1]


def test_a_small_epsilon_leaves_a_liar_one_bit():
    """Up to epsilon .61 nobody sends Piecewise's cells, which would move a mean twice as far: none is a report."""
    built = Hybrid(0.3)
    assert (built.payload_bits, [built.valid(payload) for payload in range(4)]) == (1, [True, True, False, False])


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0])
def test_square_wave_has_the_papers_densities(epsilon):
    odds, b = math.exp(epsilon), half_width(epsilon)
    assert b == pytest.approx((epsilon * odds - odds + 1) / (2 * odds * (odds - 1 - epsilon)), rel=1e-9)
    wave = SquareWave(epsilon, resolution=1 << 24)
    inside, outside = (float(p * wave.resolution) for p in (wave.channel.inside, wave.channel.outside))
    assert (inside, outside) == pytest.approx((odds / (2 * b * odds + 1), 1 / (2 * b * odds + 1)), rel=1e-6)


def test_the_half_widths_series_meets_its_formula():
    assert half_width(0.01 - 1e-12) == pytest.approx(half_width(0.01), rel=1e-7)
    assert half_width(0.001) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("resolution", [2, 3, 5])
@pytest.mark.parametrize("kind", RANDOMIZERS)
@pytest.mark.usefixtures("drawn_at_will")
def test_what_is_drawn_has_the_stated_chances(kind, resolution):
    built = kind(1.0, Interval(0, 1), resolution)
    cuts = cuts_of(built)
    for at in range(built.domain_size):
        found = exact_distribution(lambda entropy, at=at: built.draw(at, 0, entropy), cuts)
        assert found == {payload: chance for payload, chance in law_of_number(built, at).items() if chance}


@pytest.mark.parametrize("kind", RANDOMIZERS)
@pytest.mark.usefixtures("drawn_at_will")
def test_nothing_to_report_has_the_mixture_of_all_positions_and_is_as_private_as_a_value(kind, monkeypatch):
    built = kind(1.0, Interval(0, 1), 3)

    def silent(entropy):
        monkeypatch.setattr(base, "KeyedEntropy", lambda *_, **__: entropy)
        return built.nothing(bytes(16), "m", 0)

    nothing = exact_distribution(silent, cuts_of(built))
    assert nothing == {payload: chance for payload, chance in law_of_no_number(built).items() if chance}
    for at in range(built.domain_size):
        assert math.log(worst_ratio([nothing, law_of_number(built, at)])) <= built.epsilon_report + 1e-12


class EagerEnds(EndsChannel):
    """Sends the rounded end more often than it says."""

    def draw(self, position, entropy):
        end = int(mechanisms.uniform_below(self.resolution, entropy) < position)
        return symbol_sampler(SymbolChannel(2, self.alpha + Fraction(1, 8)))(end, entropy.bits)


class NearestEnds(EndsChannel):
    """Rounds to the nearer end instead of at random: as private, and biased."""

    def draw(self, position, entropy):
        return symbol_sampler(self.ends)(int(2 * position > self.resolution), entropy.bits)


class LookingEither(EitherChannel):
    """Chooses its branch by the value."""

    def draw(self, position, entropy):
        if 2 * position > self.duchi.resolution:
            return self.piecewise.draw(position, entropy) << 1 | 1
        return self.duchi.draw(position, entropy) << 1


@pytest.mark.usefixtures("drawn_at_will")
def test_broken_randomizers_are_caught():
    built = Hybrid(1.0, resolution=3)
    sound = built.channel
    eager, biased = (kind(3, sound.duchi.ends) for kind in (EagerEnds, NearestEnds))
    looking = LookingEither(sound.threshold, sound.piecewise, sound.duchi)
    cuts = [*cuts_of(built), int(eager.alpha * ONE) + ONE // 8]

    def drawn(channel):
        return [exact_distribution(lambda entropy, at=at: channel.draw(at, entropy), cuts) for at in range(4)]

    assert math.log(worst_ratio(drawn(eager))) > built.epsilon_report + 0.1
    assert worst_ratio(drawn(looking)) == math.inf
    bias = [
        sum(chance * biased.debias(payload) for payload, chance in chances.items()) - at
        for at, chances in enumerate(drawn(biased))
    ]
    assert [abs(error) > 0.1 for error in bias] == [False, True, True, False]
    assert math.log(worst_ratio(drawn(biased))) <= built.epsilon_report + 1e-12


@pytest.mark.parametrize("epsilon", [0, -1, 0.0001, 21, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("kind", RANDOMIZERS)
def test_an_epsilon_that_cannot_be_kept_is_refused(kind, epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        kind(epsilon)


def test_a_channel_that_would_give_the_value_away_is_refused():
    with pytest.raises(ParameterError, match="below 1"):
        WindowChannel(4, 1, Fraction(1))
    with pytest.raises(ParameterError, match=r"2\*\*32"):
        WindowChannel(4, 1, Fraction(1, 3))
    with pytest.raises(ParameterError, match="nothing can be learned"):
        WindowChannel(4, 1, Fraction(0)).debias(Fraction(1))
    with pytest.raises(ParameterError, match="outside the domain"):
        WindowChannel(4, 1, Fraction(1, 2)).draw(4, None)


@pytest.mark.parametrize("kind", [*RANDOMIZERS, lambda epsilon: RangeRandomizer(100, epsilon)])
def test_terms_say_what_it_costs(kind):
    built = kind(1.0)
    terms = terms_of(built)
    assert terms.epsilon_n(1) == terms.epsilon_n(50) == built.epsilon_report == built.epsilon_n(9)
    assert terms.proves_changes
    assert terms.epsilon_values(2) == 2 * built.epsilon_report
    assert statement(built).epsilon_permanent == built.epsilon_permanent == built.epsilon_report
    assert terms.most_values == statement(built).domain_size == built.domain_size


@pytest.mark.parametrize("odds", [[1, 2], [1, 0], [-2, -1], [1], "no", [1.5, "x"]])
def test_terms_that_promise_nothing_are_refused(odds):
    with pytest.raises(FormatError, match="no terms of odds"):
        terms_from_json({"kind": "odds", "odds": odds, "most_values": 4})


@given(st.fractions(0, 1), st.integers(2, 1000))
def test_a_position_is_the_nearest_or_the_owning_one(share, resolution):
    wave, hybrid = SquareWave(1.0, Interval(0, 1), resolution), Hybrid(1.0, Interval(0, 1), resolution)
    at = wave.position(share)
    assert Fraction(at, resolution) <= share < Fraction(at + 1, resolution) or (share == 1 and at == resolution - 1)
    assert abs(Fraction(hybrid.position(share), resolution) - share) <= Fraction(1, 2 * resolution)


@pytest.mark.parametrize("kind", RANDOMIZERS)
def test_the_digest_changes_with_everything_that_matters(kind):
    base = kind(1.0, Interval(0, 1), 64)
    changed = [kind(1.0 + 1e-6, Interval(0, 1), 64), kind(1.0, Interval(0, 2), 64), kind(1.0, Interval(0, 1), 65)]
    changed.append(kind(1.0, Interval(0, 1, "reject"), 64))
    assert len({built.digest for built in (base, *changed)}) == 5
    assert kind(1.0, Interval(0, 1), 64).digest == base.digest
    json.dumps(base.canonical(), allow_nan=False)


@pytest.mark.parametrize("kind", RANDOMIZERS)
def test_values_outside_are_clamped_or_refused(kind):
    clamp, reject = kind(1.0, Interval(0, 1)), kind(1.0, Interval(0, 1, "reject"))
    assert clamp.position(7) == clamp.position(1)
    assert clamp.position(-7) == 0
    for value in (7, float("nan"), "1"):
        with pytest.raises(ParameterError):
            reject.randomize(value, SeededEntropy(1))
    with pytest.raises(ParameterError, match="too large for floats"):
        kind(1.0, Interval(-1e308, 1e308))
    for bad in (1, 0, -5, 2.5, (1 << 32) + 1):
        with pytest.raises(ParameterError, match="resolution"):
            kind(1.0, Interval(0, 1), bad)


@given(st.integers(2, 1500), st.integers(2, 20))
def test_a_tree_covers_every_symbol_once_at_each_level(size, branching):
    tree = RangeRandomizer(size, 1.0, branching)
    assert tree.level_sizes[-1] == size
    assert 2 <= tree.level_sizes[0] <= branching
    for level in range(tree.num_levels):
        nodes = [tree.project(symbol, level) for symbol in range(size)]
        assert sorted(set(nodes)) == list(range(tree.level_sizes[level]))
        if level:
            assert all(node // branching == tree.project(symbol, level - 1) for symbol, node in enumerate(nodes))


def test_a_range_report_is_one_of_its_level():
    ranges = RangeRandomizer(100, 1.0, branching=5)
    assert ranges.level_sizes == (4, 20, 100)
    levels = {ranges.randomize(99, SeededEntropy(i)).cohort for i in range(60)}
    assert levels == {0, 1, 2}
    assert ranges.digest == RangeRandomizer(100, 1.0, branching=5).digest
    assert len({RangeRandomizer(*p).digest for p in ((100, 1.0, 5), (100, 1.0, 4), (101, 1.0, 5), (100, 1.1, 5))}) == 4
    for bad in (-1, 3):
        with pytest.raises(ParameterError, match="cohort"):
            ranges.randomize(3, SeededEntropy(1), cohort=bad)
    with pytest.raises(ParameterError, match="outside the domain"):
        ranges.randomize(100, SeededEntropy(1))
    with pytest.raises(ParameterError, match="domain_size"):
        RangeRandomizer(1, 1.0)
