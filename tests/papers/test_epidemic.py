"""The epidemic survey: who is asked, how well it is estimated, what attackers rebuild, what the shortcomings cost."""

import numpy as np

from overstory.protocol.sampling import SeededEntropy
from overstory.trial.covid import CONFIRMED
from papers.epidemic import attack
from papers.epidemic import fit as respondents


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


def test_reports_of_a_batch_are_the_devices_own():
    used = attack.mechanism()
    sent = [used.randomize("Ohio", SeededEntropy(seed)) for seed in range(20)]
    batch = attack.ReportBatch.of(used, sent)
    assert [attack._reports([batch], row)[0] for row in range(20)] == sent
