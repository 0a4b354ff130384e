"""What is said of a metric of unknown values: its page, its cost, and which changes reveal more."""

import datetime as dt

import pytest

from overstory.privacy.attacks import linkability
from overstory.privacy.payloads.registry import disclosure_of
from overstory.privacy.registry.changes import Kind, asks_others, compare_registries
from overstory.privacy.registry.cost import metric_cost
from overstory.privacy.registry.page import metric_page
from overstory.privacy.registry.warnings import registry_warnings
from overstory.protocol.mechanisms.registry import mechanism
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
    assert cost.pattern == metric.mechanism.epsilon_report
    assert "the only one that a device sends by these parameters" in cost.headline.about


def changes(old, new, domain=STRINGS):
    return [(change.kind, change.detail) for change in compare_registries(registry(old), registry(new, domain))]


def test_another_wave_asks_other_devices_and_weakens_nothing():
    found = changes("epsilon = 3.0, wave = 1, waves = 3", "epsilon = 3.0, wave = 2, waves = 3")
    assert Kind.WEAKENS not in {kind for kind, _ in found}
    assert any("other devices are asked" in detail for _, detail in found)


def test_expected_values_in_a_later_wave_weaken_nothing_though_another_question_is_asked():
    later = STRINGS.replace("12", '12, known = ["oak", "elm"]')
    found = changes("epsilon = 3.0, wave = 1, waves = 3", "epsilon = 3.0, wave = 2, waves = 3", later)
    assert Kind.WEAKENS not in {kind for kind, _ in found}


@pytest.mark.parametrize(
    "new",
    ["epsilon = 3.0, wave = 2, waves = 4", "epsilon = 2.0, wave = 1, waves = 3", "epsilon = 3.0, beam = 64, waves = 3"],
)
def test_a_plan_that_asks_devices_again_weakens(new):
    found = changes("epsilon = 3.0, wave = 1, waves = 3", new)
    assert any(kind is Kind.WEAKENS and "cost" in detail for kind, detail in found)


def test_a_wave_of_more_epsilon_weakens_though_it_asks_others():
    found = changes("epsilon = 3.0, wave = 1, waves = 3", "epsilon = 4.0, wave = 2, waves = 3")
    assert (Kind.WEAKENS, "epsilon 3.0000 becomes 4.0000") in found


def test_devices_of_any_other_mechanism_are_all_asked():
    grr = mechanism("grr", domain_size=4, epsilon=1.0)
    first = registry("epsilon = 3.0, wave = 1, waves = 2")["word"].mechanism
    assert not asks_others(grr, grr)
    assert not asks_others(grr, first)


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
    assert disclosure_of(built).payload.bits > linkable.bits
