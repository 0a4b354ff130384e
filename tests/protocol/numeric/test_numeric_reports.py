"""What a device does with numbers: positions, permanence, canonical forms, the levels of a tree."""

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric import Hybrid, Interval, RangeRandomizer, SquareWave
from overstory.protocol.numeric.ranges import LevelTree
from overstory.protocol.sampling import SeededEntropy

RANDOMIZERS = [SquareWave, Hybrid]


@settings(deadline=None)
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


@settings(deadline=None)
@given(st.integers(2, 1500), st.integers(2, 20))
def test_a_tree_covers_every_symbol_once_at_each_level(size, branching):
    tree = LevelTree(size, branching)
    assert tree.level_sizes[-1] == size
    assert 2 <= tree.level_sizes[0] <= branching
    for level in range(1, tree.num_levels + 1):
        nodes = [tree.node(symbol, level) for symbol in range(size)]
        assert sorted(set(nodes)) == list(range(tree.level_sizes[level - 1]))
        if level > 1:
            assert all(node // branching == tree.node(symbol, level - 1) for symbol, node in enumerate(nodes))


def test_a_range_report_is_one_of_its_level():
    ranges = RangeRandomizer(100, 1.0, branching=5)
    assert ranges.tree.level_sizes == (4, 20, 100)
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
