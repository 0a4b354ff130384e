"""The ledger: no report is free, and what is read back is what was written."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.privacy import Account, Ledger, terms_of
from overstory.privacy.terms import add_up, terms_from_json
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds import bits, sets, symbols

CHAIN = symbols.l_grr(domain_size=3, epsilon_permanent=2.0, epsilon_report=1.0)
MECHANISMS = {
    "bits": bits.opt_dr(domain_size=5, epsilon_permanent=2.0),
    "symbols": CHAIN,
    "sets": sets.subset(domain_size=5, epsilon=1.0),
    "fresh": bits.opt_wb(domain_size=5, epsilon=1.0, window=3),
    "strings": bits.rappor(),
}


def account(built, *reports, metric="m"):
    return Account(metric, built.digest.hex(), terms_of(built), tuple(enumerate(reports)))


@settings(max_examples=50)
@given(st.sampled_from(sorted(MECHANISMS)), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 4))
def test_no_report_is_free_and_the_numbers_do_not_matter(kind, reports, which):
    built, more = MECHANISMS[kind], [*reports, 0]
    more[min(which, len(reports))] += 1
    one, other = account(built, *reports), account(built, *filter(None, more))
    assert other.epsilon_any >= one.epsilon_any > 0
    assert account(built, *reversed(reports)).epsilon_any == one.epsilon_any


def test_a_sum_is_exact_and_then_rounded_up():
    assert add_up([(3, 0.1)]) > 0.3
    assert add_up([(1, 0.1)]) == 0.1
    assert add_up([(10**400, 0.1)]) == math.inf


def test_an_account_comes_once():
    with pytest.raises(ParameterError, match="comes twice"):
        Ledger((account(CHAIN, 1),) * 2)


WRONG_KEYS = [{"kind": "words"}, {"kind": "bits"}, {"kind": None}, {"shapes": []}, {"differences": []}]
WRONG_KEYS += [{"most_values": 0}, {"permanent": "many"}, {"permanent": [-1, 2**33]}]


@pytest.mark.parametrize("wrong", [None, [], *WRONG_KEYS])
def test_wrong_terms_are_one_clear_error(wrong):
    read = terms_of(MECHANISMS["bits"]).canonical()
    assert terms_from_json(read) == terms_of(MECHANISMS["bits"])
    with pytest.raises(FormatError):
        terms_from_json(read | wrong if isinstance(wrong, dict) and wrong != {"kind": "bits"} else wrong)
