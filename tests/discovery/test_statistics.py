"""Unbiased counts, honest errors, exact p-values, a false discovery rate that holds; and that each can fail."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2

from overstory.analysis.selection import adjusted_p_values
from overstory.discovery import AlphabetStrings, CodedDomain, CodedIntegers, CodedStrings, discover, find, simulate
from overstory.discovery.heavy_hitters import (
    counted_from,
    counts_of,
    ended_strings,
    exact_p_values,
    needed_support,
    search,
)
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from support.random_collections import with_shares, zipf

FALSE_ALARM = 1e-6  # of each test here
HOLDERS, DEVICES = 1500, 6000
VALUES = np.r_[np.full(HOLDERS, 9), np.arange(DEVICES - HOLDERS) % 200 + 20].astype(np.uint64)


def repeated(plan, runs):
    """Counts and standard errors of the value 9, over runs."""
    pairs = []
    for seed in range(runs):
        found = find(plan, simulate(plan, VALUES, np.random.default_rng(seed)))
        place = found.raw_values.index(9)
        pairs.append((found.counts[place], found.standard_errors[place]))
    return np.array(pairs).T


def is_calibrated_z(z):
    """The check: means of 0, squares of 1."""
    z = np.asarray(z)
    spread = chi2.cdf((z**2).sum(), z.size)
    return abs(z.mean()) * math.sqrt(z.size) < 4.9 and FALSE_ALARM < spread < 1 - FALSE_ALARM


def test_counts_are_unbiased_and_their_errors_right():
    counts, errors = repeated(discover(epsilon=3.0, domain=CodedIntegers(8), levels=(3, 8)), 200)
    z = (counts - HOLDERS) / errors
    assert is_calibrated_z(z)
    assert binomtest(int((abs(z) < 1.96).sum()), 200, 0.95).pvalue > FALSE_ALARM


def test_errors_that_forget_the_sampling_fail_the_same_check():
    plan = with_shares(discover(epsilon=4.0, domain=CodedIntegers(8), levels=(3, 8)), [10, 1])
    counts, errors = repeated(plan, 400)
    assert is_calibrated_z((counts - HOLDERS) / errors)
    group = DEVICES / 11
    support = group * (0.25 * float(plan.mechanism.p_star) + 0.75 * float(plan.mechanism.q_star))
    noise_alone = counts_of(plan.mechanism, np.array([support]), round(group), round(group))[1][0] * 11
    z = (counts - HOLDERS) / noise_alone
    assert chi2.cdf((z**2).sum(), 400) > 1 - FALSE_ALARM


def test_p_values_are_the_binomial_tail():
    one = mechanism("olh", epsilon=3.0)
    q_star = float(one.q_star)
    for size in (100, 512, 513, 5000):  # the few are summed in whole numbers
        supports = np.array([0, 1, 5, 40, size - 1, size])
        assert np.allclose(exact_p_values(one, supports, size), binom.sf(supports - 1, size, q_star), rtol=1e-9)
        assert exact_p_values(one, np.array([size + 1]), size)[0] == 0
        needed = needed_support(one, size, 1e-3)
        assert binom.sf(needed - 1, size, q_star) <= 1e-3 < binom.sf(needed - 2, size, q_star)


def test_few_false_ones_are_found_and_more_where_only_what_was_kept_is_counted():
    """Broken on purpose: the last beam is tested as if it had been all that was tried."""
    values, plan = (
        zipf(60_000, 3000, 5, bits=24),
        discover(epsilon=4.0, domain=CodedIntegers(24), levels=(8, 16, 24), beam=32),
    )
    false, found = np.zeros(2, int), np.zeros(2, int)
    for seed in range(12):
        result = find(plan, simulate(plan, values, np.random.default_rng(seed)))
        absent = ~np.isin(np.array(result.raw_values), values)
        for way, chosen in enumerate(
            (result.detected(), adjusted_p_values(result.p_values, "fdr", tested=len(result)) <= 0.05)
        ):
            false[way] += (chosen & absent).sum()
            found[way] += chosen.sum()
    assert found[0] > 60
    sound, broken = (binomtest(*map(int, pair), 0.05, alternative="greater") for pair in zip(false, found, strict=True))
    assert broken.pvalue < 1e-4 < sound.pvalue


def test_the_dictionarys_mass_is_unbiased():
    plan = discover(epsilon=3.0, domain=CodedIntegers(8), known=[9, 250], step=4, beam=8)
    z = []
    for seed in range(100):
        found = find(plan, simulate(plan, VALUES, np.random.default_rng(seed)))
        z.append((found.known_frequency - HOLDERS / DEVICES) / found.known_standard_error)
    assert is_calibrated_z(z)


# --- strings that end early ---------------------------------------------------------------------------------------

LETTERS = AlphabetStrings(6, "abc")
NULL_PLAN = discover(epsilon=2.0, domain=LETTERS, levels=(6, 10, LETTERS.width), beam=8)
NOBODYS = ["cccccc"] * 2500  # nobody holds a string that ends before the last level


def null_p_values(shift):
    """Of strings that nobody holds: counted from `shift` levels after the one that chose them."""
    p_values = []
    for seed in range(60):
        reports = simulate(NULL_PLAN, NOBODYS, np.random.default_rng(seed))
        steps, _ = search(NULL_PLAN, reports, 64)
        for place, step in enumerate(steps):
            if codes := [code for code in step.codes if code is not None]:
                supports, num_reports = counted_from(NULL_PLAN, reports, place + shift, codes)
                p_values.append(exact_p_values(NULL_PLAN.mechanism, supports, num_reports))
    return np.concatenate(p_values)


def is_calibrated(p_values):
    """The check: no level is passed more often than it says."""
    assert p_values.size > 150
    counts = [(int((p_values <= level).sum()), level) for level in (0.5, 0.2, 0.05, 0.01)]
    return all(
        binomtest(many, p_values.size, level, alternative="greater").pvalue > FALSE_ALARM for many, level in counts
    )


@pytest.mark.slow
def test_p_values_of_strings_that_nobody_holds_are_calibrated():
    p_values = null_p_values(1)
    assert is_calibrated(p_values)
    assert 0.25 < (p_values <= 0.5).mean() < 0.6  # and not by being useless


@pytest.mark.slow
def test_counting_the_level_that_chose_them_fails_the_same_check():
    assert not is_calibrated(null_p_values(0))


def test_what_is_tested_is_what_all_later_levels_counted():
    plan = discover(epsilon=2.0, domain=LETTERS, levels=(6, 10, 14), beam=64)
    reports = simulate(plan, ["a"] * 3000 + ["cccccc"] * 3000, np.random.default_rng(1))
    steps, _ = search(plan, reports, 64)
    for place, ended in enumerate(ended_strings(plan, reports, steps)):
        assert ended.num_reports == sum(map(len, reports[place + 1 :]))
        assert ended.tried == steps[place].level.kept
    assert LETTERS.code("a") in steps[0].codes
    assert steps[0].level.ended == sum(code is not None for code in steps[0].codes) > 0


@pytest.mark.slow
def test_counts_of_short_and_long_strings_are_unbiased_and_their_errors_right():
    """The short string by all later levels, the long one by the last: each with errors that are its own."""
    values = ["b"] * 1500 + ["cabcab"] * 1500 + ["aa", "cb", "abcabc"] * 1000
    plan = discover(epsilon=3.0, domain=LETTERS, levels=(LETTERS.width // 2 + 1, LETTERS.width), beam=64)
    z = []
    for seed in range(60):
        found = find(plan, simulate(plan, values, np.random.default_rng(seed)))
        places = [found.raw_values.index(value) for value in (b"b", b"cabcab")]
        z.append([(found.counts[place] - 1500) / found.standard_errors[place] for place in places])
    assert is_calibrated_z(np.array(z).ravel())


class LateStrings(CodedStrings):
    """Texts whose ends only complete codes show."""

    only = CodedDomain.only


def test_ending_early_is_worth_users():
    """The same strings, once with and once without ends that show: the standard error of a short one falls."""
    values = ["oak"] * 6000 + ["maple-syrup"] * 6000 + [f"rare{i}" for i in range(8000)]
    errors = []
    for strings in (CodedStrings, LateStrings):
        plan = discover(epsilon=4.0, domain=strings(14), step=11, beam=24)
        found = find(plan, simulate(plan, values, np.random.default_rng(3)), correction="bonferroni")
        assert {b"oak", b"maple-syrup"} <= set(found.found())
        errors.append(found.standard_errors[found.raw_values.index(b"oak")])
        assert (sum(level.ended for level in found.levels) > 0) == (strings is CodedStrings)
    assert errors[0] < 0.6 * errors[1]


def test_strings_that_all_end_early_need_no_last_level():
    plan = discover(epsilon=4.0, domain=AlphabetStrings(3, "ab"), levels=(5, 7), beam=64)
    values = ["a"] * 2000 + ["b"] * 1000
    found = find(plan, simulate(plan, values, np.random.default_rng(1)), correction="bonferroni")
    assert set(found.found()) == {b"a", b"b"}


def test_a_string_without_a_code_is_elsewhere_and_counted_as_such():
    values = ["oak"] * 4000 + ["O"] * 3000 + ["far too long for it"] * 3000
    z = []
    for known, seed in (((), 1), (("oak", "elm"), 2), ((), 3), (("elm",), 4)):
        plan = discover(epsilon=3.0, domain=AlphabetStrings(8, "aekmlo"), known=known, step=9, beam=16)
        found = find(plan, simulate(plan, values, np.random.default_rng(seed)), correction="bonferroni")
        assert found.found() == (b"oak",)
        z.append((found.elsewhere_frequency - 0.6) / found.elsewhere_standard_error)
        assert any("of the users hold a value that has no code here" in note for note in found.notes)
        assert found.to_json()["elsewhere_frequency"] == found.elsewhere_frequency
    assert max(map(abs, z)) < 5
    bits = discover(epsilon=3.0, domain=AlphabetStrings(8, "aekmlo"), step=9, beam=16)
    plain = find(bits, simulate(bits, ["oak"] * 4000, np.random.default_rng(1)))
    assert abs(plain.elsewhere_frequency) < 5 * plain.elsewhere_standard_error
    assert not any("no code" in note for note in plain.notes)


def test_a_value_of_the_wrong_kind_is_still_refused():
    plan = discover(epsilon=3.0, domain=AlphabetStrings(8, "aekmlo"))
    with pytest.raises(ParameterError, match="is no string"):
        simulate(plan, ["oak", 7], 1)
