"""What combinations cost: of several mechanisms, no less than the one used."""

import math

import pytest

from overstory.privacy.ledger import Account, Ledger, charge
from overstory.privacy.terms import terms_of
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.split import divided

TABLES = [("2 3 8", "0 1,0 2,1 2"), ("3 2 2", "0 1, 2"), ("4 5", "0,1"), ("6 6", "0 1")]


@pytest.mark.parametrize(("sizes", "tables"), TABLES)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("oracle", ["grr", "oue", "sue", "projective"])
def test_no_table_discloses_more_than_the_terms_of_all(oracle, epsilon, sizes, tables):
    built = divided(oracle=oracle, epsilon=epsilon, sizes=sizes, tables=tables)
    terms = terms_of(built)
    assert terms.epsilon_permanent == max(terms_of(part).epsilon_permanent for part in built.parts)
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
