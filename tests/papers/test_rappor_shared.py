"""Table 2: who sends what, and that errors which count shared responses are the real ones."""

import numpy as np
import pytest

from papers.rappor import collections
from papers.rappor.collections import collected


@pytest.mark.parametrize("kind", collections.KINDS)
def test_machines_send_about_the_papers_reports_at_the_stated_shares(kind):
    sent = collections.KINDS[kind](np.random.default_rng(1))
    assert sent.times.sum() == pytest.approx(collections.REPORTS, rel=0.01)
    assert len(np.unique(sent.machines * len(collections.NAMES) + sent.names)) == sent.names.size
    held = np.bincount(sent.names, weights=sent.times) / sent.times.sum()
    assert held[: len(collections.PRINTED)] == pytest.approx(collections.shares()[: len(collections.PRINTED)], rel=0.12)


def test_a_machine_keeps_its_cohort_and_every_report_is_counted():
    mechanism = collected(0.5, num_cohorts=8)
    rng = np.random.default_rng(3)
    sent = collections.one_name(rng)
    drawn = collections.collect(mechanism, sent, rng)
    assert drawn.counts.num_reports == drawn.held.sum() == collections.REPORTS
    per_machine = np.bincount(sent.machines, weights=sent.times)
    # Cohorts of machines scatter as sums over machines do, far more than cohorts of reports would.
    scatter = np.sum((drawn.counts.totals - collections.REPORTS / 8) ** 2) / 7
    assert scatter / (np.sum(per_machine**2) / 8) == pytest.approx(1, abs=0.95)
    assert scatter > 5 * collections.REPORTS / 8
