"""A metric's needs, in a registry, become an oracle with parameters: for numbers, unknown values and sets."""

from typing import Any

import pytest

from overstory.analysis.comparison import rank
from overstory.analysis.selection import detectable_frequency
from overstory.planning import kinds
from overstory.planning.kinds import best_for_numbers, worst_error
from overstory.planning.registry import plan_registry
from overstory.protocol.domains import Interval
from overstory.protocol.metrics import RegistryError, parse_registry
from overstory.protocol.numeric import Duchi, Hybrid, Piecewise
from support.registry_texts import registry_text

ROOM = '{kind = "interval", min = -10, max = 50}'
WORD = '{kind = "unknown-strings", max_bytes = 8}'
PLUGINS = '{kind = "set", of = {kind = "integers", min = 1, max = 40}, most = 6}'


def planned(domain: str, needs: str) -> Any:
    """Return what was planned for a metric of this domain, and the registry's new text, which holds it."""
    text = registry_text("max_values = 5", metric="m", domain=domain, oracle="x", without="parameters")
    after, (plan,) = plan_registry(text.replace('oracle = "x"', f"needs = {{{needs}}}"), None)
    assert parse_registry(after)["m"].mechanism.digest == plan.mechanism.digest
    return plan, after


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 0.61, 1.0, 2.0, 5.0])
def test_no_mechanism_has_a_smaller_worst_error(epsilon: float) -> None:
    best = best_for_numbers(epsilon, Interval(-10, 50), 64)
    each = [worst_error(kind(epsilon, Interval(-10, 50), 64), 100) for kind in (Duchi, Piecewise, Hybrid)]
    assert worst_error(best, 100) == pytest.approx(min(each))
    assert best.epsilon_report <= epsilon


@pytest.mark.parametrize(
    ("estimate", "oracle"),
    [("", "hybrid"), (', estimate = "mean"', "hybrid"), (', estimate = "distribution"', "square-wave")],
)
def test_numbers_have_an_oracle_for_what_is_to_be_estimated(estimate: str, oracle: str) -> None:
    plan, text = planned(ROOM, f"epsilon_report = 1.0, reports = 10000{estimate}")
    assert f'oracle = "{oracle}"\nparameters = {{epsilon = 1.0, resolution = 64}}' in text
    assert plan.metric_json()["oracle"] == oracle
    assert plan.metric_words().startswith(f'm: oracle = "{oracle}"')


def test_a_kind_without_a_planner_of_its_own_is_planned_by_its_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "PLANNERS", {})
    plan, text = planned('{kind = "integers", min = 1, max = 40}', "epsilon_report = 1.0, reports = 10000")
    assert plan.error == pytest.approx(rank(40, 1.0, 10_000)[0].standard_error)
    assert "parameters = {epsilon = 1.0}" in text


def test_a_search_is_written_in_place_of_the_needs() -> None:
    search, _ = planned(WORD, "epsilon_report = 3.0, reports = 500000, waves = 4")
    assert (search.mechanism.waves, search.mechanism.wave) == (4, 1)
    assert 3.0 - 1e-6 < search.mechanism.epsilon_report <= 3.0
    assert search.detected_nine_in_ten == detectable_frequency(search.mechanism.plan, 500_000)
    assert 0 < search.detected_half < search.detected_nine_in_ten < 0.01
    assert "nine times in ten from" in search.metric_words()
    assert search.metric_json()["parameters"] == {"epsilon": 3.0, "waves": 4}


def test_shorter_codes_see_more() -> None:
    plain, short = (
        planned(domain, "epsilon_report = 3.0, reports = 500000")[0].detected_nine_in_ten
        for domain in (WORD.replace("8", "20"), '{kind = "unknown-integers", bits = 64}')
    )
    assert short < 0.8 * plain


def test_needs_of_a_set_become_an_oracle() -> None:
    sets, _ = planned(PLUGINS, "epsilon_report = 1.0, reports = 100000, typical = 2")
    assert sets.mechanism.parameters["length"] < 6
    assert "item-bits would have" in sets.metric_words()
    assert 0 < sets.error < sets.detected_half < sets.detected_nine_in_ten < 1


@pytest.mark.parametrize(
    ("domain", "needs", "says"),
    [
        (ROOM, "reports = 100", "needs lack epsilon_report"),
        (ROOM, 'epsilon_report = 1.0, reports = 100, estimate = "median"', "give mean or distribution"),
        (ROOM, "epsilon_report = 1.0, reports = 100, epsilon_permanent = 2.0", "epsilon_permanent: no such key"),
        (ROOM, "epsilon_report = 1.0, reports = 100, resolution = 1", "resolution"),
        (WORD, "reports = 1000", "needs lack epsilon_report"),
        (WORD, "epsilon_report = 1.0", "how many reports"),
        (WORD, "epsilon_report = 1.0, epsilon_permanent = 2.0, reports = 9", "epsilon_permanent: no such key"),
        (WORD, "epsilon_report = 1.0, reports = 9, waves = 0", "waves"),
        (PLUGINS, "reports = 1000", "needs lack epsilon_report"),
        (PLUGINS, "epsilon_report = 1.0, reports = 1000, typical = 7", "typical = 7: give the mean size of a set"),
        (PLUGINS, "epsilon_report = 1.0, reports = 1000, typical = true", "True: give a number"),
        (PLUGINS, "epsilon_report = 1.0, epsilon_permanent = 2.0, reports = 10", "epsilon_permanent: no such key"),
    ],
)
def test_wrong_needs_are_named(domain: str, needs: str, says: str) -> None:
    with pytest.raises(RegistryError, match=says):
        planned(domain, needs)
