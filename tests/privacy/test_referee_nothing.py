"""What cannot be reported is reported as nothing: that is one more value, and no number is below the truth with it."""

from __future__ import annotations

from typing import Any

import pytest
from referee_cases import of_case, truth_of
from referee_device import NOTHING
from test_referee import ALL, claims_of, faults, ids, of_size, truths_of


def check(case: tuple[str, dict[str, Any]], reports: int) -> None:
    one = of_case(*case)
    truth = truth_of(one, most=2, extra=(NOTHING,))
    assert [fault for fault in faults(claims_of(one, reports), truths_of(truth, reports)) if "below" in fault] == []


@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("case", of_size(3), ids=ids)
def test_what_cannot_be_reported_is_within_the_numbers(case: tuple[str, dict[str, Any]], reports: int) -> None:
    check(case, reports)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=ids)
def test_three_reports_with_one_of_nothing_are_within_the_numbers(case: tuple[str, dict[str, Any]]) -> None:
    check(case, 3)
