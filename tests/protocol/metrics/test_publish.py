"""The keys `publish` and `opt_out`: read, checked, compared, shown; no digest of stored data depends on them."""

import datetime as dt

import pytest

from overstory.privacy.registry.warnings import registry_warnings
from overstory.protocol.metrics import RegistryError, parse_registry
from overstory.protocol.metrics.registry import EXAMPLE

STOP = "Settings, Privacy, <b>Send statistics</b>"
PUBLISHED = EXAMPLE.replace("[metrics.colour]", f'opt_out = "{STOP}"\n[metrics.colour]') + 'publish = "estimates"\n'
SHORT = PUBLISHED.replace("retention_days = 90", "retention_days = 30")


def test_nothing_is_published_unless_the_registry_says_so() -> None:
    registry = parse_registry(EXAMPLE)
    assert (registry["colour"].publish, registry.opt_out) == ("nothing", None)
    registry = parse_registry(PUBLISHED)
    assert (registry["colour"].publish, registry.opt_out) == ("estimates", STOP)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (EXAMPLE + 'publish = "estimates"\n', "stops the collection, because estimates of colour are published"),
        (PUBLISHED.replace(STOP, " "), "opt_out: give a sentence on how a person stops the collection"),
        (PUBLISHED.replace(f'"{STOP}"', "7"), "opt_out: give a sentence"),
        (EXAMPLE + 'publish = "estimate"\n', "publish: 'estimate'; did you mean estimates? choose one of nothing, est"),
        (PUBLISHED + "publish_least = 1\n", "publish_least: 1: give a whole number from 2 to"),
        (SHORT, "publish: a period is published from the end of its 30 grace_days to that of its 30 retention_days"),
        (EXAMPLE + "publish = true\n", "publish: True: choose one of nothing, estimates"),
        (EXAMPLE.replace("registry =", "optout = 'x'\nregistry ="), "optout: no such key; did you mean opt_out?"),
    ],
)
def test_a_wrong_key_is_a_fault_with_what_would_be_right(text: str, fault: str) -> None:
    with pytest.raises(RegistryError) as raised:
        parse_registry(text)
    assert fault in str(raised.value)


def test_lint_warns_of_few_reports() -> None:
    few = PUBLISHED + "publish_least = 20\n"
    warned = registry_warnings(parse_registry(few), few, dt.date(2026, 11, 21))
    (said,) = [fault.message for fault in warned if fault.field == "metrics.colour.publish_least"]
    assert said == "estimates of 20 reports are close to the reports: 100 are usual"


def test_lint_warns_of_estimates_that_there_cannot_be() -> None:
    strings = PUBLISHED.replace('kind = "categories", names = ["red", "green", "blue"]', 'kind = "strings"')
    strings = strings.replace('"grr"', '"rappor"').replace(
        "{epsilon = 1.0}", "{num_bits = 16, num_cohorts = 4, num_hashes = 2, f = 0.5, p = 0.25, q = 0.75}"
    )
    today = dt.date(2026, 11, 21)
    warned = registry_warnings(parse_registry(strings), strings, today)
    (said,) = [fault.message for fault in warned if fault.field.endswith(".publish")]
    assert said == "strings without a file of candidates have no estimates to publish: name a file in the domain"
    fine = registry_warnings(parse_registry(PUBLISHED), PUBLISHED, today)
    assert not any("publish" in fault.field for fault in fine)
