"""Domains: which symbol a value is, for every value there is, and one clear error for what is none."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from itertools import repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.protocol.domains import domain_from
from overstory.protocol.domains.domains import MAX_SIZE, Categories
from overstory.protocol.domains.item_sets import ItemSet
from overstory.protocol.domains.numbers import Bins, Integers
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric import Interval

OUTSIDE = st.sampled_from(["clamp", "reject", "separate"])
NAMES = st.lists(st.text(max_size=5), min_size=2, max_size=8, unique=True)
LIMITS = st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=2, unique=True).map(sorted)


@st.composite
def bins(draw):
    low, high = draw(LIMITS)
    count = draw(st.integers(2, 40))
    try:
        return Bins(low, high, count, draw(OUTSIDE))
    except ParameterError:  # too narrow for that many
        return Bins(low - 1, high + 1, count)


@st.composite
def integers(draw):
    low = draw(st.integers(-(10**12), 10**12))
    return Integers(low, low + draw(st.integers(1, 50)), draw(OUTSIDE))


@st.composite
def categories(draw):
    names = draw(NAMES)
    if draw(st.booleans()):
        return Categories(tuple(names[:-1]), other=names[-1]) if len(names) > 2 else Categories(tuple(names))
    return Categories(tuple(names), ordered=True)


DOMAINS = st.one_of(bins(), integers(), categories())


@given(DOMAINS)
def test_the_canonical_form_survives_json_and_gives_the_domain_and_a_label_for_every_symbol_back(domain):
    written = json.loads(json.dumps(domain.canonical(), allow_nan=False))
    again = domain_from(written)
    assert again == domain
    assert again.labels == domain.labels
    assert again.canonical() == domain.canonical()
    assert len(domain.labels) == domain.size == len(set(domain.labels))


@given(bins(), st.floats(allow_nan=False, allow_infinity=False))
def test_a_bin_owns_exactly_what_lies_between_its_edges(domain, value):
    """Against a linear search that was written from the sentence in the documentation."""
    separate = domain.outside == "separate"
    if not domain.minimum <= value <= domain.maximum:
        if domain.outside == "reject":
            with pytest.raises(ParameterError, match="rejects"):
                domain.symbol(value)
        else:
            assert domain.symbol(value) == (0 if value < domain.minimum else domain.size - 1)
        return
    owners = [i for i in range(domain.count) if domain.edges[i] <= value < domain.edges[i + 1]]
    assert domain.symbol(value) - separate == (owners[0] if owners else domain.count - 1)
    assert len(owners) == (value != domain.maximum)


@given(bins())
def test_an_edge_belongs_to_the_bin_above_and_the_float_below_it_to_the_bin_below(domain):
    first = int(domain.outside == "separate")
    for i, edge in enumerate(domain.edges[:-1]):
        assert domain.symbol(edge) == i + first
        if i:
            assert domain.symbol(math.nextafter(edge, -math.inf)) == i - 1 + first
    assert domain.symbol(domain.edges[-1]) == domain.count - 1 + first
    assert (domain.edges[0], domain.edges[-1]) == (domain.minimum, domain.maximum)


@pytest.mark.parametrize(("low", "high", "count"), [(0, 1, 10), (0.1, 0.7, 6), (-1, 1, 20), (0, 2, 100), (0, 0.3, 3)])
def test_edges_are_the_decimal_numbers_a_person_would_write(low, high, count):
    step = (Decimal(str(high)) - Decimal(str(low))) / count
    domain = Bins(low, high, count)
    for i in range(count):
        written = float(Decimal(str(low)) + i * step)
        assert domain.edges[i] == written
        assert domain.symbol(written) == i


def test_numbers_of_every_kind_are_compared_exactly():
    domain = Bins(0, 1, 10, "separate")
    same = (0.25, np.float64(0.25), np.float32(0.25), Fraction(1, 4), Decimal("0.25"))
    assert {domain.symbol(value) for value in same} == {3}
    assert domain.symbol(np.int64(1)) == 10
    assert domain.symbol(10**400) == 11
    assert domain.symbol(Fraction(-1, 10**30)) == 0
    assert domain.symbol(Fraction(1) + Fraction(1, 10**30)) == 11
    assert Integers(0, 5).symbol(np.int8(3)) == 3


@pytest.mark.parametrize("domain", [Bins(0, 1, 4), Bins(0, 1, 4, "separate"), Interval(0, 1)], ids=repr)
@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("sNaN"), np.float32("nan"), None, "0.5", True, 1j]
)
def test_what_is_no_finite_number_is_refused_whatever_happens_outside(domain, value):
    with pytest.raises(ParameterError, match="give a"):
        domain.share(value) if isinstance(domain, Interval) else domain.symbol(value)


NOT_WHOLE = (1.0, "1", None, True, Fraction(1, 2))


def sets_of(items, **more):
    return domain_from({"domain": "set", "of": items, **more})


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Bins(1, 1, 4), "not below"),
        (lambda: Bins(2, 1, 4), "not below"),
        (lambda: Bins(0, math.inf, 4), "finite"),
        (lambda: Bins(0, 10**400, 4), "too large"),
        (lambda: Bins(0, 1, 0), "at least 1"),
        (lambda: Bins(0, 1, 1), "from 2"),
        (lambda: Bins(0, 1, 2.5), "whole"),
        (lambda: Bins(0, 1, MAX_SIZE + 1), "from 2"),
        (lambda: Bins(1, math.nextafter(1, 2), 4), "narrower"),
        (lambda: Bins(0, 1, 4, "wrap"), "clamp, reject, separate"),
        (lambda: Integers(3, 2), "from 2"),
        (lambda: Integers(0.5, 2), "whole"),
        (lambda: Categories(("a",)), "from 2"),
        (lambda: Categories("ab"), "one string"),
        (lambda: Categories(("a", 1)), "string"),
        (lambda: Categories(("a", "b", "a")), "twice"),
        (lambda: Categories(("a", "b"), other="b"), "twice"),
        (lambda: Categories(("a", "b"), other="c", ordered=True), "ordered"),
        (lambda: Categories(("a", "b")).symbol("c"), "choose one of 'a', 'b'"),
        (lambda: Categories(("a", "b")).symbol(1), "string"),
        (lambda: Interval(0, 1, "separate"), "clamp or reject"),
        (lambda: Interval(0, 1, "reject").share(2), "rejects"),
        (lambda: domain_from({"domain": "colours"}), "choose one of categories"),
        (lambda: domain_from({}), "no domain None"),
        (lambda: domain_from({"domain": "bins", "min": 0, "max": 1}), "missing"),
        (lambda: domain_from({"domain": "bins", "min": 0, "max": 1, "count": 3, "colour": 1}), "colour"),
        (lambda: sets_of(["a", "b"], most=3), "most = 3: of 2 items, give a whole number from 1 to all"),
        (lambda: sets_of(["a", "b"], most=0), "most = 0"),
        (lambda: sets_of(["a", "a"]), "'a' comes twice"),
        (lambda: sets_of({"kind": "words"}), "there is no domain 'words'"),
        (lambda: sets_of({"kind": "strings"}), "a set of strings: give the domain of one item, which has to be finite"),
        (lambda: sets_of({"kind": "set", "of": ["a", "b"]}), "give the domain of one item, which has to be finite"),
        (lambda: sets_of({"kind": "integers", "min": 1, "max": 4}, other="x"), "give it in `of`"),
        (lambda: domain_from({"domain": "set", "most": 2}), "missing"),
        *((lambda value=value: Integers(0, 5).symbol(value), "give a whole number") for value in NOT_WHOLE),
    ],
)
def test_one_clear_error(build, says):
    with pytest.raises(ParameterError, match=says):
        build()


def test_one_bin_is_enough_when_the_outside_is_told_apart():
    assert Bins(0, 1, 1, "separate").labels == ("below 0.0", "[0.0, 1.0]", "above 1.0")


@given(LIMITS, st.floats(-2e9, 2e9))
def test_a_share_is_the_exact_place_in_the_range(limits, value):
    domain = Interval(*limits)
    share = domain.share(value)
    assert 0 <= share <= 1
    if limits[0] <= value <= limits[1]:
        assert Fraction(limits[0]) + share * (Fraction(limits[1]) - Fraction(limits[0])) == Fraction(value)


PLUGIN_NAMES = ("adblock", "grammar", "vpn", "dark mode")
PLUGINS = ItemSet(Categories(PLUGIN_NAMES, other="another"), most=2)
item = st.sampled_from(PLUGIN_NAMES) | st.text(max_size=8)


@given(st.lists(item, max_size=12), st.randoms())
def test_order_repetition_and_container_do_not_matter(items, draws):
    encoded = PLUGINS.encode(items)
    shuffled = [*items, *items]
    draws.shuffle(shuffled)
    assert PLUGINS.encode(shuffled) == PLUGINS.encode(frozenset(items)) == PLUGINS.encode(iter(items)) == encoded
    assert list(encoded) == sorted(set(encoded))
    assert {PLUGINS.labels[symbol] for symbol in encoded} == {i if i in PLUGIN_NAMES else "another" for i in items}


@given(st.frozensets(st.sampled_from(PLUGIN_NAMES)))
def test_a_text_is_read_and_labels_name_the_items(items):
    assert PLUGINS.read("; ".join(sorted(items))) == items
    assert PLUGINS.label(PLUGINS.encode(items)) == (", ".join(sorted(items, key=PLUGIN_NAMES.index)) or "no item")


@given(
    st.sampled_from([Categories(PLUGIN_NAMES), Categories(PLUGIN_NAMES, other="o"), Integers(-2, 5), Bins(0, 1, 7)]),
    st.data(),
)
def test_the_canonical_form_is_read_back(of, data):
    domain = ItemSet(of, data.draw(st.integers(1, of.size)))
    assert domain_from(domain.canonical()) == domain
    assert [domain.encode(example) for example in domain.examples()] == [(symbol,) for symbol in range(of.size)]


def test_items_may_be_any_finite_domain():
    written = {"domain": "set", "of": {"kind": "integers", "min": 1, "max": 49}, "most": 6}
    assert domain_from(written).encode({49, 7, 1}) == (0, 6, 48)
    assert domain_from({"domain": "set", "of": ["a", "b", "c"]}).most == 3
    assert domain_from({"domain": "set", "of": ["a", "b"], "other": "c"}).encode(["x", "y"]) == (2,)


@pytest.mark.parametrize("value", ["vpn", b"vpn", 3, None, [3], [["vpn"]], {"a": 1}.items(), repeat("vpn")])
def test_what_is_no_set_of_these_items_is_refused(value):
    with pytest.raises(ParameterError):
        ItemSet(Categories(PLUGIN_NAMES), most=2).encode(value)
