"""Checks for crafted reports: silent where reports are honest, alarmed by the published attacks, and what none sees."""

import functools
import itertools
import math
import operator

import numpy as np
import pytest
from scipy import stats

import overstory
from overstory.analysis.alarms import crafted as nulls
from overstory.analysis.alarms.crafted import ALPHA, Check, adjust_checks, alarm_notes, check_collection, ones_chances
from overstory.analysis.alarms.sums import BUCKETS, WATCHED, Watch, count_vote_pairs, expected_buckets
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.bits import OneHot
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.kinds.sets import Subsets
from overstory.protocol.kinds.symbols import Direct
from papers.beyond.crafted_reports import collect, shares

E = {"domain_size": 100, "epsilon": 1.0}
TEN = list(range(70, 80))
STRINGS = {"num_bits": 64, "num_hashes": 2, "num_cohorts": 16, "f": 0.5, "p": 0.5, "q": 0.75}
HONEST = [
    ("oue", E),
    ("oue", E | {"epsilon": 4.0}),
    ("sue", E),
    ("grr", E),
    ("subset", E),
    ("hadamard", E),
    ("olh", E),
    ("linear-hash", E),
]


def raised(checks):
    return {check.name for check in checks if check.raised}


def alarms_of(oracle, parameters, share, attack="crafted reports", targets=(70,), reports=100_000, **more):
    liars = round(share * reports)
    built = overstory.oracle(oracle, **parameters)
    rng = np.random.default_rng(5)
    _, checks = collect(built, reports - liars, liars, attack, list(targets), rng, **more)
    return raised(checks)


def checks_of(oracle, batches, names=None):
    watch = Watch.of(oracle.mechanism)
    counts = functools.reduce(operator.add, map(oracle.accumulate, batches))
    sums = watch and functools.reduce(operator.add, map(watch.sum, batches))
    return check_collection(oracle.mechanism, counts, oracle.estimate(counts, names), sums=sums, labels=names or ())


def nothing_from(oracle, devices, rng):
    """Return reports of devices without a value: bits of noise, or, as a uniform output, those of uniform values."""
    encoding = oracle.mechanism.encoding
    if isinstance(encoding, OneHot):
        q = float(oracle.mechanism.q_star)
        bits = np.packbits(rng.random((devices, 128)) < q * (np.arange(128) < 100), axis=1, bitorder="little")
        return ReportBatch(np.zeros(devices, np.uint16), bits.view(np.uint64), 100, 1)
    batch = oracle.simulate(rng.integers(0, 100, devices), rng)
    if isinstance(encoding, Direct | Subsets):
        return batch
    symbols = rng.integers(0, encoding.num_symbols, (devices, 1)).astype(np.uint64)
    return ReportBatch(batch.cohorts, symbols, batch.num_bits, batch.num_cohorts)


def honest_alarms(collections, reports, shares_of_nothing):
    """Return the alarms over that many honest collections of each oracle, with each share of nothing in turn."""
    alarms = []
    for place, (name, parameters) in enumerate(HONEST):
        oracle = overstory.oracle(name, **parameters)
        for number in range(collections):
            rng = np.random.default_rng([11, place, number])
            nothing = round(shares_of_nothing[number % len(shares_of_nothing)] * reports)
            batches = [nothing_from(oracle, nothing, rng)] if nothing else []
            if nothing < reports:
                batches.append(oracle.simulate(rng.choice(100, reports - nothing, p=shares()), rng))
            checks = checks_of(oracle, batches)
            assert checks
            alarms += [(name, number, check.name) for check in checks if check.raised]
    return alarms


@pytest.mark.slow
@pytest.mark.parametrize("shares_of_nothing", [(0.0,), (0.01, 0.05, 0.2, 0.5, 1.0)])
def test_200_honest_collections_raise_no_more_alarms_than_the_level_allows(shares_of_nothing):
    """Each has an alarm with a chance of at most .001: three or more in 200 with one of .0011. Fixed seeds."""
    assert stats.binom.sf(2, 200, ALPHA) < 0.0012
    assert len(honest_alarms(25, 10_000, shares_of_nothing)) <= 2


def test_honest_collections_are_silent():
    """16 collections, at most .001 each: a chance of .016 that a seed had to be changed."""
    assert honest_alarms(2, 5_000, (0.0, 0.3)) == []


@pytest.mark.parametrize(
    ("oracle", "parameters", "share", "attack", "targets", "expected"),
    [
        ("oue", E, 0.001, "random reports", TEN, {"ones"}),
        ("oue", E, 0.02, "crafted reports", [70], {"ones"}),
        ("oue", E, 0.02, "crafted reports", TEN, {"ones", "pairs"}),
        ("grr", E, 0.04, "crafted reports", [70], {"below-zero"}),
        ("grr", E, 0.04, "crafted reports", TEN, {"below-zero"}),
        ("linear-hash", E, 0.002, "crafted reports", TEN, {"seeds"}),
        ("olh", E, 0.01, "crafted reports", TEN, {"cohorts"}),
    ],
)
def test_attacks_raise_an_alarm_at_twice_the_share_that_nine_runs_in_ten_show(
    oracle, parameters, share, attack, targets, expected
):
    assert expected <= alarms_of(oracle, parameters, share, attack, targets)


@pytest.mark.parametrize("oracle", ["grr", "oue", "olh", "linear-hash"])
def test_true_reports_of_a_false_value_are_seen_by_nothing(oracle):
    assert alarms_of(oracle, E, 0.05, "random values") == set()


def adaptive(oracle, liars, targets, rng):
    """Return reports that set the targets' bits, and as many others as make the number of ones an honest one."""
    honest = oracle.simulate(rng.integers(0, 100, liars), rng)
    bits = np.zeros((liars, 128), np.uint8)
    for row, ones in enumerate(np.bitwise_count(honest.bits).sum(axis=1)):
        others = rng.permutation(np.setdiff1d(np.arange(100), targets))[: max(int(ones) - len(targets), 0)]
        bits[row, targets] = 1
        bits[row, others] = 1
    words = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    return ReportBatch(np.zeros(liars, np.uint16), words, 100, 1)


@pytest.mark.parametrize(("targets", "expected", "possible"), [(TEN, {"pairs"}, {"below-zero"}), ([70], set(), set())])
def test_padding_to_an_honest_number_of_ones_hides_one_target_and_not_ten(targets, expected, possible):
    """Ten targets leave fewer bits for the others, of which one may be pushed below zero."""
    oracle, rng = overstory.oracle("oue", **E), np.random.default_rng(3)
    honest = oracle.simulate(rng.choice(100, 98_000, p=shares()), rng)
    liars = adaptive(oracle, 2_000, targets, rng)
    assert expected <= raised(checks_of(oracle, [honest, liars])) <= expected | possible


def strings(reports, liars, bits):
    """Return the checks of Bloom filters, with liars in one cohort who send these bits."""
    oracle, rng = overstory.oracle("rappor", **STRINGS), np.random.default_rng(9)
    names = [f"v{i}" for i in range(30)]
    batches = [oracle.simulate(rng.integers(0, 30, reports - liars), rng, candidates=names)]
    if liars:
        batches.append(ReportBatch(np.full(liars, 3, np.uint16), np.full((liars, 1), bits, np.uint64), 64, 16))
    return checks_of(oracle, batches, names)


def test_filters_from_one_cohort_and_with_cleared_bits():
    assert raised(strings(50_000, 0, 0)) == set()
    checks = strings(50_000, 1_000, 0b11)
    assert "ones" in raised(checks)
    assert not any("ohort" in note for note in alarm_notes(checks))  # the decoder's own note says it


def test_a_check_changes_with_its_null():
    """On something broken on purpose: honest reports held against a null without the value's own bit."""
    oracle = overstory.oracle("oue", **E)
    watch = Watch.of(oracle.mechanism)
    sums = watch.sum(oracle.simulate(np.arange(50_000) % 100, 1))
    p, q = float(oracle.mechanism.p_star), float(oracle.mechanism.q_star)
    wrong = np.bincount(watch.cells(np.arange(101)), nulls.ones_distribution(100, 0, p, q), watch.num_cells)
    assert nulls.chi_square_of_mixture(sums.ones, *ones_chances(watch))[2] > 0.01
    assert nulls.chi_square_of_mixture(sums.ones, wrong, wrong)[2] < 1e-9


def test_few_reports_and_other_mechanisms_are_not_checked():
    oracle = overstory.oracle("oue", **E)
    counts = oracle.accumulate(oracle.simulate(np.arange(999) % 100, 1))
    assert check_collection(oracle.mechanism, counts, oracle.estimate(counts)) == ()
    empty = SupportCounts.empty(1, 100)
    assert check_collection(oracle.mechanism, empty, oracle.estimate(empty)) == ()


def test_holms_rule_by_hand():
    given = [Check(name="sum", statistic=0.0, p_value=p, detail="") for p in (0.0003, 0.0004, 0.9, 0.0009)]
    adjusted = [check.adjusted for check in adjust_checks(given)]
    assert adjusted == pytest.approx([0.0012, 0.0012, 0.9, 0.0018])
    assert not any(check.raised for check in adjust_checks(given))
    assert adjust_checks([]) == ()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_chi_square_of_every_mixture_is_not_too_small(share):
    """2,000 draws: p-values below .01 in at most 1.7% (three standard errors above)."""
    first, second = nulls.ones_distribution(10, 1, 0.6, 0.2), nulls.ones_distribution(10, 0, 0.6, 0.2)
    draws = np.random.default_rng(7).multinomial(5_000, (1 - share) * first + share * second, 2_000)
    assert np.mean([nulls.chi_square_of_mixture(draw, first, second)[2] < 0.01 for draw in draws]) < 0.017
    lacking = np.random.default_rng(7).multinomial(5_000, 1.3 * first - 0.3 * second, 20)  # past reports of values
    assert max(nulls.chi_square_of_mixture(draw, first, second)[2] for draw in lacking) < 1e-3


def test_a_sum_past_what_nothing_explains():
    """By hand: p* = 3/4 and q* = 1/4 of 2 values, 1,000 reports; half a vote more or less is 1,000 ones."""
    oracle = overstory.oracle("sue", domain_size=2, epsilon=2 * math.log(3))
    z = {}
    for ones in (200, 250, 400, 500, 600):
        counts = SupportCounts([1_000], [[ones, ones]])
        z[ones] = next(c.statistic for c in check_collection(oracle.mechanism, counts) if c.name == "sum")
    error = math.sqrt(1_000 * 2 * 3 / 16)
    assert z == pytest.approx({200: -100 / error, 250: 0.0, 400: 0.0, 500: 0.0, 600: 200 / error}, abs=0.01)


def test_shares_below_zero_at_the_worst_population():
    """4,000 draws: p-values below .01 in at most 1.5% (three standard errors above), with and without correlation."""
    rng = np.random.default_rng(4)
    for correlation in (0.0, -1 / 49):
        z = rng.standard_normal((4_000, 50))
        if correlation:
            z = (z - z.mean(axis=1, keepdims=True)) / math.sqrt(1 - 1 / 50)
        low = np.mean([nulls.below_zero(row, correlation)[1] < 0.01 for row in z])
        assert 0.004 < low < 0.015
        assert np.mean([nulls.below_zero(row + 1.0, correlation)[1] < 0.01 for row in z[:200]]) == 0.0


@pytest.mark.parametrize("q", [0.018, 0.27])
def test_the_strongest_of_45_pairs_by_chance(q):
    """500 draws of 1,000 reports that hold no value: p-values below .05 in at most 8% (three standard errors above)."""
    rng = np.random.default_rng(8)
    bits = rng.random((500, 1_000, 10)) < q
    low = [nulls.most_frequent_pair(one.T.astype(int) @ one.astype(int), 1_000, 0.5, q)[1] < 0.05 for one in bits]
    assert np.mean(low) < 0.08


def test_seeds_and_cohorts_of_few_reports():
    """4,000 draws of 1,000 reports over 4,096 seeds, where chi-square alone has no use: at most 1.5% below .01."""
    rng, even = np.random.default_rng(6), np.full(4_096, 1 / 4_096)
    drawn = [np.bincount(rng.integers(0, 4_096, 1_000), minlength=4_096) for _ in range(1_000)]
    assert np.mean([nulls.balance(sizes, even)[1] < 0.01 for sizes in drawn]) < 0.02
    drawn[0][17] += 60
    assert nulls.balance(drawn[0], even)[1] < 1e-6


TWENTY = {"domain_size": 20, "epsilon": 1.0}
CASES = {
    "oue": TWENTY,
    "subset": TWENTY,
    "linear-hash": TWENTY,
    "hadamard": TWENTY,
    "dbitflip": TWENTY | {"sampled_bits": 4},
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
    assert Watch.of(mechanism("grr", **TWENTY)) is None
    assert Watch.of(mechanism("olh", **TWENTY)) is None  # 256 seeds: counted apart


def test_sums_of_different_collections_do_not_add_up():
    (one, first), (other, second) = simulated("oue"), simulated("hadamard")
    with pytest.raises(ParameterError, match="different collections"):
        Watch.of(one.mechanism).sum(first) + Watch.of(other.mechanism).sum(second)


@pytest.mark.parametrize(("rows", "bits"), [(0, 3), (1, 64), (5_000, 1), (5_000, 65), (5_000, 130)])
def test_pairs_of_bits_are_counted_as_one_by_one(rows, bits):
    votes = np.random.default_rng(rows + bits).integers(0, 2**64, (rows, -(-bits // 64) + 1), dtype=np.uint64)
    pairs = count_vote_pairs(votes, bits)
    places = np.arange(bits)
    unpacked = ((votes[:, places // 64] >> (places % 64).astype(np.uint64)) & np.uint64(1)).astype(np.int64)
    assert (pairs == unpacked.T @ unpacked).all()
