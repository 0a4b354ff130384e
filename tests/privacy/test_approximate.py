"""(epsilon, delta) of fresh noise: against all outcomes of few reports in exact fractions, and drawn losses of many.

The enumeration knows a sampler's table and nothing else: delta is the sum over outcomes of what P exceeds e^epsilon Q
by. The drawn losses come from binomial counts of ones, and bound delta from both sides.
"""

import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from overstory.privacy import Account, Ledger, epsilon_at, statement, terms_of
from overstory.privacy.payloads.bits import BitTerms
from overstory.privacy.payloads.symbols import SymbolTerms
from overstory.protocol.channels import BinaryChannel
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from support.referee_cases import values_of
from support.referee_device import device

FALSE_ALARM = 1e-6
METER = mechanism("opt-wb", domain_size=100, epsilon=1.0, window=10)
SMALL = [
    ("wb", {"domain_size": 2, "epsilon": 2.0, "window": 2}),
    ("opt-wb", {"domain_size": 3, "epsilon": 3.0, "window": 3}),
    ("basic-rappor", {"domain_size": 3, "f": 0.0, "p": 0.75, "q": 0.25}),
    ("rappor", {"num_bits": 4, "num_hashes": 2, "num_cohorts": 1, "f": 0.0, "p": 0.375, "q": 0.5}),
]


def true_delta(law_of, first, second, odds):
    """The sum over outcomes of P - odds Q, where that is above 0; every report is drawn afresh."""
    rows = [[law_of(value) for value in history] for history in (first, second)]
    outputs = dict.fromkeys(report for row in rows for law in row for report in law)
    total = Fraction(0)
    for outcome in product(outputs, repeat=len(first)):
        one, other = (math.prod(law.get(seen, 0) for law, seen in zip(way, outcome, strict=True)) for way in rows)
        total += max(one - odds * other, 0)
    return total


@pytest.mark.parametrize(("name", "given"), SMALL, ids=lambda part: part if isinstance(part, str) else "")
@pytest.mark.parametrize("delta", [1e-3, 0.02, 0.3])
def test_no_two_histories_have_a_larger_delta_and_some_have_it(name, given, delta):
    built = mechanism(name, **given)
    values, law_of = values_of(built, 4), cache(device(built, 0).report_law)
    for reports in (1, 2) if built.encoding.num_bits > 2 else (1, 2, 3):
        epsilon = epsilon_at(terms_of(built), reports, delta)
        pairs = product(product(values, repeat=reports), repeat=2)
        some = [pair for pair in pairs if pair[0][0] in values[:2] and pair[0] == tuple(sorted(pair[0]))][:200]
        most, below = (
            max(true_delta(law_of, *pair, Fraction(math.exp(share * epsilon))) for pair in some) for share in (1, 0.99)
        )
        assert most <= Fraction(delta)
        assert below > Fraction(delta) or not epsilon


def test_a_device_with_less_noise_is_caught():
    built = mechanism("wb", domain_size=2, epsilon=2.0, window=2)
    real = built.rounds.instantaneous
    lazy = BinaryChannel.of(float(real.keep_one) + 0.01, float(real.raise_zero))
    broken = replace(built, rounds=replace(built.rounds, instantaneous=lazy))
    odds = Fraction(math.exp(epsilon_at(terms_of(built), 2, 0.2)))
    deltas = [true_delta(device(each, 0).report_law, [0, 0], [1, 1], odds) for each in (built, broken)]
    assert deltas[0] <= Fraction(0.2) < deltas[1]


def test_the_issues_figures():
    terms = terms_of(METER)
    assert [round(terms.epsilon_any(n), 2) for n in (10, 334, 1000)] == [1.0, 33.4, 100.0]
    assert [math.ceil(100 * epsilon_at(terms, n)) / 100 for n in (10, 334, 1000)] == [0.88, 6.54, 12.58]
    assert math.ceil(100 * epsilon_at(terms, 334, 1e-9)) / 100 == 8.17


def drawn(reports, count, chances=None):
    """How often delta's bound is met by losses drawn as counts of ones: the mean of (1 - e^(epsilon - loss))+."""
    rounds = METER.rounds.instantaneous
    q, p = chances or (float(rounds.keep_one), float(rounds.raise_zero))
    unit = math.log(float(rounds.keep_one) * (1 - float(rounds.raise_zero)))
    unit -= math.log(float(rounds.raise_zero) * (1 - float(rounds.keep_one)))
    source = random.Random(2026)
    epsilon = epsilon_at(terms_of(METER), reports, 0.01)
    tells = []
    for _ in range(count):
        ones = sum(source.random() < q for _ in range(reports)) - sum(source.random() < p for _ in range(reports))
        tells.append(max(0.0, 1 - math.exp(epsilon - unit * ones)))
    return tells


def interval(tells):
    """Bernstein's, both ways, for means of numbers in 0 .. 1."""
    count, mean = len(tells), math.fsum(tells) / len(tells)
    spread = math.fsum((tell - mean) ** 2 for tell in tells) / (count - 1)
    log = math.log(4 / FALSE_ALARM)
    width = math.sqrt(2 * spread * log / count) + 7 * log / (3 * (count - 1))
    return mean - width, mean + width


def test_drawn_losses_of_many_reports_bound_delta():
    low, high = interval(drawn(334, 6000))
    assert low <= 0.01 <= high
    rounds = METER.rounds.instantaneous
    less_noise = float(rounds.keep_one) + 0.04, float(rounds.raise_zero)
    assert interval(drawn(334, 6000, less_noise))[0] > 0.01


def test_it_falls_with_delta_rises_with_reports_and_is_never_above_the_pure_bound():
    terms = terms_of(METER)
    by_delta = [epsilon_at(terms, 50, delta) for delta in (1e-12, 1e-9, 1e-6, 1e-3, 0.1)]
    assert by_delta == sorted(by_delta, reverse=True)
    by_reports = [epsilon_at(terms, n, 1e-6) for n in (1, 2, 3, 10, 100, 1000, 10_000, 100_000, 10**6, 10**8)]
    assert by_reports == sorted(by_reports)
    assert all(epsilon_at(terms, n, 1e-300) <= terms.epsilon_any(n) for n in (1, 2, 50))
    assert epsilon_at(terms, 10**8) == terms.epsilon_any(10**8)
    assert epsilon_at(terms, 5, 0.99) == pytest.approx(0, abs=1e-9)


def test_memoized_responses_are_not_spared():
    terms = terms_of(mechanism("basic-rappor", domain_size=4))
    assert epsilon_at(terms, 30) == terms.epsilon_any(30)
    assert statement(mechanism("basic-rappor", domain_size=4)).to_json()["delta"] is None


def test_terms_without_one_worst_pair_are_bounded_by_a_coin_of_the_same_epsilon():
    symbols = SymbolTerms(4, 2**32, 2**31, 4)
    keep, other = 0.625, 0.125
    for reports, delta in ((1, 0.1), (3, 0.2)):
        chances, epsilon = {1: keep, -1: other, 0: 2 * other}, epsilon_at(symbols, reports, delta)
        true = 0.0
        for losses in product(chances, repeat=reports):
            loss = sum(losses) * math.log(keep / other)
            true += math.prod(chances[k] for k in losses) * max(0.0, 1 - math.exp(epsilon - loss))
        assert 0 < true <= delta
    assert epsilon_at(symbols, 200) < symbols.epsilon_any(200) * 0.9
    uneven = BitTerms((2**32, 0), (2**31, 2**30), ((1, 2), (2, 1)), ((0, 1, 2, 1),), None)
    assert epsilon_at(uneven, 100) < uneven.epsilon_any(100)
    certain = BitTerms((2**32, 0), (2**31, 0), ((1, 1),), ((0, 1, 1, 1),), 3)
    assert math.isinf(epsilon_at(certain, 2))


def test_what_is_no_delta():
    terms = terms_of(METER)
    for delta in (0, 1, -0.1, math.nan, "x", True):
        with pytest.raises(ParameterError, match="between 0 and 1"):
            epsilon_at(terms, 3, delta)
    with pytest.raises(ParameterError, match="at least 1"):
        epsilon_at(terms, 0)


def test_a_statement_has_it_in_the_same_line():
    said = statement(METER, reports=(1, 334), delta=1e-9)
    claim = next(claim for claim in said.claims if claim.about.endswith(": 334 reports"))
    assert claim.epsilon_words == "33.4 (8.17 at delta 1e-09)"
    assert claim.to_json()["epsilon_at_delta"] == said.epsilon_at_delta[334] == epsilon_at(said.terms, 334, 1e-9)
    assert "But for a chance of 1e-09" in said.plain_words()
    assert said.to_json()["delta"] == 1e-9


def test_a_ledger_shares_delta_among_what_is_fresh():
    energy, water = (Account(name, METER.digest.hex(), terms_of(METER), ((0, 334),)) for name in ("energy", "water"))
    ledger = Ledger((energy,))
    assert ledger.epsilon_at(1e-6) == epsilon_at(terms_of(METER), 334, 1e-6)
    ledger = Ledger((energy, water))
    assert ledger.epsilon_at(1e-6) == 2 * epsilon_at(terms_of(METER), 334, 5e-7) < ledger.epsilon_any
    colour = mechanism("basic-rappor", domain_size=4)
    both = Ledger((energy, water, Account("colour", colour.digest.hex(), terms_of(colour), ((0, 3),))))
    assert both.epsilon_at(1e-6) == pytest.approx(ledger.epsilon_at(1e-6) + terms_of(colour).epsilon_any(3))


@pytest.mark.parametrize("p", [0.02, 0.016, 0.0125, 0.01, 0.001])
@pytest.mark.parametrize("reports", [1, 3])
def test_a_nearly_certain_report_costs_no_less_than_its_worst_outcome(p, reports):
    """Filters whose positions coincide: the two differ in more zeros than ones, and a report is nearly the filter."""
    filters = {"num_bits": 8, "num_hashes": 5, "num_cohorts": 1, "hash_family": "google-rappor-python"}
    built = mechanism("rappor", **filters, f=0.0, p=p, q=1 - p)
    terms = terms_of(built)
    one, zero = (Fraction(threshold, 1 << 32) for threshold in terms.instantaneous)
    statement(built)
    for less in (0.003, 0.03, 0.3):
        epsilon = terms.epsilon_any(reports) - less
        # Every bit of every report is as the first filter has it.
        worst = max(
            float((one**lowered * (1 - zero) ** raised) ** reports)
            * -math.expm1(
                epsilon - reports * (lowered * math.log(one / zero) + raised * math.log((1 - zero) / (1 - one)))
            )
            for lowered, raised in terms.differences
        )
        assert epsilon_at(terms, reports, worst * (1 - 1e-9)) >= epsilon
