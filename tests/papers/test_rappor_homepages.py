"""Figure 6: what is measured of a collection, and that the limit it shows is where half is found."""

import numpy as np
import pytest

from papers.rappor import figure_6
from papers.rappor.collections import collected
from papers.run import EXPERIMENTS
from papers.study import Context


def found(detected, counts=None):
    counts = np.zeros(figure_6.HOMEPAGES) if counts is None else counts
    return figure_6.Found(np.zeros(figure_6.HOMEPAGES, int), {"rule": detected}, {"rule": counts}, {})


@pytest.mark.parametrize("limit", [0.003, 0.0045, 0.0071])
def test_the_limit_is_where_half_is_found(limit):
    rng = np.random.default_rng(1)
    shares = np.repeat(figure_6.PROBED, figure_6.EACH)
    seen = [shares + rng.normal(0, 0.0015, shares.size) > limit for _ in range(400)]
    rest = np.zeros(figure_6.HOMEPAGES - shares.size, bool)
    limits = [found(np.concatenate((one, rest))).limit("rule") for one in seen]
    assert np.mean(limits) == pytest.approx(limit, abs=6 * np.std(limits) / 20 + 2e-5)


def test_full_mode_sends_every_report_and_quick_mode_draws_their_counts(monkeypatch):
    monkeypatch.setattr(figure_6, "REPORTS", 50_000)
    mechanism, shares = collected(0.75, num_cohorts=32), figure_6.homepages()
    for quick in (True, False):
        context = Context(EXPERIMENTS["rappor-figure-6"], quick=quick)
        (drawn,) = figure_6._collections(context, mechanism, shares, [context.rng(1)], "")
        assert drawn.counts.num_reports == drawn.held.sum() == 50_000
        assert drawn.held[figure_6.HEAVY_HOMEPAGES : figure_6.HOMEPAGES].sum() == 0
