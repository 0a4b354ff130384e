"""Distances: each against its definition or SciPy, and what each refuses."""

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


@settings(deadline=None)
@given(pairs())
def test_each_against_its_definition_or_scipy(pair):
    apart = [x - y for x, y in zip(*pair, strict=True)]
    assert mean_squared_error(*pair) == pytest.approx(sum(x * x for x in apart) / len(apart), abs=1e-15)
    assert maximum_error(*pair) == max(map(abs, apart))
    assert total_variation(*pair) == pytest.approx(sum(x for x in apart if x > 0), abs=1e-12)
    places = np.arange(len(pair[0]))
    theirs = jensenshannon(*pair, base=2)
    assert jensen_shannon(*pair) == pytest.approx(0.0 if np.isnan(theirs) else theirs, abs=1e-6)
    assert wasserstein(*pair) == pytest.approx(wasserstein_distance(places, places, *pair), abs=1e-9)
    assert wasserstein(*pair, width=0.5) == pytest.approx(wasserstein(*pair) / 2)


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
