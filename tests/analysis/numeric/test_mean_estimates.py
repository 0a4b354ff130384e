"""Means: the bulk simulation follows the exact channel, estimates are unbiased, and their errors as stated."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.kinds.base import SimulatedDevices, count_reports, server_half
from overstory.analysis.kinds.numbers import MeanSupport, count_bit_pairs, sums_of_pairs
from overstory.analysis.numeric import MeanEstimate, MeanOracle, RangeOracle, ReportSums, SquareWaveOracle
from overstory.analysis.numeric.means import SPLIT, _sum_of_squares, positions
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.kernels.devices import StreamKey
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.numeric import Duchi, Hybrid, Interval, Piecewise, RangeRandomizer, SquareWave
from overstory.protocol.sampling import SeededEntropy
from support.numeric_alarms import Alarm, check_cells

KINDS = [SquareWave, Piecewise, Duchi, Hybrid]
VALUE, COPIES = 0.3, 60_000


def chances(randomizer):
    """P(payload | VALUE), written from the papers' words and not from the code."""
    at, size = randomizer.position(VALUE), 1 << randomizer.payload_bits
    found = np.zeros(size)
    if isinstance(randomizer, Duchi):
        one = 0.5 + float(randomizer.channel.alpha) * (at / randomizer.resolution - 0.5)
        return np.array([1 - one, one])
    if isinstance(randomizer, Hybrid):
        weight = randomizer.piecewise_threshold / 2**32
        found[0::2][:2] = (1 - weight) * chances(randomizer.duchi)
        found[1::2] = weight * chances(randomizer.piecewise)
        return found
    channel = randomizer.channel
    found[: channel.num_cells] = (1 - float(channel.alpha)) / channel.num_cells
    found[at : at + channel.window] += float(channel.alpha) / channel.window
    return found


def off_by_one(payloads, randomizer):
    return np.maximum(payloads - 1, 0)


def no_rest(payloads, randomizer):
    """Moves what fell outside the window into it: too little noise."""
    at = randomizer.position(VALUE)
    return np.where((payloads < at) & (np.arange(payloads.size) % 10 == 0), at, payloads)


@pytest.mark.parametrize("kind", KINDS)
def test_simulated_reports_follow_the_exact_channel(kind):
    randomizer = kind(1.0, Interval(0, 1), 20)
    fleet = SimulatedDevices.holding(randomizer, [VALUE], np.zeros(COPIES, np.int64), np.random.default_rng(8))
    for payloads in (
        MeanOracle(randomizer).simulate(np.full(COPIES, VALUE), np.random.default_rng(1)),
        fleet.report().bits[:, 0].astype(np.int64),
        [randomizer.randomize(VALUE, SeededEntropy(i)).bits for i in range(6000)],
    ):
        check_cells(np.bincount(payloads, minlength=1 << randomizer.payload_bits), chances(randomizer))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("low", "high", "resolution"), [(0, 1, 20), (-1, 1, 7), (0.1, 0.7, 60), (1e6, 1e6 + 1, 1 << 20)]
)
def test_simulated_positions_are_the_devices(kind, low, high, resolution):
    randomizer, rng = kind(1.0, Interval(low, high), resolution), np.random.default_rng(3)
    inside = np.append(np.linspace(low, high, 241), rng.uniform(low - 0.1, high + 0.1, 500))
    values = np.concatenate((inside, np.nextafter(inside, low), np.nextafter(inside, high)))
    assert positions(randomizer, values).tolist() == [randomizer.position(value) for value in values.tolist()]


@pytest.mark.parametrize("broken", [off_by_one, no_rest])
@pytest.mark.parametrize("kind", [SquareWave, Piecewise])
def test_a_broken_simulation_is_caught(kind, broken):
    randomizer = kind(1.0, Interval(0, 1), 20)
    payloads = MeanOracle(randomizer).simulate(np.full(COPIES, VALUE), np.random.default_rng(1))
    with pytest.raises(Alarm):
        check_cells(
            np.bincount(broken(payloads, randomizer), minlength=1 << randomizer.payload_bits), chances(randomizer)
        )


@settings(deadline=None)
@given(st.lists(st.integers(0, (1 << 2 * SPLIT) - 1), max_size=30))
def test_squares_are_exact(payloads):
    assert _sum_of_squares(np.array(payloads, np.int64)) == sum(p * p for p in payloads)


@settings(deadline=None)
@given(st.lists(st.integers(0, (1 << 22) - 1), min_size=2, max_size=40), st.integers(0, 40))
def test_sums_merge_in_any_split_and_give_the_naive_mean(payloads, cut):
    oracle = MeanOracle(Hybrid(1.0))
    payloads = [p & 3 if p & 1 == 0 else p for p in payloads]
    whole = oracle.accumulate(payloads)
    parts = oracle.accumulate(payloads[cut:]) + oracle.accumulate(np.array(payloads[:cut], np.int64))
    assert whole == parts == parts + ReportSums.empty(2)
    debiased = [oracle.randomizer.debias(p) for p in payloads]
    mean = sum(debiased, Fraction(0)) / len(debiased)
    variance = sum((x - mean) ** 2 for x in debiased) / (len(debiased) - 1) / len(debiased)
    found = oracle.estimate(whole)
    assert found.value == float(mean)
    assert found.standard_error == pytest.approx(float(variance) ** 0.5, rel=1e-12)


def test_a_mean_outside_the_domain_is_kept_and_clamped_only_by_name():
    found = MeanEstimate(1.2, 0.1, 10, (-1.0, 1.0))
    assert (found.value, found.clamped) == (1.2, 1.0)
    assert found.confidence_interval(0.95) == pytest.approx((1.004, 1.396), abs=1e-3)
    assert MeanOracle(Duchi(1.0)).estimate(MeanOracle(Duchi(1.0)).accumulate([1])).standard_error == np.inf


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: MeanOracle(Duchi(1.0)).estimate(ReportSums.empty()), "or of none"),
        (lambda: MeanOracle(Duchi(1.0)).estimate(ReportSums((1, 1), (1, 1), (1, 1))), "not sums"),
        (lambda: ReportSums.empty(1) + ReportSums.empty(2), "different collections"),
        (lambda: MeanOracle(Duchi(1.0)).accumulate([2]), "must lie in 0 .. 1"),
        (lambda: MeanOracle(Duchi(1.0)).accumulate(np.array([0.5])), "whole numbers"),
        (lambda: MeanOracle(Duchi(1.0)).simulate([np.nan], np.random.default_rng(1)), "finite"),
        (lambda: MeanOracle(Duchi(1.0, Interval(0, 1, "reject"))).simulate([2.0], np.random.default_rng(1)), "rejects"),
        (lambda: MeanEstimate(0.0, 1.0, 1, (0.0, 1.0)).confidence_interval(1.0), "between 0 and 1"),
    ],
)
def test_one_clear_error(act, says):
    with pytest.raises(ParameterError, match=says):
        act()


MEANS = [Duchi, Piecewise, Hybrid]
NUMBERS = [*MEANS, SquareWave]
RANGE = Interval(-5, 40)


def batch_of(mechanism, payloads):
    """Return a batch of these payloads."""
    bits = np.asarray(payloads, np.uint64).reshape(-1, 1)
    return ReportBatch(np.zeros(len(bits), np.uint16), bits, mechanism.payload_bits, mechanism.num_cohorts)


@given(st.lists(st.integers(0, (1 << 34) - 1), max_size=40))
def test_sums_of_pairs_are_the_sums(payloads):
    pairs = count_bit_pairs(np.array(payloads, np.int64), 34)
    assert sums_of_pairs(pairs, 34) == (sum(payloads), sum(x * x for x in payloads))


@pytest.mark.parametrize("kind", MEANS)
@pytest.mark.parametrize("resolution", [2, 7, 64, 1 << 20])
def test_stored_counts_hold_the_exact_sums(kind, resolution):
    mechanism = kind(1.5, RANGE, resolution)
    payloads = MeanOracle(mechanism).simulate(np.random.default_rng(3).uniform(-5, 40, 5_000), 4)
    counts = count_reports(mechanism, batch_of(mechanism, payloads))
    assert ReportSums.of_counts(mechanism, counts) == MeanOracle(mechanism).accumulate(payloads)
    assert counts.ones.size == server_half(mechanism).num_counts(())
    assert len(server_half(mechanism).count_names(counts.num_bits, ())) == counts.num_bits


def test_ten_billion_reports_do_not_overflow():
    mechanism = Hybrid(2.0, RANGE)
    payloads = MeanOracle(mechanism).simulate(np.full(1000, 39.0), 5)
    counts = count_reports(mechanism, batch_of(mechanism, payloads))
    many = SupportCounts(counts.totals * 10**7, counts.ones * 10**7)
    few, learned = (MeanOracle(mechanism).estimate(ReportSums.of_counts(mechanism, each)) for each in (counts, many))
    assert learned.num_reports == 10**10
    assert learned.value == few.value
    assert learned.standard_error == pytest.approx(few.standard_error * 1e7**-0.5, rel=1e-3)


def test_a_payload_that_no_branch_has_counts_as_one_that_has():
    """Hybrid's even payloads are Duchi's bit: no device sends another, and it could not add more than a bit."""
    mechanism = Hybrid(2.0, RANGE, 64)
    assert not mechanism.valid(64)
    sums = ReportSums.of_counts(mechanism, count_reports(mechanism, batch_of(mechanism, [64, 66])))
    assert sums.totals == (1, 0)


@pytest.mark.parametrize("mechanism", [*(kind(1.0, RANGE, 50) for kind in NUMBERS), RangeRandomizer(40, 1.0)])
def test_a_device_sends_the_same_in_any_rows_and_reports(mechanism):
    values = range(40)
    devices = SimulatedDevices.holding(mechanism, values, np.arange(200) % 40, np.random.default_rng(2))
    every = devices.report()
    assert np.array_equal(every.bits[50:90], devices.report(7, start=50, stop=90).bits)


def test_positions_of_one_device_have_independent_responses():
    mechanism = SquareWave(1.0, RANGE, 16)
    half, same = server_half(mechanism), np.zeros(4_000, np.int32)
    stream, none = StreamKey(bytes(32)), np.zeros(4_000, np.uint16)
    table = half.table([float(mechanism.value_at(place)) for place in range(2)])
    low, high = (half.respond(table, same + place, none, stream)[:, 0].astype(float) for place in (0, 1))
    assert abs(np.corrcoef(low, high)[0, 1]) < 0.08  # five standard errors


def test_levels_are_counted_each_by_itself_and_stray_bits_not_at_all():
    mechanism = RangeRandomizer(20, 1.0)
    symbols = np.random.default_rng(1).integers(0, 20, 3_000)
    devices = SimulatedDevices.holding(mechanism, range(20), symbols, np.random.default_rng(2))
    batch, oracle = devices.report(), RangeOracle(mechanism)
    counts = count_reports(mechanism, batch)
    reports = [Report(int(c), int(b)) for c, b in zip(batch.cohorts, batch.bits[:, 0], strict=True)]
    for level, expected in enumerate(oracle.accumulate(reports)):
        width = expected.num_bits
        assert counts.totals[level] == expected.num_reports
        assert counts.ones[level, :width].tolist() == expected.ones[0].tolist()
    spoiled = ReportBatch(batch.cohorts * 0, batch.bits | np.uint64(1 << 10), batch.num_bits, batch.num_cohorts)
    assert not count_reports(mechanism, spoiled).ones[0, 4:].any()


def test_buckets_are_those_of_the_oracle():
    mechanism = SquareWave(1.0, RANGE, 3_000)
    oracle = SquareWaveOracle(mechanism)
    payloads = oracle.simulate(np.linspace(-5, 40, 2_000), 1)
    assert count_reports(mechanism, batch_of(mechanism, payloads)) == oracle.accumulate(payloads)
    assert server_half(mechanism).count_names(1024, ())[1] == f"cell{oracle.cells[1]}"


@pytest.mark.parametrize("kind", MEANS)
def test_values_and_positions_are_inverse(kind):
    mechanism = kind(1.0, Interval(0.1, 0.7), 33)
    values = [mechanism.value_at(place) for place in range(mechanism.num_positions)]
    assert [mechanism.position(value) for value in values] == list(range(34))
    assert positions(mechanism, [float(value) for value in values]).tolist() == list(range(34))
    assert [float(v) for v in mechanism.neighbours(values[1], 2)] == [float(values[i]) for i in (0, 2, 3)]


def test_counts_of_another_mechanism_are_refused():
    with pytest.raises(ValueError, match="not those of piecewise"):
        ReportSums.of_counts(Piecewise(1.0), SupportCounts([1], [[1]]))
    assert MeanSupport(Duchi(1.0)).branch_bits == (1,)
