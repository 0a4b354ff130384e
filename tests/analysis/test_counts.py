"""Support counts refuse what no reports could give. (That they are a commutative monoid: tests/contract.)"""

import numpy as np
import pytest

from overstory.analysis.reports import SupportCounts
from overstory.protocol.errors import ParameterError


def test_arrays_are_copies_and_cannot_be_changed():
    ones = np.array([[1, 2]])
    counts = SupportCounts([3], ones)
    ones[0, 0] = 3
    assert counts.ones[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        counts.ones[0, 0] = 2


@pytest.mark.parametrize(
    ("totals", "ones", "says"),
    [
        ([3], [[4]], "cohort 0, bit 0: 4 ones in 3 reports"),
        ([3, 3], [[1, 1], [2, -1]], "cohort 1, bit 1: -1 ones"),
        ([3, 3], [[1]], "2 totals, but 1 rows"),
        ([[3]], [[1]], "totals must have 1 dimension"),
        ([3], [1], "ones must have 2 dimension"),
        ([3], [[0.5]], "whole numbers"),
        ([], np.zeros((0, 3), int), "a cohort and a bit"),
        (np.array([2**63], np.uint64), [[0]], "below"),
    ],
)
def test_impossible_counts_are_refused(totals, ones, says):
    with pytest.raises(ParameterError, match=says):
        SupportCounts(totals, ones)


def test_merging_other_shapes_is_refused():
    with pytest.raises(ParameterError, match="different collections"):
        SupportCounts.empty(2, 8) + SupportCounts.empty(2, 9)
    with pytest.raises(TypeError):
        SupportCounts.empty(2, 8) + 1
