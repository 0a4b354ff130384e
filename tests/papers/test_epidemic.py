"""The epidemic survey: who is asked, how well it is estimated, what attackers rebuild, what the shortcomings cost."""

import numpy as np
import pytest

from overstory.protocol.sampling import SeededEntropy
from overstory.trial.covid import CONFIRMED
from papers.epidemic import attack, fit, shortcomings
from papers.epidemic import fit as respondents
from papers.run import EXPERIMENTS
from papers.study import Context


def context(name):
    return Context(EXPERIMENTS[name])


def test_twenty_six_states_with_the_real_figures_are_asked():
    assert len(respondents.STATES) == len(set(respondents.STATES)) == 26
    assert not respondents.ELSEWHERE & set(respondents.STATES)
    held = np.bincount(respondents.asked(0.1))
    assert held.tolist() == [CONFIRMED[state] // 10 for state in respondents.STATES]


def test_r_squared_is_about_equality_not_about_any_line():
    truth = np.array([0.5, 0.3, 0.2])
    assert respondents.fitted(truth, truth) == 1
    assert respondents.fitted(truth / 2, truth) < 0
    assert attack.in_words(truth, truth) == attack.GOOD
    assert attack.in_words(truth, np.full(3, 1 / 3)) == attack.POOR


def test_a_survey_is_as_exact_as_its_standard_errors_say():
    symbols = respondents.asked(0.01)
    found = [fit._survey(symbols, np.random.default_rng([1, run])) for run in range(6)]
    for name in (fit.DEFAULT, fit.ONE_HOT):
        z = np.array([(one.estimates[name] - one.truth) / one.errors[name] for one in found])
        assert abs(z.mean()) < 5.5 / np.sqrt(z.size)
        assert 0.7 < z.std() < 1.3
    assert max(one.from_formula for one in found) < 1e-3


def test_taking_reports_for_permanent_responses_rebuilds_nothing(monkeypatch):
    monkeypatch.setattr(attack, "SAMPLE", 200_000)
    rebuilt = attack._rebuild(np.random.default_rng(1))
    fits = {name: respondents.fitted(by, rebuilt.truth) for name, by in rebuilt.by.items()}
    assert fits[attack.WITH] < 0.3
    assert min(fits[attack.WITHOUT], fits[attack.KNOWING]) > 0.9
    assert all(by.sum() == pytest.approx(1) for by in rebuilt.by.values())


def test_reports_of_a_batch_are_the_devices_own():
    used = attack.mechanism()
    sent = [used.randomize("Ohio", SeededEntropy(seed)) for seed in range(20)]
    batch = attack.ReportBatch.of(used, sent)
    assert [attack._reports([batch], row)[0] for row in range(20)] == sent


def test_without_the_instantaneous_round_one_report_names_more_persons():
    run = context("epidemic-attacker")
    both, bare = (np.mean(attack._named(run, used, 1, 260)) for used in (attack.mechanism(), attack._bare()))
    assert bare > both + 0.08
    assert both < 0.2


def test_a_larger_budget_and_more_people_find_smaller_states():
    shares = [[shortcomings._least_share(epsilon, n) for epsilon in (0.5, 1, 2)] for n in (10**5, 10**6)]
    assert np.all(np.diff(shares, axis=0) < 0)
    assert np.all(np.diff(shares, axis=1) < 0)


def test_states_added_after_the_survey_are_estimated_from_the_same_counts():
    found = [shortcomings._later(np.random.default_rng([2, run])) for run in range(4)]
    for one in found:
        assert one["unallocated"] == pytest.approx(one["truth"], abs=0.15)
        assert 0.2 < one["misses"] < 2.5
