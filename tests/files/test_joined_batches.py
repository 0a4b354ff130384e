"""Small batches are counted together."""

from functools import partial

import numpy as np
import pytest

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.files.blocks import joined
from overstory.files.reports import sum_reports


@pytest.mark.parametrize("sizes", [[1] * 50, [3, 0, 500, 1, 1], [], [0], [400, 400, 1]])
def test_small_batches_are_counted_together_and_no_report_is_lost(sizes, monkeypatch):
    monkeypatch.setattr("overstory.files.reports.joined", partial(joined, enough=320))
    drawn = np.random.default_rng(5)
    batches = [
        ReportBatch(drawn.integers(0, 3, n).astype(np.uint16), drawn.integers(0, 1 << 12, (n, 1), np.uint64), 12, 3)
        for n in sizes
    ]
    parts = list(joined(batches, enough=320))
    assert sum(map(len, parts)) == sum(sizes)
    assert all(len(part) >= 40 for part in parts[:-1])
    expected = sum((batch.accumulate() for batch in batches), SupportCounts.empty(3, 12))
    assert sum_reports(batches, 3, 12) == expected
