"""What is said of a metric of unknown values: its page, its cost, and which changes reveal more."""

import pytest

from overstory.privacy.attacks import linkability, metric_linkability
from overstory.privacy.registry.changes import Harm, compare_registries
from overstory.privacy.registry.cost import metric_cost
from overstory.protocol.metrics import parse_registry
from support.registry_texts import registry_text

STRINGS = '{kind = "unknown-strings", max_bytes = 12}'


def text(parameters="epsilon = 3.0", domain=STRINGS, *more):
    return registry_text(*more, metric="word", domain=domain, oracle="prefix-search", parameters=f"{{{parameters}}}")


def registry(*given):
    return parse_registry(text(*given))


KNOWN = STRINGS.replace("12", '12, known = ["oak", "elm"]')
FIRST, KNOWING, HALF = registry(), registry("epsilon = 3.0", KNOWN), registry("epsilon = 1.5")
YEAR, QUARTER = 'panel = {cycle = "year"}', 'panel = {cycle = "quarter"}'


def of_the_past(*registries):
    return [c for c in compare_registries(*registries) if c.what in {"parameters", "domain"} and c.kind != Harm.BREAKS]


@pytest.mark.parametrize(
    ("registries", "cost"),
    [
        ((FIRST, KNOWING), "cost 6 together, where 3 was promised"),
        ((FIRST, HALF), "cost 4.5 together, where 3 was promised"),
        ((FIRST, HALF, KNOWING), "cost 7.5 together, where 1.5 was promised"),
        ((FIRST, KNOWING, FIRST), "cost 6 together, where 3 was promised; "),  # the first answer stays
    ],
)
def test_without_a_panel_every_plan_costs_its_epsilon_again(registries, cost):
    (said,) = of_the_past(*registries)
    assert said.kind is Harm.WEAKENS
    assert cost in said.detail


def test_in_a_panel_another_plan_asks_for_no_more():
    first, second = registry("epsilon = 3.0", STRINGS, YEAR), registry("epsilon = 3.0", KNOWN, YEAR)
    assert not of_the_past(first, second)
    assert Harm.WEAKENS not in {change.kind for change in compare_registries(first, second)}
    costs = [metric_cost(each["word"]).headline.epsilon for each in (first, second)]
    assert costs[0] == costs[1] <= 3.0 < costs[0] + 1e-8
    more = registry("epsilon = 4.0", KNOWN, YEAR)
    assert Harm.WEAKENS in {change.kind for change in compare_registries(first, more)}


@pytest.mark.parametrize(
    ("old", "new", "weakens"),
    [
        ((), (YEAR,), "epsilon 3 becomes 3; a device that has answered before answers again"),
        ((YEAR,), (), "epsilon 3 becomes 3; a device that has answered before answers again"),
        ((YEAR,), (QUARTER,), "epsilon 3 becomes 12"),
        ((QUARTER,), (YEAR,), None),
    ],
)
def test_a_panel_that_comes_or_goes_or_turns_faster_weakens(old, new, weakens):
    before, after = (registry("epsilon = 3.0", STRINGS, *panel) for panel in (old, new))
    worse = [change.detail for change in compare_registries(before, after) if change.kind is Harm.WEAKENS]
    assert any(detail.endswith(weakens) for detail in worse) if weakens else not worse


def test_what_links_the_answers_of_a_device():
    linkable = linkability(registry()["word"].mechanism)
    assert linkable.bits == pytest.approx(31)  # its number, where two plans with one hash key asked it
    assert not linkable.has_payload
    assert metric_linkability(registry("epsilon = 3.0", STRINGS, YEAR)["word"]).bits == pytest.approx(5.755, abs=0.001)
