"""What a search finds: recall on a fixed seed, broken searches that fail, few or no people, results that are read."""

import dataclasses

import numpy as np
import pytest

from overstory.analysis.selection import smallest_found
from overstory.discovery import CodedIntegers, CodedStrings, detectable_frequency, discover, find, simulate
from overstory.discovery.heavy_hitters import extend
from overstory.protocol.errors import ParameterError
from support.random_collections import with_shares, zipf

VALUES = zipf(200_000, 20_000, seed=1, bits=32)
DOMAIN = CodedIntegers(32)
EVEN = (8, 16, 24, 32)
TOP = 12


def searched(plan, values=VALUES, seed=2, **choices):
    return find(plan, simulate(plan, values, np.random.default_rng(seed)), **choices)


PRESENT, HELD = np.unique(VALUES, return_counts=True)
MOST = set(PRESENT[np.argsort(-HELD, kind="stable")[:TOP]].tolist())


def recall(found):
    """Of the most frequent twelve, the share that stands among the first twelve."""
    return len(MOST & set(found.raw_values[:TOP])) / TOP


def is_good(found):
    """The check: nearly all of the most frequent twelve, and hardly anything false."""
    detected = set(found.found())
    false = len(detected - set(PRESENT.tolist()))
    return recall(found) >= 0.8 and len(MOST & detected) / TOP >= 0.8 and false <= 0.25 * max(len(detected), 1)


@pytest.mark.parametrize(
    "plan",
    [
        discover(epsilon=4.0, domain=DOMAIN, levels=EVEN, beam=64),
        discover(epsilon=4.0, domain=DOMAIN, levels=(9, 17, 26, 32), beam=64),
        discover(epsilon=4.0, domain=DOMAIN, beam=64, step=11),
    ],
    ids=["even levels", "odd levels", "default"],
)
def test_the_most_frequent_are_found(plan):
    assert is_good(searched(plan))


@pytest.mark.parametrize(("beam", "shares"), [(1, None), (64, [1.0, 1.0, 1.0, 0.01])])
def test_a_beam_of_one_and_few_users_on_the_last_level_fail_the_check(beam, shares):
    plan = discover(epsilon=4.0, domain=DOMAIN, levels=EVEN, beam=beam)
    assert not is_good(searched(plan if shares is None else with_shares(plan, shares)))


def test_the_wrong_hash_fails_the_check():
    plan, other = (discover(epsilon=4.0, domain=DOMAIN, levels=EVEN, beam=64, key=key) for key in ("ours", "theirs"))
    found = find(other, simulate(plan, VALUES, np.random.default_rng(2)))
    assert not is_good(found)
    assert recall(found) == 0


def test_losing_the_best_fails_the_check(monkeypatch):
    def upside_down(question, batch, parents, keep, domain):
        kept = extend(question, batch, parents, 4 * keep, domain)
        return dataclasses.replace(kept, rows=kept.rows[keep:], supports=kept.supports[keep:], codes=kept.codes[keep:])

    monkeypatch.setattr("overstory.discovery.heavy_hitters.extend", upside_down)
    assert not is_good(searched(discover(epsilon=4.0, domain=DOMAIN, levels=EVEN, beam=64)))


def test_the_dictionary_comes_first_and_takes_no_place_in_the_beam():
    present, counts = np.unique(VALUES, return_counts=True)
    top = present[np.argsort(-counts)]
    known = [int(value) for value in top[:6]] + [int(value) ^ 1 for value in top[:6]]
    plan = discover(epsilon=4.0, domain=DOMAIN, known=known, beam=64, step=11)
    found = searched(plan)
    by_source = dict(zip(found.raw_values, found.sources, strict=True))
    assert all(by_source[value] == "dictionary" for value in known)
    assert set(known[:6]) <= set(found.found())
    assert len(set(known[6:]) & set(found.found())) <= 1
    later = {int(value) for value in top[6:10]}
    assert len(later & set(found.found())) >= 3
    assert all(by_source[value] == "search" for value in later & set(found.found()))
    truth = counts[np.argsort(-counts)][:6].sum() / len(VALUES)
    assert abs(found.known_frequency - truth) < 5 * found.known_standard_error
    assert "outside the dictionary" in " ".join(found.notes)


def test_text_is_found_with_its_length():
    words = [b"a", b"ab", "abé".encode(), b"abcdefgh", "né".encode()]
    values = [words[i % 5] for i in range(15_000)]
    found = searched(discover(epsilon=4.0, domain=CodedStrings(8), step=11, beam=24), values, correction="bonferroni")
    assert set(found.found()) == set(words)
    assert found.values[found.raw_values.index("abé".encode())] == "abé"


def test_the_longest_strings_and_the_empty_one():
    plan = discover(epsilon=8.0, domain=CodedStrings(32), beam=8)
    values = [bytes([65 + i % 26]) * 32 if i % 2 else b"" for i in range(2)] * 15_000
    assert set(searched(plan, values, correction="bonferroni").found()) == {b"B" * 32, b""}


def test_progress_is_told_and_rises():
    told = []
    plan = discover(epsilon=4.0, domain=CodedIntegers(16), levels=(8, 16), beam=4)
    reports = simulate(plan, range(1000), np.random.default_rng(1), progress=lambda _, done: told.append(done))
    find(plan, reports, progress=lambda what, done: told.append(1 + done) if "bits" in what else None)
    assert told == sorted(told)
    assert len(told) == 4


# --- nobody, one value, all different, a beam wider than the tree: never a guess ------------------------------------

PLANS = {
    "prefix": discover(epsilon=3.0, domain=CodedIntegers(16), levels=(8, 16), beam=16),
    "dictionary": discover(epsilon=3.0, domain=CodedIntegers(16), known=[1, 2], step=5, beam=16),
}
every_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


@every_plan
@pytest.mark.parametrize("nobody", [np.array([], np.uint64), []])
def test_nobody(plan, nobody):
    found = searched(plan, nobody)
    assert (len(found), found.found(), found.num_reports) == (0, (), 0)
    assert found.notes == ("there are no reports: nothing can be estimated",)
    assert found.to_json()["estimates"] == []
    assert found.table()


@every_plan
@pytest.mark.parametrize("num_devices", [1, 2, 5, 30])
def test_too_few_find_nothing_and_say_so(plan, num_devices):
    """Where thirty hold the same value, chance may let it be found, and no other."""
    found = searched(plan, np.full(num_devices, 77), 1, correction="bonferroni", alpha=1e-6)
    assert found.found() in (((),) if num_devices < 30 else ((), (77,)))
    assert found.num_reports == num_devices
    assert any("too few reports" in note or "even a value that everybody has" in note for note in found.notes)
    assert np.isfinite(found.counts).all()


def test_one_value_is_the_only_one_found_and_of_all_different_ones_none():
    found = searched(PLANS["prefix"], np.full(20_000, 77), correction="bonferroni")
    assert found.found() == (77,)
    low, high = found.confidence_interval(0.9999)
    assert low[0] < 20_000 < high[0]
    values = np.random.default_rng(4).permutation(1 << 16).astype(np.uint64)
    found = searched(PLANS["prefix"], values, 1, correction="bonferroni", alpha=1e-3)
    assert found.found() == ()
    assert found.detectable_frequency > 0.005


def test_a_beam_wider_than_the_tree_is_a_plain_oracle_and_a_full_one_says_so():
    plan = discover(epsilon=4.0, domain=CodedIntegers(4), levels=(2, 4), beam=1000)
    found = searched(plan, np.arange(40_000) % 16)
    assert len(found) == found.tried == len(found.found()) == 16
    assert [level.kept for level in found.levels] == [4, 16]
    assert "raise it" not in " ".join(found.notes)
    plan = discover(epsilon=6.0, domain=CodedIntegers(8), levels=(4, 8), beam=4)
    assert "raise it" in " ".join(searched(plan, np.arange(40_000) % 8).notes)


@pytest.mark.parametrize(
    ("values", "choices", "says"),
    [
        *((values, {}, "outside the domain") for values in (np.array([1 << 16]), [1 << 16], np.array([-1]))),
        (np.array([[1, 2]]), {}, r"must be a column, .* not an array of shape \(1, 2\)"),
        *(([1], {"alpha": alpha}, "between 0 and 1") for alpha in (0, 1, -1, 2)),
        ([1], {"correction": "none"}, "fdr or bonferroni"),
    ],
)
def test_values_outside_and_rules_that_are_none_are_refused(values, choices, says):
    with pytest.raises(ParameterError, match=says):
        searched(PLANS["prefix"], values, **choices)
    if "alpha" in choices:
        with pytest.raises(ParameterError, match=says):
            detectable_frequency(PLANS["prefix"], 1000, **choices)


def test_answers_that_fit_no_plan_are_refused():
    plan, other = (discover(epsilon=epsilon, domain=CodedIntegers(8), levels=(4, 8)) for epsilon in (2.0, 5.0))
    with pytest.raises(ParameterError, match="other questions than its plan asks"):
        find(plan, simulate(other, []))
    with pytest.raises(ParameterError, match="answers of 0 groups"):
        find(plan, ())


def test_what_cannot_be_seen_grows_with_privacy_and_shrinks_with_users():
    by_epsilon = [detectable_frequency(discover(epsilon=e), 10**6) for e in (1.0, 2.0, 4.0)]
    by_users = [detectable_frequency(discover(epsilon=2.0), n) for n in (10**5, 10**6, 10**7)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    assert by_users == sorted(by_users, reverse=True)
    assert by_users[0] / by_users[2] == pytest.approx(10, rel=0.01)
    assert detectable_frequency(discover(epsilon=0.1), 100) is None
    assert smallest_found([0.1], [float("inf")]) is None
    assert smallest_found([0.01], [0.001]) == pytest.approx(0.01128, abs=1e-5)


# --- results ------------------------------------------------------------------------------------------------------

FEW = zipf(40_000, 2000, 3, bits=20)
PLAN = discover(epsilon=4.0, domain=CodedIntegers(20), known=[int(FEW[0])], step=7, beam=16)
FOUND = searched(PLAN, FEW, 1)


def test_every_detected_value_passed_the_stated_threshold():
    is_searched = np.array([source == "search" for source in FOUND.sources])
    passed = FOUND.frequencies[is_searched & FOUND.detected()]
    assert passed.min() >= FOUND.threshold - 1e-12
    assert FOUND.frequencies[is_searched & ~FOUND.detected()].max() < FOUND.threshold


def test_the_trace_adds_up():
    assert sum(level.num_reports for level in FOUND.levels) < 40_000
    for level in FOUND.levels:
        assert level.kept <= level.tried
        assert level.cut > level.background or level.kept == level.tried
    assert FOUND.tried == FOUND.levels[-1].tried + 1
