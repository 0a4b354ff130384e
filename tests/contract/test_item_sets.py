"""The laws for mechanisms that take a set: exact epsilons by enumeration, rates, permanence, the wire."""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product

import pytest

from overstory.audit.laws import log_of, worst_ratio
from overstory.privacy.attacks import linkability
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report, Shape
from overstory.protocol.kinds.item_sets import ItemBits, PaddedSampling
from overstory.protocol.kinds.registry import any_mechanism
from overstory.protocol.kinds.symbols import grr
from overstory.protocol.sampling import SeededEntropy
from support.contract_cases import Case
from support.exact_draws import exact_distribution

TIGHT = Decimal("1e-9")
REACH = 5.5  # standard errors: 4e-8 for each of the some 400 comparisons here, 2e-5 for all
SECRETS = [number.to_bytes(16, "big") for number in range(4000)]


SMALL = [
    *(
        Case(
            "padding-and-sampling",
            {"domain_size": size, "most": most, "epsilon": 1.0, "length": length, "inner": inner},
        )
        for size, most, length in ((4, 2, 2), (4, 4, 3), (5, 5, 3), (3, 1, 1))
        for inner in ("grr", "oue", "olh")
    ),
    *(
        Case("item-bits", {"domain_size": size, "most": most, "epsilon": 1.5})
        for size, most in ((5, 2), (4, 3), (4, 4), (3, 1))
    ),
]


def size_of(built):
    return built.encoding.domain_size


def all_sets(built):
    return [items for size in range(size_of(built) + 1) for items in combinations(range(size_of(built)), size)]


def law(built, items, cohort):
    """P(payload | set), exact: over the part that is drawn where a set is too large to be shown."""
    payloads = [payload for payload in range(built.payload_limit) if built.valid(payload)]
    most = built.encoding.most if isinstance(built.encoding, ItemBits) else len(items)
    parts = list(combinations(items, most)) if len(items) > most else [items]
    return [
        sum(built.likelihood(Report(cohort, payload), part) for part in parts) / Fraction(len(parts))
        for payload in payloads
    ]


def exact_epsilon(built):
    """Worst log ratio between any two sets, the empty one and nothing (which has its law) included."""
    worst = Fraction(1)
    for cohort in range(min(built.num_cohorts, 12)):
        rows = [law(built, items, cohort) for items in all_sets(built)]
        assert {sum(row) for row in rows} == {1}
        worst = max(worst, worst_ratio(rows))
    return log_of(worst)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_the_declared_epsilon_is_the_exact_one_over_all_pairs_of_sets(case):
    built = case.build()
    exact, stated = exact_epsilon(built), Decimal(built.epsilon_report)
    assert exact <= stated <= Decimal(case.parameters["epsilon"])
    assert stated - exact <= TIGHT
    assert built.epsilon_n(7) == built.epsilon_permanent == built.epsilon_report  # memoized: a repeat shows nothing new


def test_the_enumeration_catches_one_dummy_for_all_padding():
    """GRR at the amplified epsilon with a single dummy: the empty set draws it for sure."""
    built = any_mechanism("padding-and-sampling", domain_size=4, most=2, epsilon=1.0, length=2, inner="grr")
    one = grr(domain_size=5, epsilon=built.inner.epsilon_report)
    broken = replace(built, encoding=replace(built.encoding, num_dummies=1), inner=one)
    assert exact_epsilon(broken) > Decimal("1.48")  # that of the oracle itself: nothing is gained


@pytest.mark.parametrize("inner", ["oue", "olh"])
def test_the_enumeration_catches_amplification_where_there_is_none(inner):
    amplified = math.log(2 * math.expm1(1.0) + 1)
    built = any_mechanism("padding-and-sampling", domain_size=4, most=2, epsilon=amplified, inner=inner)
    assert exact_epsilon(built) > Decimal("1.4")  # and not 1, which the theorem gives to GRR alone


def test_the_enumeration_catches_bits_whose_epsilon_was_not_divided():
    whole = any_mechanism("item-bits", domain_size=5, most=1, epsilon=1.5)
    broken = replace(whole, encoding=ItemBits(5, 2))
    assert exact_epsilon(broken) > Decimal("2.9")


def agreement(respond_of, first, second):
    return sum(respond_of(secret)(first) == respond_of(secret)(second) for secret in SECRETS) / len(SECRETS)


def test_responses_to_sets_that_share_items_are_independent():
    """Keyed by the item that is drawn, as an ordinary oracle's is, they would agree far more often than by chance."""
    built = any_mechanism("padding-and-sampling", domain_size=6, most=2, epsilon=2.0, inner="grr")

    def keyed_by_item(secret):
        respond = built.inner.responder(secret, "m", 0)
        return lambda items: respond(built.encoding.draw(items, SeededEntropy(f"{secret!r}{items}")))

    first, second = (0, 1), (0, 2)
    by_chance = float(sum(a * b for a, b in zip(law(built, first, 0), law(built, second, 0), strict=True)))
    spread = math.sqrt(by_chance * (1 - by_chance) / len(SECRETS))
    honest = agreement(lambda secret: built.responder(secret, "m", 0), first, second)
    assert abs(honest - by_chance) <= REACH * spread
    assert agreement(keyed_by_item, first, second) > by_chance + REACH * spread  # the check sees it


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_a_response_is_the_same_in_every_order_of_items_and_known_by_the_set(case):
    built = case.build()
    respond, sets = built.responder(bytes(16), "m", 0), all_sets(built)
    there = [respond(items) for items in sets]
    assert there == [respond(frozenset(items)) for items in sets] == [respond(items[::-1]) for items in sets]
    keys = {built.response_key(items, 0) for items in sets}
    assert len(keys) == len(sets)
    assert b"nothing" not in keys


def test_a_draw_is_uniform_over_the_padded_set_and_over_the_part_that_counts(monkeypatch):
    """Exact: every way the random numbers can fall."""
    below = "overstory.protocol.kinds.item_sets.uniform_below"
    monkeypatch.setattr(below, lambda bound, entropy: entropy.below(bound))
    encoding = any_mechanism("padding-and-sampling", domain_size=6, most=3, epsilon=1.0, inner="grr").encoding
    for items, expected in (((), {6, 7, 8}), ((2,), {2, 6, 7}), ((0, 1, 2, 5), {0, 1, 2, 5})):
        chances = exact_distribution(lambda entropy, items=items: encoding.draw(items, entropy), ())
        assert chances == {symbol: Fraction(1, len(expected)) for symbol in expected}
    part = exact_distribution(lambda entropy: ItemBits(6, 2).counted((0, 1, 3, 5), entropy), ())
    assert part == {pair: Fraction(1, 6) for pair in combinations((0, 1, 3, 5), 2)}


@pytest.mark.parametrize(("size", "most"), [(7, 2), (5, 3), (4, 4), (3, 2), (6, 1)])
@pytest.mark.parametrize("equal_bits", [True, False])
def test_shapes_have_the_worst_pair_of_sets_for_any_loss(size, most, equal_bits):
    encoding = ItemBits(size, most)
    vectors = [sum(1 << item for item in items) for n in range(most + 1) for items in combinations(range(size), n)]
    pairs = [(a, b) for a, b in product(vectors, repeat=2) if a != b]
    if equal_bits and most < size:  # two sets that are too large, of which the same part shows
        pairs += [(a, a) for a in vectors if a.bit_count() == most]
    every = (1 << size) - 1
    there = {
        Shape((a & b).bit_count(), (a & ~b).bit_count(), (b & ~a).bit_count(), (every & ~(a | b)).bit_count())
        for a, b in pairs
    }
    stated = set(encoding.shapes(equal_bits=equal_bits))
    assert stated <= there
    draws = SeededEntropy(size)
    for _ in range(300):
        loss = [draws.bits(8) for _ in range(4)]
        worst = max(sum(n * x for n, x in zip(shape, loss, strict=True)) for shape in there)
        assert worst == max(sum(n * x for n, x in zip(shape, loss, strict=True)) for shape in stated)


@pytest.mark.parametrize("value", ["ab", 3, (0, 10), (0.5,), (True,)])
def test_what_is_no_set_of_items_is_refused(value):
    for name in ("padding-and-sampling", "item-bits"):
        built = any_mechanism(name, domain_size=10, most=3, epsilon=1.0)
        with pytest.raises(ParameterError):
            built.responder(bytes(16), "m", 0)(value)
    assert isinstance(any_mechanism("padding-and-sampling", domain_size=4, most=2, epsilon=9.0), PaddedSampling)


@pytest.mark.parametrize(("most", "epsilon", "bits"), [(1, 4.0, 2.29), (2, 6.0, 4.39)])
def test_a_set_of_all_items_is_as_recognizable_as_is_stated(most, epsilon, bits):
    """A second audit: 1.5 and 3.1 bits were stated of ten items, those of a set of `most`."""
    built = any_mechanism("item-bits", domain_size=10, most=most, epsilon=epsilon)
    collision = sum(float(p) ** 2 for p in law(built, tuple(range(10)), 0))
    assert -math.log2(collision) == pytest.approx(bits, abs=0.005)
    assert linkability(built).unchanged.bits == pytest.approx(-math.log2(collision), abs=1e-6)
