"""Needs of a metric of unknown values: the plan that follows, and what it can see."""

import pytest

from overstory.analysis.selection import detectable_frequency
from overstory.planning.registry import plan_registry
from overstory.protocol.metrics import RegistryError, parse_registry
from support.registry_texts import registry_text


def text(needs, domain='{kind = "unknown-strings", max_bytes = 8}'):
    whole = registry_text(metric="word", domain=domain, oracle="x", without="parameters")
    return whole.replace('oracle = "x"', f"needs = {needs}")


def test_a_search_is_written_in_place_of_the_needs():
    before = text("{epsilon_report = 3.0, reports = 500000, waves = 4}")
    after, (planned,) = plan_registry(before, None)
    metric = parse_registry(after)["word"]
    assert (metric.mechanism.waves, metric.mechanism.wave) == (4, 1)
    assert 3.0 - 1e-6 < metric.mechanism.epsilon_report <= 3.0
    assert planned.mechanism == metric.mechanism
    assert planned.detected_nine_in_ten == detectable_frequency(metric.mechanism.plan, 500_000)
    assert 0 < planned.detected_half < planned.detected_nine_in_ten < 0.01
    assert "nine times in ten from" in planned.plain_words()
    assert planned.to_json()["parameters"] == {"epsilon": 3.0, "waves": 4}


def test_shorter_codes_see_more():
    plain, short = (
        plan_registry(text("{epsilon_report = 3.0, reports = 500000}", domain), None)[1][0].detected_nine_in_ten
        for domain in ('{kind = "unknown-strings", max_bytes = 20}', '{kind = "unknown-integers", bits = 64}')
    )
    assert short < 0.8 * plain


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ("{reports = 1000}", "epsilon_report"),
        ("{epsilon_report = 1.0}", "how many reports"),
        ("{epsilon_report = 1.0, epsilon_permanent = 2.0, reports = 9}", "no such key"),
        ("{epsilon_report = 1.0, reports = 9, waves = 0}", "waves"),
    ],
)
def test_wrong_needs_are_a_fault(needs, message):
    with pytest.raises(RegistryError, match=message):
        plan_registry(text(needs), None)
