"""Where a paper claims more than it proves, the statement says so, beside the number, with figures that are right."""

import math

import pytest

from overstory.presentation.formats import epsilon_text
from overstory.privacy import epsilon_between, statement, terms_of
from overstory.privacy.caveats import first_change_above
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.bits import oue, wb
from overstory.protocol.kinds.hashes import loloha, olh, random_matrix
from overstory.protocol.kinds.rappor import rappor
from overstory.protocol.kinds.sets import subset
from overstory.protocol.kinds.symbols import grr, l_grr

LOLOHA = loloha(epsilon_permanent=2, epsilon_report=1)


def claim(built, about):
    return next(found for found in statement(built).claims if found.about.startswith(about))


def test_loloha_fails_under_changes_from_the_stated_number_of_reports():
    terms, ceiling = terms_of(LOLOHA), statement(LOLOHA).epsilon_values(100)
    n = first_change_above(terms, ceiling)
    assert n == next(n for n in range(2, 100) if terms.change_leak(n) > ceiling)
    assert f"a change of symbol within {n} reports" in claim(LOLOHA, "each further").caution


def test_what_loloha_claims_is_of_its_symbols_even_where_there_are_fewer_values():
    few = loloha(epsilon_permanent=2, epsilon_report=1, domain_size=3)
    assert few.encoding.num_symbols == 4
    assert "claims 4 x 2.0000 = 8.0000" in claim(few, "each further").caution


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0, 17.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_the_first_change_above_is_that_of_a_scan(epsilon):
    terms = terms_of(LOLOHA)
    assert first_change_above(terms, epsilon) == next(n for n in range(2, 200) if terms.change_leak(n) > epsilon)


@pytest.mark.parametrize(("epsilon", "first"), [(1.0, 2), (511.5, 512), (700.0, 701), (999.5, 1000), (1000.0, None)])
def test_the_search_goes_as_far_as_it_says(epsilon, first):
    class OneAReport:
        change_leak = staticmethod(float)

    assert first_change_above(OneAReport(), epsilon) == first


@pytest.mark.slow
def test_no_change_is_above_what_has_no_bound():
    assert first_change_above(terms_of(LOLOHA), math.inf) is None
    assert first_change_above(terms_of(LOLOHA), 1e9) is None


def test_the_lectures_epsilon():
    said = statement(random_matrix(advantage=0.1))
    assert said.epsilon_report == pytest.approx(math.log(0.6 / 0.4), abs=1e-8)
    assert "4.1 times as much" in claim(random_matrix(advantage=0.1), "one report").caution
    assert claim(random_matrix(epsilon=1.0), "one report").caution is None


def test_the_published_second_round_adds_too_much_noise():
    published = l_grr(domain_size=100, epsilon_permanent=4, epsilon_report=2, published=True)
    assert published.epsilon_report < 1.9
    assert f"for {epsilon_text(published.epsilon_report)}" in claim(published, "one report").caution
    assert claim(l_grr(domain_size=100, epsilon_permanent=4, epsilon_report=2), "one report").caution is None


def test_the_thesis_on_windows_and_rappor_on_many_reports():
    assert "40 reports cost 10.0000" in claim(wb(domain_size=5, epsilon=1, window=4), "whatever you hold").caution
    assert "it can" in claim(rappor(), "2 reports").caution


@pytest.mark.parametrize("built", [grr(domain_size=5, epsilon=1), oue(domain_size=5, epsilon=1), olh(epsilon=1)])
def test_what_claims_no_more_than_it_proves_has_no_caution(built):
    assert all(found.caution is None for found in statement(built).claims)


def test_how_many_values_can_cost_anything():
    assert statement(LOLOHA).epsilon_values(1000) == 4 * LOLOHA.epsilon_permanent
    few = loloha(epsilon_permanent=4, epsilon_report=3, domain_size=3)
    assert terms_of(few).most_values == 3 < few.encoding.num_symbols
    assert terms_of(subset(domain_size=7, epsilon=1)).most_values == 7
    assert terms_of(rappor()).most_values is None


def test_many_reports_are_never_stated_below_few():
    for built in (LOLOHA, wb(domain_size=5, epsilon=1, window=4), oue(domain_size=5, epsilon=1)):
        terms = terms_of(built)
        stated = [terms.epsilon_n(n) for n in (1, 2, 9_999, 10_000, 10_001, 10**7)]
        assert stated == sorted(stated)
    with pytest.raises(ParameterError, match="reports = 0"):
        terms.epsilon_n(0)
    assert terms_of(oue(domain_size=5, epsilon=1)).epsilon_any(2) == math.inf


def test_what_is_not_known_is_refused():
    for ask in (lambda: terms_of(object()), lambda: epsilon_between(object(), [1], [2])):
        with pytest.raises(ParameterError, match="nothing is known"):
            ask()
    with pytest.raises(ParameterError, match="only Bloom filters"):
        statement(LOLOHA, positions=[[[0], [1]]])
    with pytest.raises(ParameterError, match="outside the domain"):
        epsilon_between(subset(domain_size=3, epsilon=1), [0, 1], [0, 9])
