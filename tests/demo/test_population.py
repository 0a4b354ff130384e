"""Who takes part: the bundled figures and how respondents are drawn from them."""

import numpy as np
import pytest
from scipy import stats

from overstory.protocol.errors import ParameterError
from overstory.trial.population import ATTRIBUTION, CONFIRMED, draw_population

FALSE_ALARM = 1e-6


def test_the_bundled_figures_are_the_published_ones():
    assert len(CONFIRMED) == 58
    assert sum(CONFIRMED.values()) == 31_670_031
    assert CONFIRMED["California"] == 3_718_210
    assert CONFIRMED["American Samoa"] == 0
    assert "CC BY 4.0" in ATTRIBUTION
    assert "Johns Hopkins" in ATTRIBUTION


def test_the_states_are_those_with_the_most_cases():
    assert draw_population(3, 10, np.random.default_rng(1)).labels == ("California", "Texas", "Florida")


@pytest.mark.parametrize(
    ("states", "reports", "words"), [(1, 5, "2 to 58"), (59, 5, "2 to 58"), (26, 0, "give at least 1$")]
)
def test_a_wrong_choice_says_what_would_be_right(states, reports, words):
    with pytest.raises(ParameterError, match=words):
        draw_population(states, reports, np.random.default_rng(1))


def test_respondents_follow_the_figures():
    people = draw_population(58, 200_000, np.random.default_rng(3))
    cases = np.array([CONFIRMED[state] for state in people.labels])
    held = cases > 0
    assert people.counts[~held].sum() == 0
    expected = 200_000 * cases[held] / cases.sum()
    rare = expected < 5
    seen = [*people.counts[held][~rare], people.counts[held][rare].sum()]
    fit = stats.chisquare(seen, [*expected[~rare], expected[rare].sum()])
    assert fit.pvalue > FALSE_ALARM
    uniform = stats.chisquare(people.counts[held])
    assert uniform.pvalue < FALSE_ALARM  # the same check sees a population that is not the figures'
