"""What is claimed of reports that came through a relay: from recorded releases alone, never without delta and n."""

from __future__ import annotations

import math

import pytest

from overstory.privacy.shuffle.central import GROUPED, NO_REPORTS, ONE_BY_ONE, SEVERAL, ReleasedPeriods, shuffled
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism

GRR = mechanism("grr", domain_size=4, epsilon=1.0)
RAPPOR = mechanism("rappor", num_bits=16, num_hashes=2, num_cohorts=4, f=0.5, p=0.5, q=0.75)


@pytest.mark.parametrize("built", [GRR, RAPPOR], ids=["grr", "rappor"])
def test_the_claim_is_that_of_one_report_in_the_smallest_release(built):
    claim = ReleasedPeriods({1: 5_000, 2: 3_000, 3: 90_000}).claim(built)
    assert claim.privacy == shuffled(built, 3_000, 1e-9)
    assert claim.to_json() == claim.privacy.to_json() | {"reason": claim.reason}
    assert {"epsilon", "delta", "reports", "periods", "rests_on"} <= claim.to_json().keys()
    first, second, *rests_on = claim.sentences()
    assert "3,000 honest reports, 1 report of a person: epsilon" in first
    assert "at delta 1e-09" in first
    assert second.strip() == f"the smallest release of 3 periods had 3,000 messages, as the collector recorded{SEVERAL}"
    assert SEVERAL not in ReleasedPeriods({1: 5_000}).claim(built).reason
    assert [line.removeprefix("  rests on: ") for line in rests_on] == list(claim.privacy.rests_on)


@pytest.mark.parametrize(
    ("periods", "reason"),
    [
        (ReleasedPeriods({}), NO_REPORTS),
        (ReleasedPeriods({1: 5_000, 2: 0}), ONE_BY_ONE),
        (ReleasedPeriods({1: 5_000}, grouped=True), GROUPED),
        (ReleasedPeriods({1: 1}), "had 1 message: it hides nobody"),
        (ReleasedPeriods({1: 3}, honest=0.5), "had 3 messages, 1 of them honest: it hides nobody"),
    ],
)
def test_without_a_recorded_release_there_is_a_reason_and_no_number(periods, reason):
    claim = periods.claim(GRR)
    assert claim.privacy is None
    assert reason in claim.reason
    assert claim.to_json() == {"reason": claim.reason}
    (line,) = claim.sentences()
    assert "epsilon 0" not in line
    assert "delta" not in line


def test_delta_and_the_honest_share_can_be_chosen():
    chosen = ReleasedPeriods({1: 10_000}, delta=1e-6, honest=0.9).claim(GRR).privacy
    assert chosen == shuffled(GRR, 10_000, 1e-6, honest=0.9)
    assert chosen.reports == 9_000


def test_of_very_many_reports_the_default_delta_is_a_tenth_of_one_in_them():
    assert ReleasedPeriods({1: 10**9}).claim(GRR).privacy.delta == pytest.approx(1e-10)


@pytest.mark.parametrize(
    "wrong", [{"delta": 0.5}, {"delta": 0.0}, {"honest": 0.0}, {"honest": 1.5}, {"honest": math.nan}]
)
def test_a_number_out_of_range_is_refused(wrong):
    with pytest.raises(ParameterError):
        ReleasedPeriods({1: 10_000}, **wrong).claim(GRR)
