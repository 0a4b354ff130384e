"""The counting sort of reports is NumPy's stable sort."""

import numpy as np
import pytest

from overstory.analysis import reports
from overstory.analysis.reports import ReportBatch, group_by_cohort


@pytest.mark.parametrize("n", [0, 1, 1000])
@pytest.mark.parametrize(("words", "cohorts"), [(1, 1), (2, 16), (3, 700)])
@pytest.mark.parametrize("few", [True, False])
def test_it_is_a_stable_sort(n, words, cohorts, few, monkeypatch):
    drawn = np.random.default_rng(n + words)
    rows, column = drawn.integers(0, 1 << 63, (n, words), np.uint64), drawn.integers(0, cohorts, n).astype(np.uint16)
    monkeypatch.setattr(reports, "are_few", lambda _: few)
    grouped, offsets = group_by_cohort(rows, column, cohorts)
    assert (grouped.dtype, offsets.dtype) == (np.uint64, np.int64)
    assert np.array_equal(grouped, rows[np.argsort(column, kind="stable")])
    assert np.array_equal(np.diff(offsets), np.bincount(column, minlength=cohorts))


def test_a_cohort_too_large_is_refused():
    with pytest.raises(ValueError, match="below 3"):
        group_by_cohort(np.zeros((2, 1), np.uint64), np.array([0, 3], np.uint16), 3)


def test_sorted_reports_are_counted_as_unsorted_ones_are():
    drawn = np.random.default_rng(1)
    rows, column = drawn.integers(0, 1 << 63, (300_000, 2), np.uint64), drawn.integers(0, 9, 300_000).astype(np.uint16)
    grouped, offsets = group_by_cohort(rows, column, 9)
    in_order = np.repeat(np.arange(9, dtype=np.uint16), np.diff(offsets))
    assert ReportBatch(column, rows, 128, 9).accumulate() == ReportBatch(in_order, grouped, 128, 9).accumulate()
