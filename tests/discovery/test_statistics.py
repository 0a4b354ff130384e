"""Unbiased counts, honest errors, exact p-values, a false discovery rate that holds; and that each can fail."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2

from overstory.discovery import CodedIntegers, discover, find, prefix_extension, simulate
from overstory.discovery.prefixes import adjusted, counts_of, exact_p_values, needed_support
from overstory.discovery.simulation import respond, support_counts
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.search.plans import thresholds
from support.populations import zipf

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


@pytest.mark.parametrize("oracle", ["linear-hash", "grr"])
def test_counts_are_unbiased_and_their_errors_right(oracle):
    counts, errors = repeated(prefix_extension(epsilon=3.0, domain=CodedIntegers(8), levels=(3, 8), oracle=oracle), 200)
    z = (counts - HOLDERS) / errors
    assert abs(z.mean()) * math.sqrt(200) < 4.9
    assert FALSE_ALARM < chi2.cdf((z**2).sum(), 200) < 1 - FALSE_ALARM
    inside = int((abs(z) < 1.96).sum())
    assert binomtest(inside, 200, 0.95).pvalue > FALSE_ALARM


def test_errors_that_forget_the_sampling_fail_the_same_check():
    plan = prefix_extension(epsilon=8.0, domain=CodedIntegers(8), levels=(3, 8), oracle="grr", shares=[10, 1])
    counts, errors = repeated(plan, 200)
    z = (counts - HOLDERS) / errors
    assert FALSE_ALARM < chi2.cdf((z**2).sum(), 200) < 1 - FALSE_ALARM
    mechanism = plan.levels[-1].mechanism
    group = DEVICES / 11
    support = group * (0.25 * float(mechanism.p_star) + 0.75 * float(mechanism.q_star))
    noise_alone = counts_of(mechanism, np.array([support]), round(group), round(group))[1][0] * 11
    z = (counts - HOLDERS) / noise_alone
    assert chi2.cdf((z**2).sum(), 200) > 1 - FALSE_ALARM


@pytest.mark.parametrize("name", ["linear-hash", "grr"])
def test_p_values_of_absent_values_are_uniform(name):
    plan = prefix_extension(epsilon=2.0, domain=CodedIntegers(16), levels=(16,), oracle=name)
    question, small = plan.levels[0], []
    for seed in range(40):
        held = [question.value(code) for code in (7, 8)]
        batch = respond(question.mechanism, held, np.arange(500) % 2, bytes([seed]) * 32)
        absent = [question.value(code) for code in range(100, 150)]
        p_values = exact_p_values(question.mechanism, support_counts(question.mechanism, batch, absent), 500)
        small.append(p_values)
    p_values = np.concatenate(small)
    for level in (0.5, 0.1, 0.01):
        size = sum(binom.sf(c - 1, 500, float(question.mechanism.q_star)) <= level for c in range(502))
        exact = binom.sf(501 - size, 500, float(question.mechanism.q_star))
        below = int((p_values <= level).sum())
        assert exact <= level
        # 50 values of one batch are nearly, not quite, independent: double the standard error
        assert abs(below - 2000 * exact) < 2 * 4.9 * math.sqrt(2000 * exact) + 1


def test_p_values_are_the_binomial_tail():
    one = mechanism("olh", epsilon=3.0)
    supports = np.array([0, 1, 5, 40, 100])
    expected = binom.sf(supports - 1, 100, float(one.q_star))
    assert np.allclose(exact_p_values(one, supports, 100), expected, rtol=1e-9)
    assert exact_p_values(one, np.array([101]), 100)[0] == 0
    needed = needed_support(one, 100, 1e-3)
    assert binom.sf(needed - 1, 100, float(one.q_star)) <= 1e-3 < binom.sf(needed - 2, 100, float(one.q_star))


def test_few_false_ones_are_found_and_more_where_only_what_was_kept_is_counted():
    """Broken on purpose: the last beam is tested as if it had been all that was tried."""
    values, plan = zipf(60_000, 3000, 5, bits=24), prefix_extension(epsilon=4.0, domain=CodedIntegers(24), beam=32)
    false, found = np.zeros(2, int), np.zeros(2, int)
    for seed in range(12):
        result = find(plan, simulate(plan, values, np.random.default_rng(seed)))
        absent = ~np.isin(np.array(result.raw_values), values)
        for way, chosen in enumerate((result.detected(), adjusted(result.p_values, len(result), "fdr") <= 0.05)):
            false[way] += (chosen & absent).sum()
            found[way] += chosen.sum()
    assert found[0] > 60
    sound, broken = (binomtest(*map(int, pair), 0.05, alternative="greater") for pair in zip(false, found, strict=True))
    assert broken.pvalue < 1e-4 < sound.pvalue


def test_groups_are_filled_by_their_shares():
    plan = prefix_extension(epsilon=1.0, domain=CodedIntegers(16), shares=[3, 1])
    reports = simulate(plan, np.zeros(40_000, np.uint64), np.random.default_rng(1))
    assert binomtest(len(reports[0][0]), 40_000, 0.75).pvalue > FALSE_ALARM
    assert thresholds([3, 1])[0] == 3 << 30


def test_the_dictionarys_mass_is_unbiased():
    plan = discover(epsilon=3.0, domain=CodedIntegers(8), known=[9, 250], step=4, beam=8)
    z = []
    for seed in range(100):
        found = find(plan, simulate(plan, VALUES, np.random.default_rng(seed)))
        z.append((found.known_frequency - HOLDERS / DEVICES) / found.known_standard_error)
    assert abs(np.mean(z)) * 10 < 4.9
    assert FALSE_ALARM < chi2.cdf(float((np.array(z) ** 2).sum()), 100) < 1 - FALSE_ALARM
