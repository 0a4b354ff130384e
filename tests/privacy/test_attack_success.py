"""What the best attacker achieves: in closed form, against every outcome of real samplers, and against real devices."""

import json
import math
from collections import Counter
from fractions import Fraction

import pytest
from test_any_histories import CASES, values_of

from overstory.privacy import attack, statement
from overstory.privacy.payloads.base import CANDIDATES, percent
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import FAMILIES, mechanism
from support.referee_cases import apart_cohort
from support.referee_device import device


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
