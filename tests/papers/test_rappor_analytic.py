"""RAPPOR's exact results: the bit rows for any value, the limits, the attackers, the epsilons."""

import math
from dataclasses import replace

import numpy as np
import pytest

from overstory.files.rappor import RapporParameters
from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.kinds.rappor import rappor
from papers.rappor import averaging, figure_3
from papers.rappor.collections import collected
from papers.rappor.figure_1 import compare, live
from papers.run import EXPERIMENTS
from papers.study import Context


def run(name, **options):
    return EXPERIMENTS[name].run(Context(EXPERIMENTS[name], options=options))


def by_name(result):
    return {one.name: one for one in result.comparisons}


def test_the_spread_of_wide_filters_is_the_normal_one():
    mechanism = RapporParameters(k=4096, h=2, m=4, p=0.25, q=0.75, f=0.25).mechanism()
    bits = next(one for one in compare(mechanism, live(mechanism, "68", 1)) if one.name == "bits set in the report")
    rate = 0.25 + 0.125 / 2
    assert bits.ours == pytest.approx(4094 * rate + 2 * (0.75 - 0.125 / 2))
    assert bits.high - bits.low == pytest.approx(2 * 2.576 * math.sqrt(4096 * rate * (1 - rate)), abs=2)


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
