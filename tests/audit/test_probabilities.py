"""p-values are never too small: by enumeration of all outcomes, in exact sums."""

import itertools
import math

import numpy as np
import pytest

from overstory.analysis.selection import at_least, binomial_law, clopper_pearson, lower_bound
from overstory.audit import conformance as probabilities
from overstory.audit.conformance import joined, most_extreme, outcomes_p, too_many, two_sided

LEVELS = (0.5, 0.2, 0.1, 0.05, 0.01, 0.001, 1e-5)
ROUNDING = 1 + 1e-9


def worst(chances, p_values):
    """The largest P(p <= level) / level over all levels that a p-value can have, and some more."""
    levels = {*LEVELS, *p_values} - {0.0}
    return max(sum(one for one, p in zip(chances, p_values, strict=True) if p <= level) / level for level in levels)


@pytest.mark.parametrize("probability", [0.0, 0.01, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("trials", [1, 7, 40])
def test_tails_of_a_binomial_are_exact(trials, probability):
    law = [math.comb(trials, n) * probability**n * (1 - probability) ** (trials - n) for n in range(trials + 1)]
    np.testing.assert_allclose(binomial_law(trials, probability), law, rtol=1e-10, atol=1e-300)
    tails = [math.fsum(law[ones:]) for ones in range(trials + 1)]
    np.testing.assert_allclose(at_least(np.arange(trials + 1), trials, probability), tails, rtol=1e-10, atol=1e-300)
    assert worst(law, two_sided(np.arange(trials + 1), trials, probability).tolist()) <= ROUNDING


def test_joined_p_values_of_counts_are_not_too_small():
    laws = binomial_law(6, 0.3), binomial_law(9, 0.8), binomial_law(2, 0.01)
    each = [two_sided(np.arange(len(law)), len(law) - 1, p) for law, p in zip(laws, (0.3, 0.8, 0.01), strict=True)]
    cells = list(itertools.product(*(range(len(law)) for law in laws)))
    chances = [math.prod(law[i] for law, i in zip(laws, cell, strict=True)) for cell in cells]
    for way in (joined, most_extreme):
        p_values = [way([p[i] for p, i in zip(each, cell, strict=True)]) for cell in cells]
        assert worst(chances, p_values) <= ROUNDING


@pytest.mark.parametrize("smallest", [0.0, 2.0, 20.0])
@pytest.mark.parametrize("law", [(0.5, 0.3, 0.2), (0.9, 0.05, 0.05, 0.0), (0.25, 0.25, 0.25, 0.25), (0.01, 0.98, 0.01)])
def test_the_p_value_of_outcomes_is_not_too_small(law, smallest, monkeypatch):
    monkeypatch.setattr(probabilities, "SMALLEST", smallest)
    total, chances, p_values = 9, [], []
    for counts in itertools.product(range(total + 1), repeat=len(law)):
        if sum(counts) == total:
            ways = math.factorial(total) / math.prod(map(math.factorial, counts))
            chances.append(ways * math.prod(p**n for p, n in zip(law, counts, strict=True)))
            p_values.append(outcomes_p(counts, law))
    assert math.isclose(sum(chances), 1.0)
    assert worst(chances, p_values) <= ROUNDING


def test_outcomes_that_cannot_be_are_certain_and_others_are_noticed():
    assert outcomes_p([10, 1], [1.0, 0.0]) == 0.0
    assert outcomes_p([500, 300, 200], [0.5, 0.3, 0.2]) > 0.5
    assert outcomes_p([400, 400, 200], [0.5, 0.3, 0.2]) < 1e-9
    assert outcomes_p([], []) == outcomes_p([5], [1.0]) == joined([]) == most_extreme([]) == 1.0
    assert (joined([0.3, 0.0]), most_extreme([0.01, 0.5])) == (0.0, 0.02)
    assert joined([0.5, 0.5]) == pytest.approx(0.5966, abs=1e-4)


@pytest.mark.parametrize("chances", [(0.5,) * 8, (0.9, 0.1, 0.1, 0.4, 0.02), (0.01,) * 12])
def test_too_many_events_are_bounded(chances):
    law = [1.0]
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    for count in range(len(chances) + 1):
        assert math.fsum(law[count:]) <= too_many(count, chances) * ROUNDING
    assert too_many(len(chances), chances) < 0.1


def test_the_lower_bound_is_above_the_truth_as_rarely_as_it_says():
    for total, alpha in ((1, 0.05), (20, 0.05), (300, 0.001)):
        bounds = [lower_bound(count, total, alpha) for count in range(total + 1)]
        for truth in np.linspace(0.01, 0.99, 33):
            above = [count for count, bound in enumerate(bounds) if bound > truth]
            assert not above or float(at_least(above[0], total, truth)) <= alpha * ROUNDING
    assert clopper_pearson(0, 100, 0.95)[0] == 0.0
    assert clopper_pearson(100, 100, 0.95)[1] == 1.0
