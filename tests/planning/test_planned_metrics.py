"""A metric's needs, in a registry, become an oracle with parameters: for numbers, unknown values and sets."""

import math
from dataclasses import replace

import numpy as np
import pytest

from overstory.analysis.comparison import rank
from overstory.analysis.kinds.base import SimulatedDevices
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.selection import detectable_frequency
from overstory.planning import kinds
from overstory.planning.kinds import plan_registry
from overstory.presentation.formats import significant
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import RegistryError, parse_registry
from support.registry_texts import registry_text

ROOM = '{kind = "interval", min = -10, max = 50}'
WORD = '{kind = "unknown-strings", max_bytes = 8}'
PLUGINS = '{kind = "set", of = {kind = "integers", min = 1, max = 40}, most = 6}'


def planned(domain, needs):
    """Return what was planned for a metric of this domain, and the registry's new text, which holds it."""
    text = registry_text("max_values = 5", metric="m", domain=domain, oracle="x", without="parameters")
    after, (plan,) = plan_registry(text.replace('oracle = "x"', f"needs = {{{needs}}}"), None)
    assert parse_registry(after)["m"].mechanism.digest == plan.mechanism.digest
    return plan, after


@pytest.mark.parametrize(
    ("estimate", "oracle"),
    [("", "hybrid"), (', estimate = "mean"', "hybrid"), (', estimate = "distribution"', "square-wave")],
)
def test_numbers_have_an_oracle_for_what_is_to_be_estimated(estimate, oracle):
    plan, text = planned(ROOM, f"epsilon_report = 1.0, reports = 10000{estimate}")
    assert f'oracle = "{oracle}"\nparameters = {{epsilon = 1.0, resolution = 64}}' in text
    assert plan.metric_json()["oracle"] == oracle
    assert plan.metric_words().startswith(f'm: oracle = "{oracle}"')
    if oracle == "hybrid":
        within = significant(1.959964 * plan.error)
        assert plan.plot().alt == f"At worst, 95 of 100 estimates of the mean lie within {within} of the truth."


def test_a_kind_without_a_planner_of_its_own_is_planned_by_its_variance(monkeypatch):
    monkeypatch.setattr(kinds, "PLANNERS", {})
    plan, text = planned('{kind = "integers", min = 1, max = 40}', "epsilon_report = 1.0, reports = 10000")
    assert plan.error == pytest.approx(rank(40, 1.0, 10_000)[0].standard_error)
    assert "parameters = {epsilon = 1.0}" in text


def test_a_search_is_written_in_place_of_the_needs():
    search, _ = planned(WORD, "epsilon_report = 3.0, reports = 500000")
    assert 3.0 - 1e-6 < search.mechanism.epsilon_report <= 3.0
    assert search.detected_nine_in_ten == detectable_frequency(search.mechanism.plan, 500_000)
    assert 0 < search.detected_half < search.detected_nine_in_ten < 0.01
    assert "nine times in ten from" in search.metric_words()
    assert search.metric_json()["parameters"] == {"epsilon": 3.0}


def test_what_links_reports_is_of_the_metric_and_its_panel():
    text = registry_text("needs = {epsilon_report = 3.0, reports = 500}", metric="m", domain=WORD, without="parameters")
    text = text.replace('oracle = "grr"\n', "")
    for own, bits in (("", 31), ('panel = {cycle = "year"}\n', math.log2(54))):  # its number; its week of the year
        _, (plan,) = plan_registry(text + own, None)
        assert plan.linkable.bits == pytest.approx(bits)


def test_needs_of_a_set_become_an_oracle():
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
        (WORD, "epsilon_report = 1.0, reports = 9, waves = 2", "waves: no such key"),
        (PLUGINS, "reports = 1000", "needs lack epsilon_report"),
        (PLUGINS, "epsilon_report = 1.0, reports = 1000, typical = 7", "typical = 7: give the mean size of a set"),
        (PLUGINS, "epsilon_report = 1.0, reports = 1000, typical = true", "True: give a number"),
        (PLUGINS, "epsilon_report = 1.0, epsilon_permanent = 2.0, reports = 10", "epsilon_permanent: no such key"),
    ],
)
def test_wrong_needs_are_named(domain, needs, says):
    with pytest.raises(RegistryError, match=says):
        planned(domain, needs)


def simulated_error(choice, sizes, domain_size, reports, seed, blocks=300):
    """Root mean squared error of a share over simulated collections of sets of equally frequent items."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(sizes), size=reports * blocks, p=sizes)
    order = np.argsort(rng.random((reports * blocks, domain_size)), axis=1)
    sets = [tuple(sorted(row[:size].tolist())) for row, size in zip(order, drawn, strict=True)]
    oracle = FrequencyOracle(choice.mechanism)
    batch = SimulatedDevices.holding(choice.mechanism, sets, np.arange(len(sets)), rng).report()
    errors = []
    for start in range(0, len(sets), reports):
        rows = slice(start, start + reports)
        counts = oracle.accumulate(replace(batch, cohorts=batch.cohorts[rows], bits=batch.bits[rows]))
        truth = np.bincount([item for items in sets[rows] for item in items], minlength=domain_size) / reports
        errors.append(oracle.estimate(counts).raw_frequencies - truth)
    return float(np.sqrt(np.mean(np.square(errors))))


@pytest.mark.slow
@pytest.mark.parametrize("typical", [2.0, None])
def test_the_errors_are_those_of_simulated_collections(typical):
    """300 collections of 8 items: a standard error of 1.5% of the error; within 6% for each of some four choices."""
    sizes = kinds.sizes_about(typical, 4)
    ranking = kinds.rank_item_mechanisms(8, 4, 2.0, 300, sizes)
    best = {choice.parameters.get("inner"): choice for choice in reversed(ranking)}
    for seed, choice in enumerate(best.values()):
        assert simulated_error(choice, sizes, 8, 300, seed) == pytest.approx(choice.error, rel=0.06)


def test_grr_at_the_amplified_epsilon_is_chosen_where_there_are_few_items_and_bits_for_large_epsilons():
    assert kinds.rank_item_mechanisms(30, 5, 1.0, 10_000)[0].parameters["inner"] == "grr"
    assert kinds.rank_item_mechanisms(5_000, 2, 1.0, 10_000)[0].parameters["inner"] in {"oue", "olh"}
    assert kinds.rank_item_mechanisms(12, 3, 12.0, 10_000)[0].mechanism.name == "item-bits"


def test_the_length_follows_the_sizes_and_leaves_little_out():
    by_size = [
        kinds.rank_item_mechanisms(100, 20, 1.0, 10**6, kinds.sizes_about(t, 20))[0] for t in (1.0, 4.0, 10.0, None)
    ]
    lengths = [choice.parameters["length"] for choice in by_size]
    assert lengths == sorted(lengths)
    assert lengths[-1] == 20
    assert all(choice.left_out <= kinds.MOST_LEFT_OUT for choice in by_size)
    assert all(choice.mechanism.epsilon_report <= 1.0 for choice in by_size)
    assert by_size[-1].left_out == 0
    everyone = kinds.rank_item_mechanisms(100, 20, 1.0, 10**6)
    assert [c.error for c in everyone] == sorted(c.error for c in everyone)
    assert "item-bits would have" in kinds.other_mechanism(everyone)


@pytest.mark.parametrize("wrong", [{"sizes": [0.0, 0.0]}, {"sizes": [1.0, -1.0]}, {"most": 31}, {"num_reports": 0}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ParameterError):
        kinds.rank_item_mechanisms(**{"domain_size": 30, "most": 3, "epsilon": 1.0, "num_reports": 100} | wrong)
