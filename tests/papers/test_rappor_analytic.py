"""RAPPOR's exact results: the bit rows for any value, the limits, the attackers, the epsilons."""

import math
from dataclasses import replace

import numpy as np
import pytest

from overstory.files.rappor import RapporParameters, write_params
from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.mechanisms.bits import rappor
from papers.rappor import attacker, averaging, coins, figure_1, figure_3
from papers.rappor.collections import collected
from papers.run import EXPERIMENTS
from papers.study import Context


def run(name, **options):
    return EXPERIMENTS[name].run(Context(EXPERIMENTS[name], options=options))


def by_name(result):
    return {one.name: one for one in result.comparisons}


def test_the_papers_value_is_compared_with_the_papers_run():
    result = run("rappor-figure-1")
    assert result.verdicts == {"agrees": 2, "differs": 0, "new": 1}  # two bits of two cannot differ: no verdict
    assert result.tables[0].rows[0][1] == 4


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


def test_one_device_keeps_its_permanent_bits_and_draws_its_reports_afresh():
    mechanism = rappor(num_bits=64, num_hashes=2, num_cohorts=4)
    life, other = figure_1.live(mechanism, "oak", 1), figure_1.live(mechanism, "oak", 2)
    assert life == figure_1.live(mechanism, "oak", 1)
    assert life.permanent != other.permanent
    assert len(set(life.reports)) == len(life.reports)


def test_the_spread_of_set_bits_is_the_one_that_reports_have():
    mechanism, entropy = figure_1.PAPERS.mechanism(), np.random.default_rng(1)
    from overstory.analysis.oracle import FrequencyOracle

    batch = FrequencyOracle(mechanism).simulate(np.zeros(20_000, int), entropy, candidates=["68"])
    ones = np.bitwise_count(batch.bits).sum(axis=1)
    compared = by_name(run("rappor-figure-1"))["bits set in the report"]
    assert abs(ones.mean() - compared.ours) < 6 * ones.std() / math.sqrt(len(ones))
    inside = np.mean((ones >= compared.low) & (ones <= compared.high))
    assert inside == pytest.approx(0.99, abs=0.01)


def test_a_sum_of_binomials_is_what_multiplying_out_gives():
    assert figure_1._sum_of_binomials([(1, 0.25), (2, 0.5)]) == pytest.approx([0.1875, 0.4375, 0.3125, 0.0625])


def test_limits_rise_with_reports_and_never_pass_the_list():
    basic = figure_3._basic(100)
    for cardinality in figure_3.CARDINALITIES:
        found = [figure_3.limit(basic, 10.0**power, cardinality) for power in range(4, 12)]
        assert found == sorted(found)
        assert max(found) <= cardinality
        free = [x for x in found if x < cardinality]
        assert np.diff(np.log10(free)) == pytest.approx(0.5)


def test_half_of_the_strings_at_the_limit_are_found_and_hardly_any_beyond():
    found = by_name(run("rappor-figure-3"))["share found of strings at the limit, N = 10^5, M = 100"]
    assert 0.4 < found.ours < 0.6


def test_the_coins_posterior_is_the_ratio_of_their_likelihoods():
    for yes in (0, 50, 75, 100):
        assert coins.posterior_no(yes, 100) == pytest.approx(1 / (1 + 3.0 ** (2 * yes - 100)), rel=1e-12)


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


def test_less_noise_tells_an_attacker_more():
    rows = run("rappor-figure-7").tables[0].rows
    for row in rows:
        assert list(row[1:]) == sorted(row[1:])
    assert attacker.RARE == 0.1


@pytest.mark.parametrize(("identified", "said"), [(0.0, "fails"), (0.5, "succeeds against some"), (1.0, "succeeds")])
def test_an_attack_is_called_what_it_was(identified, said):
    assert averaging._outcome(identified) == said


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
