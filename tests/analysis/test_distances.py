"""Distances: each against a twin written differently, and what each refuses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import wasserstein_distance

from overstory.protocol.errors import ParameterError
from papers.smart_homes.measurement import (
    DISTANCES,
    jensen_shannon,
    maximum_error,
    mean_squared_error,
    total_variation,
    wasserstein,
)


@st.composite
def pairs(draw):
    size = draw(st.integers(1, 12))
    weights = st.lists(st.integers(0, 1000), min_size=size, max_size=size).filter(any)
    first, second = draw(weights), draw(weights)
    return [x / sum(first) for x in first], [x / sum(second) for x in second]


def slow_squares(a, b):
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += (x - y) * (x - y)
    return total / len(a)


def slow_variation(a, b):
    """The largest difference of any event's share: of the symbols where the first is larger."""
    return sum(x - y for x, y in zip(a, b, strict=True) if x > y)


def slow_jensen_shannon(a, b):
    """Entropy of the mixture less the mean of the entropies."""

    def entropy(shares):
        return -sum(x * math.log2(x) for x in shares if x > 0)

    mixture = [(x + y) / 2 for x, y in zip(a, b, strict=True)]
    return math.sqrt(max(0.0, entropy(mixture) - (entropy(a) + entropy(b)) / 2))


def slow_wasserstein(a, b):
    """Move earth greedily from the left: each surplus to the nearest hole on the right, or the other way round."""
    a, b, moved = list(a), list(b), 0.0
    i = j = 0
    while i < len(a) and j < len(b):
        share = min(a[i], b[j])
        moved += share * abs(i - j)
        a[i] -= share
        b[j] -= share
        if a[i] <= b[j]:
            i += 1
        else:
            j += 1
    return moved


@settings(deadline=None)
@given(pairs())
def test_each_against_its_twin(pair):
    assert mean_squared_error(*pair) == pytest.approx(slow_squares(*pair), abs=1e-15)
    assert maximum_error(*pair) == max(abs(x - y) for x, y in zip(*pair, strict=True))
    assert total_variation(*pair) == pytest.approx(slow_variation(*pair), abs=1e-12)
    assert jensen_shannon(*pair) == pytest.approx(slow_jensen_shannon(*pair), abs=1e-6)
    assert wasserstein(*pair) == pytest.approx(slow_wasserstein(*pair), abs=1e-9)


@settings(deadline=None)
@given(pairs())
def test_against_scipy(pair):
    places = np.arange(len(pair[0]))
    theirs = jensenshannon(*pair, base=2)
    assert jensen_shannon(*pair) == pytest.approx(0.0 if np.isnan(theirs) else theirs, abs=1e-6)
    assert wasserstein(*pair) == pytest.approx(wasserstein_distance(places, places, *pair), abs=1e-9)


@settings(deadline=None)
@given(pairs())
def test_what_a_distance_is(pair):
    for name, distance in DISTANCES.items():
        assert distance(pair[0], pair[0]) == 0, name
        assert distance(*pair) == pytest.approx(distance(*pair[::-1]), abs=1e-12), name
        assert distance(*pair) >= 0, name
    assert jensen_shannon(*pair) <= 1
    assert wasserstein(*pair, width=0.5) == pytest.approx(wasserstein(*pair) / 2)
    # Pinsker's inequality for the mixture, and Lin's bound: the two distances cannot disagree by much.
    assert total_variation(*pair) ** 2 / 2 / math.log(2) <= jensen_shannon(*pair) ** 2 + 1e-9
    assert jensen_shannon(*pair) ** 2 <= total_variation(*pair) + 1e-9


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize(("first", "second"), [([1], [0.5, 0.5]), ([], []), ([[1.0]], [[1.0]]), ([math.nan], [1.0])])
def test_shapes_and_numbers_are_checked(name, first, second):
    with pytest.raises(ParameterError):
        DISTANCES[name](first, second)


def test_distances_between_distributions_refuse_what_is_none():
    with pytest.raises(ParameterError, match="norm-sub"):
        jensen_shannon([1.1, -0.1], [0.5, 0.5])
    with pytest.raises(ParameterError, match="none"):
        jensen_shannon([0, 0], [0.5, 0.5])
    for distance in (total_variation, wasserstein):
        with pytest.raises(ParameterError, match="equal totals"):
            distance([0.6, 0.6], [0.5, 0.5])
    assert mean_squared_error([0.6, 0.6], [0.5, 0.5]) == pytest.approx(0.01)
