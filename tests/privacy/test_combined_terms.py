"""What combinations cost: of several mechanisms, no less than the one used."""

import math

import pytest

from overstory.privacy.ledger import Account, Ledger, charge
from overstory.privacy.payloads.combined import terms_of_several
from overstory.privacy.terms import terms_from_json, terms_of
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.kinds.split import divided
from overstory.protocol.numeric.ranges import RangeRandomizer


@pytest.mark.parametrize("parts", [[], [{"kind": "several"}], [{"kind": "symbols"}] * 2, [{"kind": "none"}] * 2])
def test_damaged_terms_are_refused(parts):
    with pytest.raises((FormatError, ParameterError)):
        terms_from_json({"kind": "several", "parts": parts, "most_values": 6})


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
