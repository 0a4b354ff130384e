"""What cannot be reported is reported as nothing: that is one more value, and no number is below the truth with it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from test_referee import ALL, claims_of, faults, ids, of_size, truths_of

from overstory.privacy import terms_of
from overstory.privacy.histories import pairs
from overstory.privacy.terms import Terms
from support.referee_cases import of_case, truth_of
from support.referee_device import NOTHING, Truth


def check(case: tuple[str, dict[str, Any]], reports: int) -> None:
    one = of_case(*case)
    truth = truth_of(one, most=2, extra=(NOTHING,))
    assert [fault for fault in faults(claims_of(one, reports), truths_of(truth, reports)) if "below" in fault] == []


@pytest.mark.sampled(20)
@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("case", of_size(3), ids=ids)
def test_what_cannot_be_reported_is_within_the_numbers(case: tuple[str, dict[str, Any]], reports: int) -> None:
    check(case, reports)


@pytest.mark.sampled(20)
@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=ids)
def test_three_reports_with_one_of_nothing_are_within_the_numbers(case: tuple[str, dict[str, Any]]) -> None:
    check(case, 3)


def leaks(terms: Terms, truth: Truth, reports: int = 2) -> bool:
    """Whether the leak of a change is the true one, that to and from nothing included."""
    true, stated = truth.change(reports), Decimal(terms.change_leak(reports))
    return true <= stated <= true + Decimal("1e-9")


L_SOUE = {"domain_size": 3, "epsilon_permanent": 2.0, "epsilon_report": 1.0}


def test_a_leak_of_values_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    terms, truth = terms_of(of_case("l-soue", L_SOUE)), truth_of(of_case("l-soue", L_SOUE))
    assert leaks(terms, truth)
    monkeypatch.setattr(pairs, "with_nothing", lambda shapes: shapes)
    pairs.bits_change.cache_clear()
    try:
        assert not leaks(terms, truth)
    finally:
        pairs.bits_change.cache_clear()


NOISE = [{"f": 0.5, "p": 0.5, "q": 0.75}, {"f": 0.75, "p": 0.1, "q": 0.5}, {"f": 0.25, "p": 0.05, "q": 0.1}]
FILTERS = [
    {"num_bits": 4, "num_hashes": 3},  # crowded: nothing is a filter as any
    {"num_bits": 3, "num_hashes": 2},
    {"num_bits": 5, "num_hashes": 2},
    {"num_bits": 5, "num_hashes": 1},
    {"num_bits": 3, "num_hashes": 2, "hash_family": "google-rappor-python"},
]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("noise", NOISE, ids=str)
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_change_of_a_filter_to_or_from_nothing(filters: dict[str, Any], noise: dict[str, float]) -> None:
    one = of_case("rappor", filters | {"num_cohorts": 2} | noise)
    truth = truth_of(one, most=30)
    assert leaks(terms_of(one), truth)
    assert leaks(terms_of(one), truth, 3)


SMALL = [("l-soue", {"domain_size": d, "epsilon_permanent": 2.0, "epsilon_report": 1.0}) for d in (2, 4)]
SMALL += [("dbitflip", {"domain_size": d, "sampled_bits": d - 1, "epsilon": 1.0}) for d in (2, 3)]
SMALL += [
    ("loloha", {"domain_size": 4, "hash_range": r, "epsilon_permanent": 2.0, "epsilon_report": 1.0}) for r in (2, 3)
]
SMALL += [("l-grr", {"domain_size": d, "epsilon_permanent": 4.0, "epsilon_report": 0.5}) for d in (2, 4)]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("reports", [2, 3])
@pytest.mark.parametrize("case", SMALL, ids=ids)
def test_a_change_to_or_from_nothing_of_bits_and_symbols(case: tuple[str, dict[str, Any]], reports: int) -> None:
    one = of_case(*case)
    assert leaks(terms_of(one), truth_of(one), reports)
