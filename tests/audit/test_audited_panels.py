"""A client of a metric with a panel: every answer has noise of its own, and one that remembers is found."""

from unittest import mock

import numpy as np
import pytest

from overstory.audit.answers import OwnClient, declare
from overstory.audit.audit import NO_MEMORY, Settings, audit
from overstory.client import session
from overstory.protocol.metrics import parse_registry
from support.registry_texts import registry_of

COLOURS = '{kind = "categories", names = ["red", "green", "blue", "grey"]}'
ONCE, TWICE = "{epsilon = 2.0}", "{epsilon_permanent = 3.0, epsilon_report = 2.0}"
METRICS = {
    "grr": {"parameters": ONCE},
    "oue": {"oracle": '"oue"', "parameters": ONCE},
    "olh": {"oracle": '"olh"', "parameters": ONCE},
    "subset": {"oracle": '"subset"', "parameters": ONCE},
    "l-grr": {"oracle": '"l-grr"', "parameters": TWICE},
    "l-osue": {"oracle": '"l-osue"', "parameters": TWICE},
}
REGISTRY = parse_registry('panel = {cycle = "year"}\n' + registry_of(METRICS, domain=COLOURS, expires="2099-01-01"))


def audited(name):
    metric = REGISTRY[name]
    settings = Settings(reports=3000, alpha=1e-6, own_cohorts=name == "olh", restart=True)
    return audit(declare(metric.mechanism, metric=metric), OwnClient(), settings, rng=np.random.default_rng(1))


@pytest.mark.parametrize("name", METRICS)
def test_the_library_s_own_client_has_noise_of_its_own_in_every_answer(name):
    result = audited(name)
    assert (result.verdict, result.failed) == ("no fault found", [])
    assert "answers of a device" in [check.name for check in result.checks]
    assert not any(check.name.startswith("memory") for check in result.checks)
    assert NO_MEMORY in result.notes


@pytest.mark.parametrize("name", METRICS)
def test_a_client_that_repeats_its_noise_in_another_cycle_is_found(name):
    with mock.patch.object(session, "key_of_answer", lambda key, _: key):
        result = audited(name)
    assert result.verdict == "deviates"
    assert result.failed == ["answers of a device"]
