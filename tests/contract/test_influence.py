"""A liar's votes: the change of an estimate by one appended report, of every oracle whose estimate is a closed form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.support.contract_cases import SMALL

from overstory.analysis.oracle import FrequencyOracle
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.registry import mechanism

CASES = [(name, parameters) for name, given in SMALL.items() for parameters in given]


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_a_report_moves_a_count_by_its_votes(name, parameters):
    built = mechanism(name, **parameters)
    oracle, drawn = FrequencyOracle(built), np.random.default_rng(7)
    if built.encoding.decoded or built.encoding.uneven or not built.encoding.pure:
        assert built.influence.up >= 1
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


@pytest.mark.parametrize(
    ("name", "epsilon", "up", "down"),
    [
        ("grr", 0.5, 153.6, 1.5),
        ("grr", 1, 58.6, 0.6),
        ("oue", 1, 3.2, 1.2),
        ("sue", 2, 1.6, 0.6),
        ("subset", 1, 3.1, 1.2),
    ],
)
def test_votes_at_a_hundred_values(name, epsilon, up, down):
    """Computed from the published formulas, apart from this code."""
    found = mechanism(name, domain_size=100, epsilon=epsilon).influence
    assert (found.up, found.down) == (pytest.approx(up, abs=0.06), pytest.approx(down, abs=0.06))


def test_a_filter_that_clears_all_other_bits():
    rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    assert rappor.influence.up == pytest.approx(8.0)
