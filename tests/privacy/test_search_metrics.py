"""What is said of a metric of unknown values: which panels reveal more, and what links answers."""

import pytest

from overstory.privacy.attacks import linkability, metric_linkability
from overstory.privacy.registry.changes import Harm, compare_registries
from overstory.protocol.metrics import parse_registry
from support.registry_texts import registry_text

STRINGS = '{kind = "unknown-strings", max_bytes = 12}'


def text(parameters="epsilon = 3.0", domain=STRINGS, *more):
    return registry_text(*more, metric="word", domain=domain, oracle="prefix-search", parameters=f"{{{parameters}}}")


def registry(*given):
    return parse_registry(text(*given))


YEAR, QUARTER = 'panel = {cycle = "year"}', 'panel = {cycle = "quarter"}'


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
