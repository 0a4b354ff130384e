"""The domain of sets: one value for all ways to write a set, and one error for what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.protocol.domains import Bins, Categories, Integers, ItemSet, domain_from
from overstory.protocol.errors import ParameterError

NAMES = ("adblock", "grammar", "vpn", "dark mode")
PLUGINS = ItemSet(Categories(NAMES, other="another"), most=2)
item = st.sampled_from(NAMES) | st.text(max_size=8)


@given(st.lists(item, max_size=12), st.randoms())
def test_order_repetition_and_container_do_not_matter(items, draws):
    encoded = PLUGINS.encode(items)
    shuffled = [*items, *items]
    draws.shuffle(shuffled)
    assert PLUGINS.encode(shuffled) == PLUGINS.encode(frozenset(items)) == PLUGINS.encode(iter(items)) == encoded
    assert list(encoded) == sorted(set(encoded))
    assert {PLUGINS.labels[symbol] for symbol in encoded} == {i if i in NAMES else "another" for i in items}


@given(st.frozensets(st.sampled_from(NAMES)))
def test_a_text_is_read_and_labels_name_the_items(items):
    assert PLUGINS.read("; ".join(sorted(items))) == items
    assert PLUGINS.label(PLUGINS.encode(items)) == (", ".join(sorted(items, key=NAMES.index)) or "no item")


@given(
    st.sampled_from([Categories(NAMES), Categories(NAMES, other="o"), Integers(-2, 5), Bins(0, 1, 7)]),
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


@pytest.mark.parametrize("value", ["vpn", b"vpn", 3, None, [3], [["vpn"]], {"a": 1}.items()])
def test_what_is_no_set_of_these_items_is_refused(value):
    with pytest.raises(ParameterError):
        ItemSet(Categories(NAMES), most=2).encode(value)


def test_a_value_without_an_end_is_refused():
    from itertools import repeat

    with pytest.raises(ParameterError, match="more than 65536 items"):
        PLUGINS.encode(repeat("vpn"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"of": ["a", "b"], "most": 3}, "most = 3: of 2 items, give a whole number from 1 to all"),
        ({"of": ["a", "b"], "most": 0}, "most = 0"),
        ({"of": ["a", "a"]}, "'a' comes twice"),
        ({"of": {"kind": "words"}}, "there is no domain 'words'"),
        ({"of": {"kind": "strings"}}, "a set of strings: give the domain of one item, which has to be finite"),
        ({"of": {"kind": "set", "of": ["a", "b"]}}, "give the domain of one item, which has to be finite"),
        ({"of": {"kind": "integers", "min": 1, "max": 4}, "other": "x"}, "give it in `of`"),
        ({"most": 2}, "missing"),
    ],
)
def test_wrong_domains_are_named(given, words):
    with pytest.raises(ParameterError, match=words):
        domain_from({"domain": "set", **given})
