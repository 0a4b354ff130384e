"""Sums of reports by which crafted ones are noticed: what they count, and that they add up in any order."""

import functools
import itertools
import operator

import numpy as np
import pytest

import overstory
from overstory.analysis.alarms.sums import BUCKETS, WATCHED, Watch, count_vote_pairs, expected_buckets
from overstory.analysis.reports import ReportBatch
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism

E = {"domain_size": 20, "epsilon": 1.0}
CASES = {
    "oue": E,
    "subset": E,
    "linear-hash": E,
    "hadamard": E,
    "dbitflip": E | {"sampled_bits": 4},
    "rappor": {"num_bits": 32, "num_hashes": 2, "num_cohorts": 4, "f": 0.5, "p": 0.5, "q": 0.75},
}


def simulated(name, n=3_000, seed=1):
    oracle = overstory.oracle(name, **CASES[name])
    symbols = np.arange(n) % 20
    return oracle, oracle.simulate([f"v{s}" for s in symbols] if name == "rappor" else symbols, seed)


def part(batch, start, stop):
    return ReportBatch(batch.cohorts[start:stop], batch.bits[start:stop], batch.num_bits, batch.num_cohorts)


@pytest.mark.parametrize("name", CASES)
def test_sums_of_parts_add_up_in_any_order(name):
    oracle, batch = simulated(name)
    watch = Watch.of(oracle.mechanism)
    parts = [watch.sum(part(batch, *ends)) for ends in ((0, 7), (7, 1_900), (1_900, 3_000))]
    for order in itertools.permutations(parts):
        assert functools.reduce(operator.add, order) == watch.sum(batch)
    assert watch.sum(batch) != watch.sum(part(batch, 0, 2_999))


@pytest.mark.parametrize("name", [name for name in CASES if name not in {"rappor", "dbitflip", "linear-hash"}])
def test_votes_are_those_of_the_mechanism(name):
    oracle, batch = simulated(name, 60)
    sums = Watch.of(oracle.mechanism).sum(batch)
    reports = [
        overstory.protocol.kinds.base.Report(int(cohort), int(bits[0]))
        for cohort, bits in zip(batch.cohorts, batch.bits, strict=True)
    ]
    votes = np.array([[oracle.mechanism.supports(report, value) for value in range(20)] for report in reports])
    assert (sums.pairs == votes.T.astype(int) @ votes.astype(int)).all()
    assert (np.diag(sums.pairs) == oracle.accumulate(batch).ones.sum(axis=0)).all()
    assert sums.pair_reports == sums.num_reports == 60


def test_ones_are_counted_in_cells_that_lose_none():
    oracle, batch = simulated("oue")
    watch = Watch.of(oracle.mechanism)
    ones = np.bitwise_count(batch.bits).sum(axis=1)
    assert watch.sum(batch).ones.sum() == 3_000
    assert watch.cells(np.arange(21)).tolist() == sorted(watch.cells(np.arange(21)).tolist())
    assert watch.sum(batch).ones[watch.cells(np.array([ones[0]]))[0]] == (ones == ones[0]).sum()
    large = Watch.of(mechanism("oue", domain_size=10_000, epsilon=1.0))
    assert large.num_cells <= 256
    assert large.cells(np.array([0, 10_000])).tolist() == [0, large.num_cells - 1]


def test_pairs_are_those_of_the_first_reports_and_values():
    oracle, batch = simulated("oue")
    watch = Watch.of(oracle.mechanism)
    some = watch.sum(batch, 100)
    assert (some.num_reports, some.pair_reports) == (3_000, 100)
    assert (some.pairs == watch.sum(part(batch, 0, 100)).pairs).all()
    assert (some.ones == watch.sum(batch).ones).all()
    assert watch.sum(batch, 0).pair_reports == 0
    large = overstory.oracle("oue", domain_size=10_000, epsilon=1.0)
    sums = Watch.of(large.mechanism).sum(large.simulate(np.arange(100), 1))
    assert sums.pairs.shape == (WATCHED, WATCHED)


def test_seeds_are_counted_by_their_remainder():
    oracle, batch = simulated("linear-hash")
    sums = Watch.of(oracle.mechanism).sum(batch)
    assert (sums.seeds == np.bincount(batch.cohorts % BUCKETS, minlength=BUCKETS)).all()
    assert expected_buckets(2**31, BUCKETS).tolist() == [1 / BUCKETS] * BUCKETS
    assert expected_buckets(7, 3).sum() == pytest.approx(1)


def test_what_reports_of_one_value_or_of_few_seeds_leave_to_sum_is_nothing():
    assert Watch.of(mechanism("grr", **E)) is None
    assert Watch.of(mechanism("olh", **E)) is None  # 256 seeds: counted apart


def test_sums_of_different_collections_do_not_add_up():
    (one, first), (other, second) = simulated("oue"), simulated("hadamard")
    with pytest.raises(ParameterError, match="different collections"):
        Watch.of(one.mechanism).sum(first) + Watch.of(other.mechanism).sum(second)


@pytest.mark.parametrize("bits", [1, 3, 63, 64, 65, 130])
@pytest.mark.parametrize("rows", [0, 1, 64, 5_000])
def test_pairs_of_bits_are_counted_as_one_by_one(rows, bits):
    votes = np.random.default_rng(rows + bits).integers(0, 2**64, (rows, -(-bits // 64) + 1), dtype=np.uint64)
    pairs = count_vote_pairs(votes, bits)
    places = np.arange(bits)
    unpacked = ((votes[:, places // 64] >> (places % 64).astype(np.uint64)) & np.uint64(1)).astype(np.int64)
    assert (pairs == unpacked.T @ unpacked).all()
