"""The collection of a user's column: devices in order, estimates that are right, advice that holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from overstory.analysis.oracle import oracle as build_oracle
from overstory.planning.detection import required_sample_size, smallest_share
from overstory.protocol.errors import ParameterError
from overstory.trial.population import ATTRIBUTION, CONFIRMED, Population, draw_population
from overstory.trial.run import TrialBudget, chunks
from overstory.trial.values import SHARES, advise, collect

COUNTS = np.array([30_000, 12_000, 6_000, 2_000])
PEOPLE = Population(("a", "b", "c", "d"), COUNTS)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), st.integers(1, 7))
def test_chunks_have_the_histogram(counts, size):
    cut = list(chunks(np.array(counts), size))
    assert np.bincount(np.concatenate(cut), minlength=len(counts)).tolist() == counts
    assert all(len(chunk) == size for chunk in cut[:-1])


@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("auto", TrialBudget(1.0)),
        ("olh", TrialBudget(1.0)),
        ("rappor", TrialBudget(1.0)),
        ("l-osue", TrialBudget(1.0, 2.0)),
        ("rappor", TrialBudget(1.0, 2.0)),
    ],
)
def test_what_is_learned_is_near_the_truth(name, budget):
    result = collect(PEOPLE, budget, name, 5)
    assert result.kind.epsilon_report <= budget.epsilon
    assert result.kind.epsilon_permanent <= (budget.epsilon_permanent or budget.epsilon)
    away = np.abs(result.estimate.raw_counts - COUNTS) / result.estimate.standard_errors
    assert away.max() < 5.5  # one in 2.6e7 for each value
    assert result.inside >= 2
    assert result.estimate.num_reports == COUNTS.sum()


@pytest.mark.parametrize(
    ("name", "budget", "words"),
    [
        ("opt-wb", TrialBudget(1.0), "it takes epsilon and window.*there are: auto"),
        ("basic-rappor", TrialBudget(1.0), "its parameters are no epsilons"),
        ("foo", TrialBudget(1.0), "there is no oracle 'foo'"),
        ("l-grr", TrialBudget(1.0), "epsilon_permanent and epsilon_report"),
        ("grr", TrialBudget(2.0, 1.0), "must be below"),
    ],
)
def test_oracles_that_do_not_fit(name, budget, words):
    with pytest.raises(ParameterError, match=words):
        collect(PEOPLE, budget, name, 0)


@settings(max_examples=30)
@given(st.sampled_from(SHARES), st.sampled_from(["grr", "oue", "l-osue", "rappor"]))
def test_the_smallest_share_and_the_people_needed_are_inverse(share, name):
    budget = TrialBudget(1.0, 2.0) if name == "l-osue" else TrialBudget(1.0)
    built = budget.mechanism(name, 10, 10_000)
    people = required_sample_size(built, share, 10)
    found = smallest_share(built, people, 10)
    assert found == pytest.approx(share, rel=1e-3)
    assert required_sample_size(built, share, 1_000) > people


def test_the_advice_names_the_best_and_says_what_another_would_cost():
    budget = TrialBudget(1.0)
    advice = advise(collect(PEOPLE, budget, "dbitflip", 1), budget)
    assert advice.best.name != "dbitflip"
    assert all(
        here >= there
        for here, there in zip(
            advice.at_used.people_needed.values(), advice.at_best.people_needed.values(), strict=True
        )
    )
    table = advice.table()
    assert len(table.columns) == 3
    assert len(table.rows) == 2 + len(SHARES)  # two thresholds, and the people for each share
    same = advise(collect(PEOPLE, budget, "auto", 1), budget)
    assert same.at_used == same.at_best


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_shares_at_the_thresholds_are_detected_as_often_as_is_said(name):
    """400 collections: half the time is 200 +- 5.5 * 10, nine in ten 360 +- 5.5 * 6; bounds are one in 1e6."""
    people = np.array([9_000, 6_000, 4_000] + [0] * 13)
    budget = TrialBudget(1.0)
    advice = advise(collect(Population(tuple("abcdefghijklmnop"), people), budget, name, 3), budget)
    oracle = build_oracle(name, domain_size=16, epsilon=1.0)
    for share, low, high in (
        (advice.at_used.detected_half_the_time, 140, 265),
        (advice.at_used.detected_nine_times_in_ten, 325, 392),
    ):
        rare = round(share * people.sum())
        held = np.array([9_000 - rare, 6_000, 4_000, rare] + [0] * 12)
        symbols, rng = np.repeat(np.arange(16), held), np.random.default_rng(11)
        runs = (oracle.estimate(oracle.accumulate(oracle.simulate(symbols, rng))) for _ in range(400))
        assert low <= sum(bool(run.detected(0.05, "fdr")[3]) for run in runs) <= high


# The bundled figures, and how respondents are drawn from them
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
    assert fit.pvalue > 1e-6
    uniform = stats.chisquare(people.counts[held])
    assert uniform.pvalue < 1e-6  # the same check sees a population that is not the figures'
