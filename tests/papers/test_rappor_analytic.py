"""RAPPOR's exact results: the bit rows for any value, the limits, the attackers, the epsilons."""

import math
from dataclasses import replace

import numpy as np
import pytest

from overstory.files.rappor import RapporParameters, write_params
from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.kinds.rappor import rappor
from papers.rappor import averaging, figure_3
from papers.rappor.collections import collected
from papers.run import EXPERIMENTS
from papers.study import Context


def run(name, **options):
    return EXPERIMENTS[name].run(Context(EXPERIMENTS[name], options=options))


def by_name(result):
    return {one.name: one for one in result.comparisons}


def test_any_value_and_parameters_are_drawn_and_compared_with_nothing(tmp_path):
    write_params(tmp_path / "params.csv", RapporParameters(k=32, h=2, m=4, p=0.25, q=0.75, f=0.25))
    result = run("rappor-figure-1", value="BADAPPLE.COM", params=tmp_path / "params.csv")
    assert result.verdicts == {"agrees": 0, "differs": 0, "new": 3}
    assert result.inputs["value"] == "BADAPPLE.COM"
    assert "BADAPPLE.COM" in result.figures[0].svg
    assert "of 32" in result.figures[0].svg


def test_the_spread_of_wide_filters_is_the_normal_one(tmp_path):
    write_params(tmp_path / "params.csv", RapporParameters(k=4096, h=2, m=4, p=0.25, q=0.75, f=0.25))
    bits = by_name(run("rappor-figure-1", params=tmp_path / "params.csv"))["bits set in the report"]
    rate = 0.25 + 0.125 / 2
    assert bits.ours == pytest.approx(4094 * rate + 2 * (0.75 - 0.125 / 2))
    assert bits.high - bits.low == pytest.approx(2 * 2.576 * math.sqrt(4096 * rate * (1 - rate)), abs=2)


def test_a_values_name_cannot_break_the_drawing():
    assert run("rappor-figure-1", value="$<&>\\frac").figures[0].png[:4] == b"\x89PNG"


def test_limits_rise_with_reports_and_never_pass_the_list():
    basic = figure_3._basic(100)
    for cardinality in figure_3.CARDINALITIES:
        found = [figure_3.limit(basic, 10.0**power, cardinality) for power in range(4, 12)]
        assert found == sorted(found)
        assert max(found) <= cardinality
        free = [x for x in found if x < cardinality]
        assert np.diff(np.log10(free)) == pytest.approx(0.5)


def test_figure_7_says_what_selecting_simulated_reports_gives():
    from overstory.analysis.oracle import FrequencyOracle
    from papers.rappor.attacker import false_discovery_rate

    mechanism = rappor(num_bits=128, num_hashes=2, num_cohorts=1, f=0.25)
    values, number = ["v", "w"], 200_000
    assert not mechanism.encode("v", 0) & mechanism.encode("w", 0)
    held = np.random.default_rng(1).random(number) >= 0.1
    batch = FrequencyOracle(mechanism).simulate(held.astype(int), np.random.default_rng(2), candidates=values)
    bits = [i for i in range(128) if mechanism.encode("v", 0) >> i & 1]
    chosen = np.all([batch.bits[:, i // 64] >> np.uint64(i % 64) & np.uint64(1) == 1 for i in bits], axis=0)
    rate, expected = held[chosen].mean(), false_discovery_rate(mechanism, 0.1)
    assert abs(rate - expected) < 6 * math.sqrt(expected * (1 - expected) / chosen.sum())


@pytest.mark.parametrize("memoized", [True, False])
def test_the_permanent_round_is_what_stops_averaging(memoized):
    kept = collected(0.5)
    afresh = averaging.on_grid(replace(kept, rounds=Rounds(BinaryChannel.identity(), kept.channel)))
    believed, moved = averaging._one_device(kept if memoized else afresh, 7)
    assert len(believed) == len(averaging.SEEN)
    if memoized:
        assert moved <= kept.epsilon_permanent + 1e-9
        assert believed[-1] == pytest.approx(believed[-2], rel=1e-3)
    else:
        assert afresh.epsilon_report == pytest.approx(kept.epsilon_report, abs=1e-8)
        assert moved > 50
        assert believed[-1] > 0.999
