"""What weakens a promise under the same id is found, whatever it is; what does not is not called so."""

import itertools
import math

import pytest

from overstory.privacy.payloads.registry import epsilon_between, terms_of
from overstory.privacy.registry.changes import OVER_CAP, Kind, compare_registries
from overstory.privacy.registry.lifetime import lifetime_epsilon
from overstory.privacy.text import epsilon_text
from overstory.protocol.metrics import parse_registry

TEXT = """\
registry = "{version}"
[metrics.m]
title = "Title"
description = "Description."
owner = "Owner"
purpose = "https://example.org/1"
domain = {domain}
oracle = "{oracle}"
parameters = {parameters}
period = "{period}"
retention_days = {retention_days}
grace_days = {grace_days}
expires = {expires}
max_values = {max_values}
over_cap = "{over_cap}"
"""
PLAIN = {
    "version": "1",
    "domain": '{kind = "bins", min = 0, max = 2, count = 4}',
    "oracle": "l-osue",
    "parameters": "{epsilon_permanent = 3.0, epsilon_report = 1.0}",
    "period": "day",
    "retention_days": 90,
    "grace_days": 30,
    "expires": "2027-11-21",
    "max_values": 3,
    "over_cap": "first",
}


def registry(**said):
    lines = TEXT.format(**PLAIN | said).splitlines()
    return parse_registry("\n".join(line for line in lines if not line.endswith("= None")))


def changes(new, **old):
    return compare_registries(registry(**old), registry(version="2", **old | new))


def kinds(found):
    return {(change.what, change.kind) for change in found if change.metric}


def weakened(found):
    return {change.what for change in found if change.kind == Kind.WEAKENS}


def test_nothing_changed():
    assert compare_registries(registry(), registry()) == []
    (only,) = changes({})
    assert (only.metric, only.what, only.kind, only.detail) == ("", "registry", Kind.HARMLESS, "version 1 becomes 2")


WEAKER = [
    ({"parameters": "{epsilon_permanent = 3.0, epsilon_report = 1.5}"}, "one report"),
    ({"parameters": "{epsilon_permanent = 3.0, epsilon_report = 1.5}"}, "several reports of one unchanged value"),
    ({"parameters": "{epsilon_permanent = 4.0, epsilon_report = 1.0}"}, "any number of reports of one unchanged value"),
    ({"parameters": "{epsilon_permanent = 3.0, epsilon_report = 1.5}"}, "a change of value"),
    ({"max_values": 4}, "max_values"),
    ({"max_values": None}, "max_values"),
    ({"over_cap": "nearest"}, "over_cap"),
    ({"over_cap": "drop"}, "over_cap"),
    ({"domain": '{kind = "bins", min = 0, max = 3, count = 4}'}, "domain"),
    ({"domain": '{kind = "integers", min = 1, max = 4}'}, "domain"),
    ({"period": "12 hours"}, "period"),
    ({"retention_days": 91}, "retention_days"),
]


@pytest.mark.parametrize(("new", "what"), WEAKER)
def test_what_weakens_is_called_so(new, what):
    assert what in weakened(changes(new))


@pytest.mark.parametrize(
    "new",
    [
        {"max_values": 2},
        {"period": "week"},
        {"retention_days": 89},
        {"grace_days": 31},
        {"expires": "2029-11-21"},
        {"expires": "2027-01-01"},
        {"domain": '{kind = "bins", min = 0, max = 2, count = 4, outside = "reject"}'},
    ],
)
def test_what_does_not_is_not(new):
    assert weakened(changes(new)) == set()
    assert kinds(changes(new))


@pytest.mark.parametrize(
    ("new", "breaks"),
    [
        ({"parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}"}, {"parameters"}),
        ({"oracle": "l-sue"}, {"oracle"}),
        ({"period": "week"}, {"period"}),
        ({"period": "hour"}, {"period"}),
        ({"domain": '{kind = "bins", min = 0, max = 3, count = 4}'}, {"domain"}),
        ({"domain": '{kind = "bins", min = 0, max = 2, count = 4, outside = "reject"}'}, {"domain"}),
        ({"domain": '{kind = "bins", min = 0, max = 2, count = 5}'}, {"domain", "parameters"}),
        ({"retention_days": 1, "max_values": 1, "expires": "2026-12-01"}, set()),
    ],
)
def test_what_breaks_stored_counts(new, breaks):
    assert {change.what for change in changes(new) if change.kind == Kind.BREAKS} == breaks


def test_less_noise_never_comes_free_where_responses_are_memoized():
    """Even a smaller epsilon: the old permanent responses are out, and new ones are drawn."""
    found = changes({"parameters": "{epsilon_permanent = 2.0, epsilon_report = 0.5}"})
    assert weakened(found) == {"parameters"}
    (said,) = [change.detail for change in found if change.kind == Kind.WEAKENS]
    old, new = (
        terms_of(registry(**p)["m"].mechanism).epsilon_permanent
        for p in ({}, {"parameters": "{epsilon_permanent = 2.0, epsilon_report = 0.5}"})
    )
    assert f"cost {epsilon_text(old + new)} together, where {epsilon_text(old)} was promised" in said


def named(*names, **more):
    said = "".join(f", {key} = {value}" for key, value in more.items())
    return f'{{kind = "categories", names = {list(names)}{said}}}'


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (named("a", "b", "c", "d"), named("b", "a", "c", "d"), Kind.WEAKENS),
        (named("a", "b", "c", other="'d'"), named("a", "b", "d", "c"), Kind.WEAKENS),
        (named("a", "b", "c", "d"), named("a", "c", "e", other="'more'"), Kind.WEAKENS),
        (named("a", "b", "c", "d"), named("a", "b", "c", "e"), Kind.BREAKS),
        (named("a", "b", "c", "d"), named("a", "b", "c", other="'d'"), Kind.BREAKS),
        (named("a", "b", "c", "d"), named("a", "b", "c", "d", ordered="true"), Kind.HARMLESS),
    ],
)
def test_a_value_with_another_symbol_has_another_permanent_response(old, new, kind):
    first, *rest = [change.kind for change in changes({"domain": new}, domain=old, over_cap="drop") if change.metric]
    assert first == kind
    assert rest == ([Kind.BREAKS] if kind == Kind.WEAKENS else [])
    window = {"oracle": "opt-wb", "parameters": "{epsilon = 1.0, window = 10}", "over_cap": "drop"}
    assert weakened(changes({"domain": new}, domain=old, **window)) == set(), "fresh noise keeps no response"


def test_two_responses_of_one_value_really_cost_both():
    """Reports of a value that was symbol 0 and is 1, against one that was 2 and is 3."""
    built = registry()["m"].mechanism
    cost = epsilon_between(built, [0] * 200 + [1] * 200, [2] * 200 + [3] * 200)
    assert built.epsilon_permanent * 1.99 < cost <= built.epsilon_permanent * 2
    (said,) = [c.detail for c in changes({"domain": '{kind = "integers", min = 1, max = 4}'}) if c.kind == Kind.WEAKENS]
    assert f"cost {epsilon_text(cost)} together, where {epsilon_text(built.epsilon_permanent)} was promised" in said


def test_a_cap_above_the_domains_size_is_none():
    (above,) = [change for change in changes({"max_values": 6}, max_values=5) if change.metric]
    assert (above.what, above.kind) == ("max_values", Kind.HARMLESS)
    window = {"oracle": "opt-wb", "parameters": "{epsilon = 1.0, window = 10}"}
    assert weakened(changes({"max_values": 6}, max_values=5, **window)) == {"max_values"}, "more is reported, unbounded"


def test_fresh_noise_has_no_past():
    window = {"oracle": "opt-wb", "parameters": "{epsilon = 1.0, window = 10}"}
    assert weakened(changes({"parameters": "{epsilon = 0.5, window = 10}"}, **window)) == set()
    assert weakened(changes({"parameters": "{epsilon = 1.0, window = 20}"}, **window)) == set()
    more = weakened(changes({"parameters": "{epsilon = 1.5, window = 10}"}, **window))
    assert {"one report", "several reports of one unchanged value", "a change of value"} <= more
    assert "any number of reports of one unchanged value" not in more  # without bound before and after


def test_leaving_the_memo_is_without_bound():
    found = changes({"oracle": "opt-wb", "parameters": "{epsilon = 0.5, window = 10}"})
    (said,) = [change.detail for change in found if change.what == "any number of reports of one unchanged value"]
    assert said == "epsilon 3.0000 becomes without bound"


def test_metrics_that_come_and_go():
    two = parse_registry(
        TEXT.format(**PLAIN) + TEXT.format(**PLAIN).partition("\n")[2].replace("metrics.m", "metrics.n")
    )
    (new,) = [change for change in compare_registries(registry(), two) if change.metric]
    (gone,) = [change for change in compare_registries(two, registry()) if change.metric]
    assert (new.metric, new.what, new.kind) == (gone.metric, gone.what, gone.kind) == ("n", "metric", Kind.HARMLESS)
    assert "asked" in new.detail
    assert "no longer listed" in gone.detail


def test_one_version_for_two_registries_is_told():
    (whole, *_) = compare_registries(registry(), registry(retention_days=91))
    assert "consent could not tell the two apart" in whole.detail


def test_candidates_of_counts_by_candidate(tmp_path):
    def read(oracle, content):
        (tmp_path / "trees.txt").write_text(content)
        return parse_registry(
            TEXT.format(**PLAIN | {"domain": '{kind = "strings", candidates = "trees.txt"}'} | oracle), tmp_path
        )

    for oracle, kind in (
        ({"oracle": "olh", "parameters": "{epsilon = 1.0, num_seeds = 2147483648}"}, Kind.BREAKS),
        ({"oracle": "olh", "parameters": "{epsilon = 1.0}"}, Kind.HARMLESS),
        ({"oracle": "rappor", "parameters": "{}"}, Kind.HARMLESS),
    ):
        found = compare_registries(read(oracle, "oak\n"), read(oracle, "oak\nash\n"))
        assert kinds(found) == {("candidates", kind)}


def test_words_are_shown_and_harmless():
    text = TEXT.format(**PLAIN)
    (words,) = compare_registries(
        registry(), parse_registry(text.replace("Description.", "More.").replace('"1"', '"2"'))
    )[1:]
    said = "'Description.' becomes 'More.': devices ask about it again"
    assert (words.what, words.kind, words.detail) == ("description", Kind.HARMLESS, said)


def test_the_first_response_reveals_least_and_nothing_is_one_more():
    """F4: what fell silent was called the rule that reveals least."""
    assert OVER_CAP == ("first", "drop", "nearest")
    for old, new in itertools.combinations(OVER_CAP, 2):
        assert weakened(changes({"over_cap": new}, over_cap=old)) == {"over_cap"}
        assert weakened(changes({"over_cap": old}, over_cap=new)) == set()


def test_a_lifetime_is_the_caps_values_or_the_domains_and_nothing():
    def lifetime(**said):
        return lifetime_epsilon(registry(**said)["m"])

    assert lifetime() == pytest.approx(9.0, abs=1e-6)
    assert lifetime(over_cap="drop") == pytest.approx(12.0, abs=1e-6)
    assert lifetime(max_values=None) == lifetime(max_values=9) == pytest.approx(15.0, abs=1e-6)
    strings = {"domain": '{kind = "strings"}', "oracle": "rappor", "parameters": "{}"}
    assert math.isinf(lifetime(max_values=None, **strings))


def test_every_weakening_of_the_epsilons_is_a_real_one():
    """Held against enumeration: the ratio of two histories' probabilities really grows."""
    weak, strong = (
        registry(parameters=f"{{epsilon_permanent = 3.0, epsilon_report = {e}}}")["m"].mechanism for e in (1.5, 1.0)
    )
    assert epsilon_between(weak, [0, 0], [1, 1]) > epsilon_between(strong, [0, 0], [1, 1])
