"""Nobody, one value, all different, a beam wider than the tree: honest results, never a guess."""

import numpy as np
import pytest

from overstory.analysis.selection import smallest_found
from overstory.discovery import (
    CodedIntegers,
    CodedStrings,
    detectable_frequency,
    discover,
    find,
    prefix_extension,
    simulate,
)
from overstory.protocol.errors import ParameterError

PLANS = {
    "prefix": prefix_extension(epsilon=3.0, domain=CodedIntegers(16), beam=16),
    "dictionary": discover(epsilon=3.0, domain=CodedIntegers(16), known=[1, 2], step=5, beam=16),
}


def run(plan, values, seed=1, **choices):
    return find(plan, simulate(plan, values, np.random.default_rng(seed)), **choices)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("nobody", [np.array([], np.uint64), []])
def test_nobody(plan, nobody):
    found = run(plan, nobody)
    assert (len(found), found.found(), found.num_reports) == (0, (), 0)
    assert found.notes == ("there are no reports: nothing can be estimated",)
    assert found.to_json()["estimates"] == []
    assert found.table()


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("num_devices", [1, 2, 5, 30])
def test_too_few_find_nothing_and_say_so(plan, num_devices):
    """Where thirty hold the same value, chance may let it be found, and no other."""
    found = run(plan, np.full(num_devices, 77), correction="bonferroni", alpha=1e-6)
    assert found.found() in (((),) if num_devices < 30 else ((), (77,)))
    assert found.num_reports == num_devices
    assert any("too few reports" in note or "even a value that everybody has" in note for note in found.notes)
    assert np.isfinite(found.counts).all()


def test_one_value_is_the_only_one_found():
    found = run(PLANS["prefix"], np.full(20_000, 77), correction="bonferroni")
    assert found.found() == (77,)
    low, high = found.confidence_interval(0.9999)
    assert low[0] < 20_000 < high[0]


def test_all_different_finds_nothing():
    values = np.random.default_rng(4).permutation(1 << 16).astype(np.uint64)
    found = run(PLANS["prefix"], values, correction="bonferroni", alpha=1e-3)
    assert found.found() == ()
    assert found.detectable_frequency > 0.005


def test_a_beam_wider_than_the_tree_is_a_plain_oracle():
    plan = prefix_extension(epsilon=4.0, domain=CodedIntegers(4), step=2, beam=1000)
    found = run(plan, np.arange(40_000) % 16)
    assert len(found) == found.tried == 16
    assert len(found.found()) == 16
    assert [level.kept for level in found.levels] == [4, 16]
    assert "raise it" not in " ".join(found.notes)


def test_a_full_beam_says_so():
    plan = prefix_extension(epsilon=6.0, domain=CodedIntegers(8), step=4, beam=4)
    found = run(plan, np.arange(40_000) % 8)
    assert "raise it" in " ".join(found.notes)


def test_one_level_is_enough():
    plan = prefix_extension(epsilon=4.0, domain=CodedIntegers(6), levels=(6,))
    assert len(plan.groups) == 1
    assert set(run(plan, np.arange(9000) % 3, correction="bonferroni").found()) == {0, 1, 2}


def test_the_longest_strings_and_the_empty_one():
    plan = discover(epsilon=8.0, domain=CodedStrings(32), beam=8)
    values = [bytes([65 + i % 26]) * 32 if i % 2 else b"" for i in range(2)] * 15_000
    found = run(plan, values, correction="bonferroni")
    assert set(found.found()) == {b"B" * 32, b""}


def test_a_value_outside_the_domain_is_refused():
    for values in (np.array([1 << 16]), [1 << 16], np.array([-1])):
        with pytest.raises(ParameterError, match="outside the domain"):
            run(PLANS["prefix"], values)
    with pytest.raises(ParameterError, match=r"must be a column, .* not an array of shape \(1, 2\)"):
        run(PLANS["prefix"], np.array([[1, 2]]))


@pytest.mark.parametrize("alpha", [0, 1, -1, 2])
def test_a_level_that_is_none_is_refused(alpha):
    with pytest.raises(ParameterError, match="between 0 and 1"):
        run(PLANS["prefix"], [1], alpha=alpha)
    with pytest.raises(ParameterError, match="between 0 and 1"):
        detectable_frequency(PLANS["prefix"], 1000, alpha=alpha)


def test_a_rule_that_is_none_is_refused():
    with pytest.raises(ParameterError, match="fdr or bonferroni"):
        run(PLANS["prefix"], [1], correction="none")


def test_what_cannot_be_seen_grows_with_privacy_and_shrinks_with_users():
    by_epsilon = [detectable_frequency(prefix_extension(epsilon=e), 10**6) for e in (1.0, 2.0, 4.0)]
    by_users = [detectable_frequency(prefix_extension(epsilon=2.0), n) for n in (10**5, 10**6, 10**7)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    assert by_users == sorted(by_users, reverse=True)
    assert by_users[0] / by_users[2] == pytest.approx(10, rel=0.01)
    assert detectable_frequency(prefix_extension(epsilon=0.1), 100) is None
    assert smallest_found([0.1], [float("inf")]) is None
