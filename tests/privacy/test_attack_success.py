"""What the best attacker achieves: in closed form, against every outcome of real samplers, and against real devices."""

import json
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import pytest
from scipy.stats import beta
from test_any_histories import CASES, values_of

from overstory.privacy import attack, statement
from overstory.privacy.attacks import posterior
from overstory.privacy.payloads.base import CANDIDATES, percent
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.metrics.mechanisms import FAMILIES
from overstory.protocol.sampling import SeededEntropy
from support.referee_cases import apart_cohort
from support.referee_device import device

FALSE_ALARM = 1e-6


def rows(built, *, unchanged):
    """P(report | value), of the response itself where any number of reports is seen, of each value there is."""
    real = device(built, apart_cohort(built))
    law = real.response_law if unchanged else real.report_law
    return [Counter(law(value)) for value in values_of(built, 1)]


def true_guess(found):
    return sum(max(row[report] for row in found) for report in {r for row in found for r in row}) / len(found)


def true_positives(found):
    """The most powerful test at 1% between the two values that are easiest to tell apart, report by report."""
    best = Fraction(0)
    for one in found:
        for other in found:
            left, power = Fraction(1, 100), Fraction(0)
            reports = [r for r in {*one, *other} if one[r]]
            for report in sorted(reports, key=lambda r: Fraction(other[r], 1) / one[r]):
                taken = min(left / other[report], 1) if other[report] else 1
                power, left = power + taken * one[report], left - taken * other[report]
            best = max(best, power) if one is not other else best
    return best


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{'-'.join(map(str, case[1].values()))}", scope="module")
def built(request):
    return mechanism(request.param[0], **request.param[1])


@pytest.mark.sampled(20)
@pytest.mark.parametrize("unchanged", [False, True])
def test_no_attacker_does_better_and_some_do_as_well(built, unchanged):
    found = rows(built, unchanged=unchanged)
    stated = attack(built, None if built.encoding.domain_size else len(found))
    success = stated.unchanged if unchanged else stated.report
    positives, guess = true_positives(found), true_guess(found)
    assert Fraction(success.true_positives) >= positives
    google = built.parameters.get("hash_family") == "google-rappor-python"  # whose filters need not be that different
    assert success.true_positives - float(positives) < 1e-9 or google
    assert Fraction(success.guess) >= guess
    assert success.guess - float(guess) < 1e-9 or not stated.exact


def test_a_device_with_less_noise_is_caught():
    built, less = (mechanism("grr", domain_size=3, epsilon=epsilon) for epsilon in (1.0, 1.05))
    found = rows(less, unchanged=False)
    assert true_guess(found) > Fraction(attack(built).report.guess)
    assert true_positives(found) > Fraction(attack(built).report.true_positives)


def clopper_pearson(right, tries):
    low = beta.ppf(FALSE_ALARM / 2, right, tries - right + 1) if right else 0.0
    return low, beta.ppf(1 - FALSE_ALARM / 2, right + 1, tries - right)


def guesses(built, sent, tries):
    """How often the likeliest value is the one that a real device holds, of reports drawn as devices draw them."""
    size = built.encoding.domain_size
    entropy, right = SeededEntropy(7), 0
    prior = dict.fromkeys(range(size), 1.0)
    believed = cache(lambda report: posterior(built, [report], prior))
    for turn in range(tries):
        value, cohort = turn % size, turn // size % built.num_cohorts
        permanent = sent.draw_permanent(value, cohort, entropy)
        beliefs = believed(Report(cohort, sent.instantaneous(permanent, entropy.bits)))
        top = max(beliefs.values())
        best = [v for v, belief in beliefs.items() if belief > top * (1 - 1e-9)]
        right += best[entropy.bits(16) % len(best)] == value
    return right


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("grr", {"domain_size": 5, "epsilon": 1.0}),
        ("oue", {"domain_size": 8, "epsilon": 2.0}),
        ("basic-rappor", {"domain_size": 6}),
        ("l-grr", {"domain_size": 4, "epsilon_permanent": 3.0, "epsilon_report": 2.0}),
        ("subset", {"domain_size": 6, "epsilon": 1.5}),
        ("dbitflip", {"domain_size": 8, "epsilon": 2.0, "sampled_bits": 3}),
        ("opt-wb", {"domain_size": 4, "epsilon": 9.0, "window": 3}),
    ],
)
def test_the_best_guess_on_real_reports(name, given):
    built, tries = mechanism(name, **given), 3000
    low, high = clopper_pearson(guesses(built, built, tries), tries)
    assert low <= attack(built).report.guess <= high


def test_guesses_on_a_device_with_less_noise_are_caught():
    built, less = (mechanism("grr", domain_size=5, epsilon=epsilon) for epsilon in (1.0, 1.5))
    assert clopper_pearson(guesses(built, less, 3000), 3000)[0] > attack(built).report.guess


def test_guesses_of_a_hash_are_below_the_bound():
    built = mechanism("olh", domain_size=8, epsilon=2.0)
    right = guesses(built, built, 3000)
    assert clopper_pearson(right, 3000)[0] <= attack(built).report.guess
    assert not attack(built).exact


@pytest.mark.sampled(12)
def test_every_success_is_within_what_epsilon_allows(built):
    stated = attack(built)
    for success, epsilon in ((stated.report, built.epsilon_report), (stated.unchanged, built.epsilon_permanent)):
        odds = math.exp(min(epsilon, 700))
        assert stated.prior <= success.guess <= min(1, odds / (odds + stated.values - 1)) * (1 + 1e-9)
        assert 0.01 <= success.true_positives <= min(0.01 * odds, 1 - 0.99 / odds) * (1 + 1e-9)


def test_numbers_and_ranges_are_bounded():
    for name, maker in {**FAMILIES["numbers"].builders, **FAMILIES["ordered"].builders}.items():
        given = {"domain_size": 16, "epsilon": 1.0} if name == "ranges" else {"epsilon": 1.0, "resolution": 4}
        stated = attack(maker(**given))
        assert not stated.exact
        assert 1 / stated.values < stated.report.guess < 1
        assert 0.01 < stated.report.true_positives <= 0.0271829


def test_it_is_in_the_statement():
    said = statement(mechanism("grr", domain_size=4, epsilon=1.0))
    read = json.loads(json.dumps(said.to_json()))["attack"]
    assert read == said.attack.to_json()
    assert (read["prior"], read["values"], read["exact"]) == (0.25, 4, True)
    assert {"guess", "true_positives_at_1_percent", "unchanged"} <= set(read)
    assert "right in 25.00% of cases without a report, in 47.54% with one" in said.plain_words()
    assert "in at most" in statement(mechanism("rappor")).plain_words()
    assert attack(mechanism("rappor")).values == CANDIDATES
    fresh = attack(mechanism("wb", domain_size=4, epsilon=1.0, window=3))
    assert fresh.unchanged.guess == fresh.unchanged.true_positives == 1


def test_percent_is_rounded_up():
    assert [percent(share) for share in (0.005, 0.00123401, 0.0)] == ["0.5%", "0.124%", "0%"]
    assert [percent(share) for share in (0.25, 0.2500001, 1.0, 1 / 3, 0.1)] == [
        "25.00%",
        "25.01%",
        "100.00%",
        "33.34%",
        "10.00%",
    ]


def test_what_cannot_be_attacked():
    with pytest.raises(ParameterError, match="at least 2"):
        attack(mechanism("rappor"), 1)
    with pytest.raises(ParameterError, match="nothing is known"):
        attack(object())
