"""The planner's choice for sets: exact errors, held to simulated collections; and what the command prints."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.analysis.oracle import FrequencyOracle
from overstory.cli.main import main
from overstory.planning.kinds import MOST_LEFT_OUT, other_mechanism, rank_item_mechanisms, sizes_about
from overstory.protocol.errors import ParameterError


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
    sizes = sizes_about(typical, 4)
    ranking = rank_item_mechanisms(8, 4, 2.0, 300, sizes)
    best = {choice.label: choice for choice in reversed(ranking)}
    for seed, choice in enumerate(best.values()):
        assert simulated_error(choice, sizes, 8, 300, seed) == pytest.approx(choice.error, rel=0.06)


def test_grr_at_the_amplified_epsilon_is_chosen_where_there_are_few_items_and_bits_for_large_epsilons():
    assert rank_item_mechanisms(30, 5, 1.0, 10_000)[0].parameters["inner"] == "grr"
    assert rank_item_mechanisms(5_000, 2, 1.0, 10_000)[0].parameters["inner"] in {"oue", "olh"}
    assert rank_item_mechanisms(12, 3, 12.0, 10_000)[0].mechanism.name == "item-bits"


def test_the_length_follows_the_sizes_and_leaves_little_out():
    by_size = [rank_item_mechanisms(100, 20, 1.0, 10**6, sizes_about(t, 20))[0] for t in (1.0, 4.0, 10.0, None)]
    lengths = [choice.parameters["length"] for choice in by_size]
    assert lengths == sorted(lengths)
    assert lengths[-1] == 20
    assert all(choice.left_out <= MOST_LEFT_OUT for choice in by_size)
    assert all(choice.mechanism.epsilon_report <= 1.0 for choice in by_size)
    assert by_size[-1].left_out == 0
    everyone = rank_item_mechanisms(100, 20, 1.0, 10**6)
    assert [c.error for c in everyone] == sorted(c.error for c in everyone)
    assert "item-bits would have" in other_mechanism(everyone)


def test_the_command_prints_the_comparison(capsys):
    given = ["plan", "--domain-size", "30", "--most", "4", "--epsilon", "1", "--reports", "100000"]
    assert main([*given, "--typical", "2"]) == 0
    printed = capsys.readouterr().out
    assert 'Best: oracle = "padding-and-sampling"; parameters = {epsilon = 1.0, length = ' in printed
    assert "item-bits" in printed
    assert main([*given, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"] == min(choice["error"] for choice in answer["ranking"])
    assert math.isclose(answer["error"], math.hypot(answer["standard_error"], 0))
    assert main([*given[:3], "--typical", "2", *given[5:]]) == 2
    assert "--most missing for sets of items" in capsys.readouterr().err
    assert main([*given, "--candidates", "7"]) == 2


@pytest.mark.parametrize("wrong", [{"sizes": [0.0, 0.0]}, {"sizes": [1.0, -1.0]}, {"most": 31}, {"num_reports": 0}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ParameterError):
        rank_item_mechanisms(**{"domain_size": 30, "most": 3, "epsilon": 1.0, "num_reports": 100} | wrong)
