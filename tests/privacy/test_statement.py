"""The statement as data: what it says, what it refuses, how it reads; a fixed map's worst pairs against all pairs."""

import math
from fractions import Fraction
from itertools import product

import pytest

from overstory.presentation.formats import epsilon_text, epsilons_apart, factor, guess_text
from overstory.privacy import statement, terms_of
from overstory.privacy.statements import ANY_BOUND, ANY_EXACT, claims_blocks
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import encode
from overstory.protocol.kinds.bits import Bloom, OneHot, SampledBits, oue, rappor, wb
from overstory.protocol.kinds.hashes import loloha, olh
from overstory.protocol.kinds.registry import REGISTRY
from overstory.protocol.kinds.sets import subset
from overstory.protocol.kinds.symbols import grr
from support.privacy_cases import some_mechanism


@pytest.fixture(params=sorted(REGISTRY))
def said(request):
    return statement(some_mechanism(request.param))


def test_the_first_claim_is_of_any_two_histories(said):
    first = said.claims[0]
    assert first.about.startswith("whatever you hold and however it changes: 2 reports")
    for claim, (n, epsilon) in zip(said.claims, said.epsilon_any.items(), strict=False):
        if math.isfinite(epsilon):
            exact = said.terms.epsilon_any_is_exact(n)
            assert claim.epsilon == epsilon == said.terms.epsilon_any(n)
            assert claim.about == f"whatever you hold and however it changes: {n} reports"
            assert said.terms.fresh or claim.assumption == (ANY_EXACT if exact else ANY_BOUND)
    read = said.to_json()
    assert read["epsilon_any"]["2"] == first.to_json()["epsilon"]
    assert (2 in read["epsilon_any_exact"]) == said.terms.epsilon_any_is_exact(2)
    known = [n for n, epsilon in said.epsilon_any.items() if math.isfinite(epsilon)]
    assert said.plain_words().startswith(f"Any {max(known)} reports of one device" if known else "One report")


def test_no_epsilon_is_printed_smaller_than_it_is(said):
    table, _ = claims_blocks(said.claims)
    for claim, (_, shown, odds, _) in zip(said.claims, table.cells(), strict=True):
        if math.isinf(claim.epsilon):
            assert (shown, odds) == ("no bound", "without bound")
        else:
            assert shown == claim.epsilon_words
            excess = float(shown.split()[0]) - claim.epsilon + 4 * math.ulp(claim.epsilon)
            assert 0 <= excess < max(1e-4, claim.epsilon / 100) + 1e-10


def test_an_excess_that_no_float_explains_is_printed():
    assert epsilon_text(1.00000000001) == "1.01"
    assert epsilon_text(1.0 + 5 * math.ulp(1.0)) == "1.01"
    assert epsilon_text(1.0 + 4 * math.ulp(1.0)) == "1"
    assert [epsilon_text(n / 10_000) for n in (1, 10_001, 333_333, 2_890_732)] == ["0.0001", "1.01", "33.4", "290"]
    assert epsilon_text(sum([0.1] * 3)) == "0.3"
    assert (epsilon_text(0.0), epsilon_text(5e-324)) == ("0", "0.0001")
    assert epsilon_text(1e22) == "10,000,000,000,000,000,000,000"


def test_epsilons_that_are_compared_differ_in_print_where_they_differ():
    assert epsilons_apart(1.0001, 1.0002) == ["1.0001", "1.0002"]
    assert epsilons_apart(4.0, 5.0, math.inf) == ["4", "5", "without bound"]
    assert epsilons_apart(2.0, 2.0) == ["2", "2"]


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, math.log(3), 2.0, 4.0, 4.6, 5.0, 10.0, 13.8])
def test_right_guesses_are_counted_in_the_fewest_cases_and_rounded_up(epsilon):
    said = guess_text(epsilon, "it", "answers is yours")
    right, of = (int(word.replace(",", "")) for word in said.split() if word[0].isdigit())
    exact = 1 / (1 + Fraction(math.exp(-epsilon)))
    assert right - 1 < exact * of - Fraction(1, 10**9) < right < of
    assert of == 100 or math.ceil(exact * of / 10) == of / 10


def test_a_guess_that_is_hardly_ever_wrong_is_certain_in_words():
    assert guess_text(math.log(3), "it", "answers is yours").endswith(" is right in at most 75 of 100 cases")
    assert guess_text(40.0, "it", "answers is yours") == "whoever reads it could be practically certain of the truth"


@pytest.mark.parametrize(
    ("encoding", "values"),
    [
        (OneHot(4), range(4)),
        (SampledBits(4, 1), range(4)),
        (SampledBits(5, 3), range(5)),
        (Bloom(8, 2, 3), [f"v{i}" for i in range(60)]),
        (Bloom(8, 5, 3), [f"v{i}" for i in range(60)]),
        (Bloom(8, 3, 2, "google-rappor-python"), [f"v{i}" for i in range(60)]),
    ],
)
def test_no_two_values_overlap_past_the_shapes_that_an_encoding_answers(encoding, values):
    overlaps = {}
    for both, lowered, raised, _ in encoding.shapes(equal_bits=True):
        overlaps.setdefault((both + lowered, both + raised), []).append(both)
    for cohort, first, second in product(range(encoding.num_cohorts), values, values):
        if first != second:
            a, b = (encode(encoding, value, cohort) for value in (first, second))
            near = overlaps[a.bit_count(), b.bit_count()]
            assert min(near) <= (a & b).bit_count() <= max(near), (cohort, first, second)


def test_factors_are_rounded_up():
    found = [factor(e) for e in (0.0, 0.001, math.log(3), 4.394449154672439, 25.0)]
    assert found == ["1", "1.01", "3", "81", "more than a million"]


LOLOHA = loloha(epsilon_permanent=2, epsilon_report=1)


def claim(built, about):
    return next(found for found in statement(built).claims if found.about.startswith(about))


def test_the_thesis_on_windows_and_rappor_on_many_reports():
    assert "40 reports cost 10," in claim(wb(domain_size=5, epsilon=1, window=4), "whatever you hold").caution
    assert "it can" in claim(rappor(), "2 reports").caution


@pytest.mark.parametrize("built", [grr(domain_size=5, epsilon=1), oue(domain_size=5, epsilon=1), olh(epsilon=1)])
def test_what_claims_no_more_than_it_proves_has_no_caution(built):
    assert all(found.caution is None for found in statement(built).claims)


def test_how_many_values_can_cost_anything():
    assert statement(LOLOHA).terms.epsilon_values(1000) == 4 * LOLOHA.epsilon_permanent
    few = loloha(epsilon_permanent=4, epsilon_report=3, domain_size=3)
    few_terms = terms_of(few)
    assert few_terms.most_values == 3 < few.encoding.num_symbols
    assert few_terms.epsilon_values(9, reports=2) == few_terms.epsilon_values(2)
    assert terms_of(subset(domain_size=7, epsilon=1)).most_values == 7
    assert terms_of(rappor()).most_values is None
    with pytest.raises(ParameterError, match="at least one"):
        few_terms.epsilon_values(0)


def test_many_reports_are_never_stated_below_few():
    for built in (LOLOHA, wb(domain_size=5, epsilon=1, window=4), oue(domain_size=5, epsilon=1)):
        terms = terms_of(built)
        stated = [terms.epsilon_n(n) for n in (1, 2, 9_999, 10_000, 10_001, 10**7)]
        assert stated == sorted(stated)
    with pytest.raises(ParameterError, match="reports = 0"):
        terms.epsilon_n(0)
    assert terms_of(oue(domain_size=5, epsilon=1)).epsilon_any(2) == math.inf


def test_what_is_not_known_is_refused():
    with pytest.raises(ParameterError, match="nothing is known"):
        terms_of(object())
