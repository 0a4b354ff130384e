"""What combinations cost: linked reports the sum of their parts; of several mechanisms, no less than the one used."""

import json
import math
from collections import Counter
from itertools import product

import pytest

from overstory.privacy.attacks import linkability
from overstory.privacy.ledger import Account, Ledger, charge
from overstory.privacy.payloads.combined import LinkedTerms, terms_of_several
from overstory.privacy.terms import attack, terms_from_json, terms_of
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.joint import joint
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.kinds.split import divided
from overstory.protocol.numeric.ranges import RangeRandomizer

CHAIN = {"oracle": "l-grr", "domain_size": 3, "epsilon_permanent": 2.0, "epsilon_report": 1.0}
TWICE = {"oracle": "basic-rappor", "domain_size": 2, "f": 0.5, "p": 0.5, "q": 0.75}
FILTER = {"oracle": "rappor", "num_bits": 32, "num_cohorts": 8}
PAIR = joint(of=[CHAIN, TWICE])
FILTERS = joint(of=[FILTER, FILTER])
MANY = joint(of=[{"oracle": "l-grr", "domain_size": 100, "epsilon_permanent": 4, "epsilon_report": 0.5}] * 2)
ONCE = joint(of=[{"oracle": "grr", "domain_size": 3, "epsilon": 1.0}, TWICE])
FRESH = joint(of=[{"oracle": "wb", "domain_size": 3, "epsilon": 1.0, "window": 7}] * 2)


@pytest.mark.parametrize("built", [PAIR, FILTERS, ONCE, FRESH], ids=["pair", "filters", "once", "fresh"])
def test_every_epsilon_is_the_sum_of_the_parts(built):
    terms, parts = terms_of(built), [terms_of(part) for part in built.components]
    for reports in (1, 2, 5, 100):
        assert terms.epsilon_n(reports) == pytest.approx(sum(part.epsilon_n(reports) for part in parts), abs=1e-12)
        assert terms.epsilon_n(reports) == pytest.approx(built.epsilon_n(reports), abs=1e-12)
    assert terms.epsilon_permanent == pytest.approx(sum(part.epsilon_permanent for part in parts), abs=1e-12)
    assert terms.proves_changes is any(part.proves_changes for part in parts) is (built is ONCE)
    assert terms.epsilon_any(2) >= max(part.epsilon_any(2) for part in parts)
    assert terms.fresh == built.fresh == (built is FRESH)


@pytest.mark.parametrize("built", [PAIR, FILTERS, ONCE, FRESH], ids=["pair", "filters", "once", "fresh"])
def test_terms_survive_a_ledger(built):
    terms = terms_of(built)
    again = terms_from_json(json.loads(json.dumps(terms.canonical())))
    assert again == terms
    assert hash(again) == hash(terms)
    assert isinstance(again, LinkedTerms)


@pytest.mark.parametrize("kind", ["linked", "several"])
@pytest.mark.parametrize("parts", [[], [{"kind": "linked"}], [{"kind": "symbols"}] * 2, [{"kind": "none"}] * 2])
def test_damaged_terms_are_refused(kind, parts):
    with pytest.raises((FormatError, ParameterError)):
        terms_from_json({"kind": kind, "parts": parts, "most_values": 6})


def test_the_best_guess_of_a_pair_is_the_product_of_the_parts():
    whole, parts = attack(PAIR), [attack(part) for part in PAIR.components]
    assert whole.values == 6
    assert whole.report.guess == pytest.approx(math.prod(part.report.guess for part in parts))
    # By enumeration: one sixth of the sum over payloads of the largest likelihood.
    pairs, reports = list(product(range(3), range(2))), [Report(0, bits) for bits in range(PAIR.payload_limit)]
    most = [max(PAIR.likelihood(report, pair) for pair in pairs) for report in reports]
    assert float(sum(most)) / 6 == pytest.approx(whole.report.guess, abs=1e-9)


def test_what_reports_share_is_what_the_parts_share():
    """Entropies of independent parts add up; the shared cohort counts once."""
    pair, filters = linkability(PAIR), linkability(FILTERS)
    parts = [linkability(part) for part in PAIR.components]
    assert pair.likeness.beyond(3) == pytest.approx(sum(part.likeness.beyond(3) for part in parts))
    own = linkability(FILTERS.components[0])
    assert filters.always.bits == own.always.bits == 3
    assert filters.unchanged.bits == pytest.approx(2 * own.unchanged.bits - 3)
    once = linkability(ONCE)
    assert once.unchanged.bits == pytest.approx(linkability(ONCE.components[0]).unchanged.bits)


def ledger_of(built, pairs):
    reports = tuple(enumerate(Counter(pairs).values()))
    return Ledger((Account("trees", built.digest.hex(), terms_of(built), reports),))


def test_nothing_is_a_response_of_each_part():
    """Four pairs of two values each, and nothing: three responses of both parts."""
    terms = terms_of(joint(of=[{"oracle": "grr", "domain_size": 2, "epsilon": 1.0}] * 2))
    assert terms.epsilon_history({1: 5}) == pytest.approx(6.0, abs=1e-6)


def test_a_ledger_of_pairs_never_falls_and_never_passes_all_values_of_both_parts():
    ledgers = [ledger_of(PAIR, [(number % 3, number % 2) for number in range(count)]) for count in range(1, 40)]
    epsilons = [ledger.epsilon for ledger in ledgers]
    assert epsilons == sorted(epsilons)
    most = sum((part.most_values + 1) * part.epsilon_permanent for part in terms_of(PAIR).parts)  # and nothing
    assert epsilons[-1] <= most + 1e-9
    assert ledger_of(PAIR, [(0, 0)] * 9).epsilon == pytest.approx(terms_of(PAIR).epsilon_n(9), abs=1e-12)


TABLES = [("2 3 8", "0 1,0 2,1 2"), ("3 2 2", "0 1, 2"), ("4 5", "0,1"), ("6 6", "0 1")]


@pytest.mark.parametrize(("sizes", "tables"), TABLES)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("oracle", ["grr", "oue", "sue", "projective"])
def test_no_table_discloses_more_than_the_terms_of_all(oracle, epsilon, sizes, tables):
    built = divided(oracle=oracle, epsilon=epsilon, sizes=sizes, tables=tables)
    terms = terms_of(built)
    for part in map(terms_of, built.parts):
        assert terms.epsilon_n(1) >= part.epsilon_n(1)
        assert terms.epsilon_permanent >= part.epsilon_permanent
        assert terms.epsilon_any(3) >= part.epsilon_any(3)
        for values in (1, 2, 20, 1000):
            assert terms.epsilon_values(values) >= part.epsilon_values(values)
        for reports in (1, 5, 1000):
            assert charge("same-pattern", terms, reports) >= charge("same-pattern", part, reports)


def test_a_ledger_of_the_largest_table_is_what_its_responses_disclose():
    built = divided(oracle="grr", epsilon=0.5, sizes="2 3 8", tables="0 1,0 2,1 2")
    chances = [built.likelihood(Report(2, payload), 0) for payload in range(24)]
    one = math.log(max(chances) / min(chances))
    ledger = Ledger((Account("trees", built.digest.hex(), terms_of(built), tuple((n, 1) for n in range(20))),))
    assert 20 * one <= ledger.epsilon <= 20 * one + 1e-6


def test_one_mechanism_or_one_that_always_costs_most_has_its_own_terms():
    part = terms_of(mechanism("grr", domain_size=4, epsilon=1.0))
    assert terms_of_several([part, part]) is part
    assert type(terms_of(RangeRandomizer(100, 1.0))) is type(terms_of(mechanism("oue", domain_size=9, epsilon=1.0)))
