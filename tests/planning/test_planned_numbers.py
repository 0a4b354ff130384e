"""A metric of numbers is planned from its needs: the mechanism whose mean has the least error in the worst case."""

import pytest

from overstory.planning.registry import best_for_mean, plan_registry, worst_error
from overstory.protocol.domains import Interval
from overstory.protocol.metrics.toml_fields import RegistryError
from overstory.protocol.numeric import Duchi, Hybrid, Piecewise
from support.registry_texts import registry_text

ROOM = '{kind = "interval", min = -10, max = 50}'


def needing(needs):
    text = registry_text(metric="room", domain=ROOM, oracle="hybrid")
    return text.replace('oracle = "hybrid"\nparameters = {epsilon = 1.0}', f"needs = {needs}")


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 0.61, 1.0, 2.0, 5.0])
def test_no_mechanism_has_a_smaller_worst_error(epsilon):
    best = best_for_mean(epsilon, Interval(-10, 50), 64)
    each = [worst_error(kind(epsilon, Interval(-10, 50), 64), 100) for kind in (Duchi, Piecewise, Hybrid)]
    assert worst_error(best, 100) == pytest.approx(min(each))
    assert best.epsilon_report <= epsilon


@pytest.mark.parametrize(
    ("estimate", "oracle"),
    [("", "hybrid"), (', estimate = "mean"', "hybrid"), (', estimate = "distribution"', "square-wave")],
)
def test_the_plan_is_written_into_the_registry(estimate, oracle):
    text, (planned,) = plan_registry(needing(f"{{epsilon_report = 1.0, reports = 10000{estimate}}}"), None)
    assert f'oracle = "{oracle}"\nparameters = {{epsilon = 1.0, resolution = 64}}' in text
    assert planned.to_json()["oracle"] == oracle
    assert planned.plain_words().startswith(f'room: oracle = "{oracle}"')


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ("{reports = 100}", "needs lack epsilon_report"),
        ('{epsilon_report = 1.0, reports = 100, estimate = "median"}', "give mean or distribution"),
        ("{epsilon_report = 1.0, reports = 100, epsilon_permanent = 2.0}", "epsilon_permanent"),
        ("{epsilon_report = 1.0, reports = 100, resolution = 1}", "resolution"),
    ],
)
def test_needs_that_cannot_be(needs, says):
    with pytest.raises(RegistryError) as refused:
        plan_registry(needing(needs), None)
    assert says in str([fault.message for fault in refused.value.faults]) + str(refused.value)
