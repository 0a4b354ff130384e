"""What a metric's public page says, and what metrics cost together."""

import datetime as dt
import math
from dataclasses import replace
from pathlib import Path

import pytest

from overstory.planning.kinds import plan_registry
from overstory.presentation.formats import epsilon_text
from overstory.privacy.ledger import Account, Ledger
from overstory.privacy.registry.cost import (
    budget_words,
    metric_cost,
    most_in_a_year,
    total_costs,
    totals_so_far,
    yearly,
)
from overstory.privacy.registry.page import metric_page, metric_statement
from overstory.privacy.statements import claims_blocks
from overstory.privacy.terms import metric_terms, terms_of
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.metrics import PersonBudget, load_registry, parse_registry
from overstory.protocol.metrics.groups import Groups
from support.registry_texts import example_text, plain_registry, registry_text

TODAY = dt.date(2026, 11, 21)
EXAMPLES = load_registry(Path(__file__).parents[2] / "examples" / "metrics.toml")
BINS = '{kind = "bins", min = 0, max = 2, count = 10, outside = "OUTSIDE"}'
NUMBERS = '{kind = "integers", min = 1, max = 6, outside = "OUTSIDE"}'


def facts(*more, **instead):
    metric = parse_registry(example_text(*more, **instead))["colour"]
    return dict(metric_page(metric).facts)


@pytest.mark.parametrize("domain", [BINS, NUMBERS])
@pytest.mark.parametrize(
    ("outside", "says"),
    [
        ("clamp", "counts as the nearest"),
        ("reject", "is reported as nothing"),
        ("separate", "as below or above, and not how far"),
    ],
)
def test_what_happens_to_values_outside_is_said(domain, outside, says):
    assert facts(domain=domain.replace("OUTSIDE", outside))["What a report can be about"].endswith(says)


def test_sets_are_counted_as_sets():
    sets = {"domain": '{kind = "set", of = ["a", "b", "c", "d"], most = 2}', "oracle": '"item-bits"'}
    assert facts(**sets, parameters="{epsilon = 1.0}")["How many values"] == "all 16 sets"


def test_how_long():
    counts = "randomized reports: 90 days; then only counts of 10 or more reports together"
    assert facts()["Kept for"].startswith(counts)
    assert facts(retention_days="0")["Kept for"].startswith("randomized reports: until their period is over; then only")
    assert facts("grace_days = 0")["Kept for"].endswith("a report that comes after its period is not counted")


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_every_epsilon_of_the_page_is_from_the_one_function_and_the_unconditional_one_is_first(name):
    metric = EXAMPLES[name]
    page = metric_page(metric)
    assert page.claims == metric_cost(metric).lines
    assert page.claims[0].about.startswith("whatever you hold and however it changes")
    assert page.claims[0].epsilon == metric_terms(metric).epsilon_any(most_in_a_year(metric))
    assert page.claims[0].epsilon == yearly([metric]).epsilon
    table, numbered = claims_blocks(page.claims)
    rows = list(table.cells())
    assert [row[0] for row in rows] == [claim.about for claim in page.claims]
    notes = {text.partition("] ")[2]: f"{text.partition(']')[0]}]" for text in numbered.texts}
    assert list(notes.values()) == [f"[{number}]" for number in range(1, len(notes) + 1)]
    for claim, (_, epsilon, _, marks) in zip(page.claims, rows, strict=True):
        assert epsilon == claim.epsilon_words
        assert epsilon.startswith(epsilon_text(claim.epsilon))
        assert notes[claim.assumption] in marks


@pytest.mark.parametrize(("limits", "most"), [({}, 3.0), ({"age": 2.0}, 2.0), ({"sex": 2.0}, 3.0), ({"age": 9.0}, 3.0)])
def test_a_year_ends_with_the_budget_that_its_reports_count_against(limits, most):
    metric = replace(EXAMPLES["meter-window"], attribute="age")
    budget = PersonBudget(3.0, limits)
    page = metric_page(metric, budget=budget)
    assert page.claims[0].epsilon == most
    assert page.claims[0].about.endswith("until the budget is used up")
    assert page.claims[1:] == metric_cost(metric).lines[1:]
    other = replace(metric, attribute=None)
    assert yearly([metric, other], budget).epsilon == 3.0


def test_no_cap_and_fresh_noise_are_without_bound():
    strings = parse_registry(example_text(domain='{kind = "strings"}', oracle='"rappor"', parameters="{}"))["colour"]
    values = metric_cost(strings).line("values")
    assert math.isinf(values.epsilon)
    assert "no cap" in values.words
    assert "any number" in dict(metric_page(strings).facts)["How many values"]
    window = metric_cost(EXAMPLES["meter-window"])
    assert window.line("values") is None
    # A year, and the window; n reports of fresh noise cost n times one.
    assert [line.kind for line in window.lines] == ["any", "any", "report"]


def test_a_window_is_stated_and_what_is_asked_for():
    stated = metric_statement(parse_registry(example_text("window = 5000"))["colour"], reports=[7])
    assert {7, 5000} <= stated.epsilon_n.keys()


PANEL = 'panel = {cycle = "year", answers = 1}'
OFTEN = example_text(
    'panel = "none"', 'attribute = "tint"', oracle='"opt-wb"', parameters="{epsilon = 0.05, window = 1}"
)
ALWAYS = "\n\n" + OFTEN.partition("\n\n")[2].replace("colour", "often")


def test_a_yearly_budget_that_no_year_reaches_is_said_to_have_no_end():
    registry = parse_registry(example_text(PANEL, ALWAYS, parameters="{epsilon = 4.0}"))
    for epsilon, said in ((9.0, "often alone never reaches its end."), (1.0, "After 20 reports of often")):
        assert said in " ".join(budget_words(PersonBudget(epsilon, per="year"), registry.values()))


def test_an_attribute_is_added_up_where_several_metrics_share_it():
    """Of one metric alone its own lines say it, before there are reports and after."""
    grr = mechanism("grr", domain_size=4, epsilon=1.0)
    shared = {"one": "age", "two": "age", "three": "taste", "four": None}
    metric = EXAMPLES["meter-memo"]
    metrics = [replace(metric, id=name, attribute=attribute) for name, attribute in shared.items()]
    accounts = [Account(name, "", terms_of(grr), ((0, 2),), attribute=about) for name, about in shared.items()]
    listed = replace(EXAMPLES, metrics={metric.id: metric for metric in metrics})
    planned = total_costs([metric_cost(one) for one in metrics], listed)
    for totals in (planned, totals_so_far(Ledger(tuple(accounts)))):
        assert [(total.attribute, len(total.metrics)) for total in totals] == [(None, 4), ("age", 2)]
    (alone,) = total_costs([metric_cost(metrics[0])], listed)
    assert alone.attribute is None
    assert total_costs([], listed) == totals_so_far(Ledger()) == ()
    total, of_age = total_costs([metric_cost(one) for one in metrics], listed)
    assert total.headline == yearly(metrics)
    assert of_age.headline == yearly(metrics[:2])


RELEASES = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'


def registry(groups=None, **keys):
    return parse_registry(plain_registry("m", **({} if groups is None else {"groups": groups}), **keys))


def test_the_page_says_what_is_sent_in_clear():
    facts = dict(metric_page(registry(RELEASES)["m"]).facts)
    assert facts["What is sent in clear"] == (
        "release, one of 1.0, 1.1, other: the group that the device is in. No noise protects it: epsilon protects the "
        "value alone. By public shares, each group has at least 1,000 devices"
    )
    assert "What is sent in clear" not in dict(metric_page(registry()["m"]).facts)


@pytest.mark.parametrize("window", [True, False])
def test_a_plan_counts_the_rarest_group_among_what_links_reports(window):
    needs = "needs = {epsilon_window = 2.0, window = 4, reports = 10000}"
    needs = needs if window else "needs = {epsilon_report = 1.0, reports = 10000}"
    text = registry_text(f"groups = {RELEASES}", needs).replace('oracle = "grr"\nparameters = {epsilon = 1.0}\n', "")
    (planned,) = plan_registry(text, None)[1]
    words = planned.metric_words()
    assert "nothing stays the same" not in words
    said = "in the group other (10% of all devices, whatever their value), the same in every report: 3.4 bits; of a mil"
    assert said in words
    assert planned.linkable.always.bits == pytest.approx(math.log2(10))


def test_a_group_of_which_nobody_is_said_to_be_is_at_least_one_device():
    groups = Groups("release", {"1.0": 0.75, "1.1": 0.25}, devices=4000)
    assert groups.with_share() == ("1.1", 0.25)
    assert groups.with_share("other") == ("other", 1 / 4000)
