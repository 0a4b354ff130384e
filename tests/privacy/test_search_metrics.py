"""What is said of a metric of unknown values: its page, its cost, and which changes reveal more."""

import datetime as dt

import pytest

from overstory.client.randomizer import Randomizer
from overstory.privacy.attacks import linkability
from overstory.privacy.registry.changes import Harm, compare_registries
from overstory.privacy.registry.cost import metric_cost
from overstory.privacy.registry.page import metric_page
from overstory.privacy.registry.warnings import registry_warnings
from overstory.protocol.metrics import parse_registry
from support.registry_texts import registry_text

STRINGS = '{kind = "unknown-strings", max_bytes = 12}'


def text(parameters="epsilon = 3.0", domain=STRINGS, *more):
    return registry_text(*more, metric="word", domain=domain, oracle="prefix-search", parameters=f"{{{parameters}}}")


def registry(*given):
    return parse_registry(text(*given))


def test_the_page_says_that_a_device_answers_once():
    page = metric_page(registry("epsilon = 3.0, wave = 1, waves = 4")["word"])
    facts = dict(page.facts)
    assert facts["What a report can be about"].startswith("any text of at most 12 bytes; any other text")
    assert "one report per device, and no other" in facts["How often"]
    assert "one device in 4 is asked, the others stay for later plans" in facts["How often"]
    assert facts["How many values"] == "one: the value that the device has when it reports"
    words = page.privacy.plain_words()
    assert "A device sends one report by these parameters, and no other" in words
    assert "each different value adds" not in words


def test_whatever_a_person_holds_costs_one_epsilon():
    metric = registry()["word"]
    cost = metric_cost(metric, 365)
    assert cost.reports == 1
    assert {line.epsilon for line in cost.lines} == {metric.mechanism.epsilon_report}
    assert cost.epsilon_pattern == metric.mechanism.epsilon_report
    assert "the only one that a device sends by these parameters" in cost.headline.about


KNOWN = STRINGS.replace("12", '12, known = ["oak", "elm"]')
PLAN = "epsilon = 3.0, wave = 1, waves = 3"


@pytest.mark.parametrize(
    ("new", "weakens"),
    [
        (("epsilon = 3.0, wave = 2, waves = 3",), None),  # another wave asks other devices
        (("epsilon = 3.0, wave = 2, waves = 3", KNOWN), None),  # though it asks another question
        (("epsilon = 3.0, wave = 2, waves = 4",), "cost"),  # these ask devices again
        (("epsilon = 2.0, wave = 1, waves = 3",), "cost"),
        (("epsilon = 3.0, beam = 64, waves = 3",), "cost"),
        (("epsilon = 4.0, wave = 2, waves = 3",), "epsilon 3.0000 becomes 4.0000"),  # of others, but more
    ],
)
def test_a_plan_weakens_where_it_asks_a_device_again_or_for_more(new, weakens):
    found = compare_registries(registry(PLAN), registry(*new))
    worse = [change.detail for change in found if change.kind is Harm.WEAKENS]
    assert any(weakens in detail for detail in worse) if weakens else not worse
    assert weakens or any("other devices are asked" in change.detail for change in found)


FIRST, SECOND = (registry(f"epsilon = 3.0, wave = {wave}, waves = 2") for wave in (1, 2))
FIRST_AGAIN = registry("epsilon = 3.0, wave = 1, waves = 2", KNOWN)
ALL, IN_THREE = registry("epsilon = 2.0"), registry("epsilon = 1.0, wave = 3, waves = 3")


def of_the_past(*registries):
    """Return what is said of devices that have answered."""
    return [c for c in compare_registries(*registries) if c.what in {"parameters", "domain"} and c.kind != Harm.BREAKS]


def test_a_wave_that_an_earlier_registry_asked_answers_again_whatever_the_last_one_asked():
    """Of ten devices, those of the first wave answer by the first plan and by the third."""
    (said,) = of_the_past(FIRST, SECOND, FIRST_AGAIN)
    assert said.kind is Harm.WEAKENS
    assert said.detail.endswith("all reports of one value cost 6.0000 together, where 3.0000 was promised")
    numbers = [Randomizer(SECOND["word"].mechanism, secret=bytes([n]) * 32, metric="word").cohort for n in range(10)]
    asked = [[each["word"].mechanism.asks(number) for number in numbers] for each in (FIRST, SECOND, FIRST_AGAIN)]
    assert any(asked[0])
    assert asked[0] == asked[2] == [not one for one in asked[1]]


def test_two_registries_alone_cannot_say_that_no_device_answers_again():
    (said,) = of_the_past(SECOND, FIRST_AGAIN)
    assert said.kind is Harm.HARMLESS
    assert said.detail.endswith("none that an earlier registry of these asked")


@pytest.mark.parametrize(
    ("registries", "cost"),
    [
        ((FIRST, SECOND, FIRST), None),  # these have answered, and answer no more
        ((FIRST, FIRST_AGAIN, FIRST), "cost 6.0000 together, where 3.0000 was promised; "),
        ((FIRST, SECOND, ALL), "cost 5.0000 together, where 3.0000 was promised"),  # each device in one wave
        ((FIRST, SECOND, IN_THREE), "cost 4.0000 together, where 3.0000 was promised"),
        ((FIRST, ALL, SECOND), "cost 5.0000 together, where 2.0000 was promised"),
        ((FIRST, SECOND, ALL, IN_THREE), "cost 6.0000 together, where 2.0000 was promised"),
    ],
)
def test_each_device_pays_for_the_plans_that_ask_it(registries, cost):
    (said,) = of_the_past(*registries)
    assert said.kind is (Harm.WEAKENS if cost else Harm.HARMLESS)
    assert (cost or "other devices are asked") in said.detail


def test_keys_that_have_no_effect_are_warned_of_and_no_cap_is_asked_for():
    more = "epsilon = 3.0", STRINGS, "max_values = 3"
    (warning,) = registry_warnings(registry(*more), text(*more), dt.date(2026, 11, 23))
    assert warning.field == "metrics.word.max_values"
    assert "has no effect" in warning.message
    assert registry_warnings(registry(), text(), dt.date(2026, 11, 23)) == []


def test_two_answers_of_a_device_share_its_number_alone():
    built = registry("epsilon = 3.0, wave = 1, waves = 4")["word"].mechanism
    linkable = linkability(built)
    assert linkable.bits == pytest.approx(29)  # of 31: who is asked in a wave of four
    assert not linkable.has_payload
