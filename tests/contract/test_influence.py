"""A liar's votes: the change of an estimate by one appended report, of every oracle whose estimate is a closed form."""

import itertools

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism
from support.contract_cases import SMALL_CASES


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", SMALL_CASES, ids=str)
def test_a_report_moves_a_count_by_its_votes(case):
    built = case.build()
    oracle, drawn = FrequencyOracle(built), np.random.default_rng(7)
    if built.encoding.decoded or built.encoding.uneven or not built.encoding.pure:
        assert built.influence.up >= 1  # a fit, or a share of who was asked: below
        return
    values = list(range(built.domain_size)) if built.domain_size else ["oak", "elm", "ash"]
    candidates = None if built.domain_size else values
    honest = oracle.simulate(drawn.integers(0, len(values), 200), drawn, candidates=candidates)
    cohorts = range(min(built.num_cohorts, 2))
    every = itertools.product(cohorts, range(min(built.payload_limit, 32)))
    reports = [Report(cohort, bits) for cohort, bits in every if built.valid(bits)]
    before = oracle.accumulate(honest, candidates)
    raw = oracle.estimate(before, candidates).raw_counts
    moves = []
    for report in reports:
        after = oracle.estimate(before + oracle.accumulate([report], candidates), candidates).raw_counts
        moves += (after - raw).tolist()
    assert max(moves) == pytest.approx(built.influence.up, rel=1e-9)
    assert min(moves) == pytest.approx(-built.influence.down, rel=1e-9, abs=1e-9)


def test_a_filter_that_clears_all_other_bits():
    rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    assert rappor.influence.up == pytest.approx(8.0)


def test_a_report_of_sampled_bits_stands_for_those_that_were_not_asked():
    """An estimate is a ratio here: the change tends to the votes as reports grow, and is 8 times that of d' = d."""
    built = mechanism("dbitflip", domain_size=16, epsilon=1.0, sampled_bits=2)
    oracle, rng = FrequencyOracle(built), np.random.default_rng(7)
    before = oracle.accumulate(oracle.simulate(rng.integers(1, 16, 400_000), rng))  # nobody holds 0
    raw = oracle.estimate(before).raw_counts[0]
    cohort = next(cohort for cohort in range(16) if built.encoding.positions(0, cohort))
    after = oracle.estimate(before + oracle.accumulate([Report(cohort, 3)])).raw_counts[0]
    assert after - raw == pytest.approx(built.influence.up, rel=0.05)
    whole = mechanism("dbitflip", domain_size=16, epsilon=1.0, sampled_bits=16)
    assert built.influence.up == pytest.approx(8 * whole.influence.up)


def test_a_report_moves_a_fit_over_few_seeds_by_about_its_votes():
    """Values with one symbol under the report's seed share what the fit gives; the mean over seeds is the formula."""
    built = mechanism("olh", domain_size=8, epsilon=1.0)
    oracle, rng = FrequencyOracle(built), np.random.default_rng(7)
    before = oracle.accumulate(oracle.simulate(rng.integers(0, 8, 50_000), rng))
    raw, moves = oracle.estimate(before).raw_counts, []
    for cohort in range(40):
        report = Report(cohort, built.encoding.symbol(3, cohort))
        moves.append(oracle.estimate(before + oracle.accumulate([report])).raw_counts[3] - raw[3])
    assert np.mean(moves) == pytest.approx(built.influence.up, rel=0.1)
