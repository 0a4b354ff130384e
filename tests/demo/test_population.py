"""Who takes part: the bundled figures and how respondents are drawn from them."""

import numpy as np
import pytest
from scipy import stats

from overstory.protocol.errors import ParameterError
from overstory.trial.covid import ATTRIBUTION, CONFIRMED
from overstory.trial.service import choose_states, draw_population

FALSE_ALARM = 1e-6


def test_the_bundled_figures_are_the_published_ones():
    assert len(CONFIRMED) == 58
    assert sum(CONFIRMED.values()) == 31_670_031
    assert CONFIRMED["California"] == 3_718_210
    assert CONFIRMED["American Samoa"] == 0
    assert "CC BY 4.0" in ATTRIBUTION
    assert "Johns Hopkins" in ATTRIBUTION


def test_states_are_chosen_by_number_name_or_all():
    assert choose_states("all")[0][0] == "California"
    assert len(choose_states("all")[0]) == 58
    assert choose_states("3")[0] == ("California", "Texas", "Florida")
    assert choose_states("Ohio, Utah,Ohio")[0] == ("Ohio", "Utah")


@pytest.mark.parametrize(
    ("choice", "word"),
    [("1", "2 to 58"), ("59", "2 to 58"), ("Ohio", "two"), ("Ohio,Narnia", "Narnia"), ("", "unknown")],
)
def test_a_wrong_choice_says_what_would_be_right(choice, word):
    with pytest.raises(ParameterError, match=word):
        choose_states(choice)


@pytest.mark.parametrize("reports", [0, -1])
def test_nobody_cannot_be_drawn(reports):
    with pytest.raises(ParameterError, match=r"give at least 1$"):
        draw_population("26", reports, np.random.default_rng(1))


def test_respondents_follow_the_figures():
    people = draw_population("all", 200_000, np.random.default_rng(3))
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
