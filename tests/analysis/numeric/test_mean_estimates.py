"""Means: the bulk simulation follows the exact channel, estimates are unbiased, and their errors as stated."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.analysis.kinds import numbers
from overstory.analysis.kinds.base import SimulatedDevices, count_reports, server_half
from overstory.analysis.numeric.quantities import estimate_mean, estimate_wave_mean
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.kernels.devices import StreamKey
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.numeric import Hybrid, Interval, RangeRandomizer, SquareWave
from overstory.protocol.sampling import SeededEntropy
from support.numeric_alarms import Alarm, check_cells

KINDS = [SquareWave, Hybrid]
VALUE, COPIES = 0.3, 60_000


def chances(randomizer):
    """P(payload | VALUE), written from the papers' words and not from the code."""
    at, size = randomizer.position(VALUE), 1 << randomizer.payload_bits
    found, channel = np.zeros(size), randomizer.channel
    if isinstance(randomizer, Hybrid):
        weight = channel.threshold / 2**32
        one = 0.5 + float(channel.duchi.alpha) * (at / randomizer.resolution - 0.5)
        found[0], found[2] = (1 - weight) * (1 - one), (1 - weight) * one
        found[1::2] = weight * in_window(channel.piecewise, at, size // 2)
        return found
    return in_window(channel, at, size)


def in_window(channel, at, size):
    found = np.zeros(size)
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
        numbers.simulate_payloads(randomizer, np.full(COPIES, VALUE), 1),
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
    assert numbers.positions(randomizer, values).tolist() == [randomizer.position(value) for value in values.tolist()]


@pytest.mark.parametrize("broken", [off_by_one, no_rest])
def test_a_broken_simulation_is_caught(broken):
    randomizer = SquareWave(1.0, Interval(0, 1), 20)
    payloads = numbers.simulate_payloads(randomizer, np.full(COPIES, VALUE), 1)
    with pytest.raises(Alarm):
        check_cells(
            np.bincount(broken(payloads, randomizer), minlength=1 << randomizer.payload_bits), chances(randomizer)
        )


def estimated(randomizer, payloads):
    counts = count_reports(randomizer, batch_of(randomizer, payloads))
    return (estimate_wave_mean if isinstance(randomizer, SquareWave) else estimate_mean)(randomizer, counts)


@given(st.lists(st.integers(0, Hybrid(1.0).payload_limit - 1), min_size=2, max_size=40))
def test_counts_give_the_naive_mean(payloads):
    randomizer = Hybrid(1.0)
    payloads = [p & 3 if p & 1 == 0 else p for p in payloads]
    debiased = [randomizer.debias(p) for p in payloads]
    mean = sum(debiased, Fraction(0)) / len(debiased)
    variance = sum((x - mean) ** 2 for x in debiased) / (len(debiased) - 1) / len(debiased)
    value, error = estimated(randomizer, payloads)
    assert value == float(mean)
    assert error == pytest.approx(float(variance) ** 0.5, rel=1e-12)


def test_one_report_has_no_standard_error():
    assert estimated(Hybrid(1.0), [1])[1] == np.inf


NONE = SupportCounts.empty(1, 1)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: estimate_mean(Hybrid(1.0), NONE), "or of no report"),
        (lambda: estimate_mean(Hybrid(1.0), SupportCounts([1], [[1]])), "not those of hybrid"),
        (lambda: estimate_wave_mean(SquareWave(1.0), SupportCounts([1], [[1, 0]])), "not \\(1, 1024\\)"),
        (lambda: estimated(SquareWave(1.0), [1 << 17]), "is a number below"),
        (lambda: numbers.simulate_payloads(Hybrid(1.0), [np.nan]), "finite"),
        (lambda: numbers.simulate_payloads(Hybrid(1.0, Interval(0, 1, "reject")), [2.0]), "rejects"),
    ],
)
def test_one_clear_error(act, says):
    with pytest.raises(ParameterError, match=says):
        act()


RANGE = Interval(-5, 40)


def batch_of(mechanism, payloads):
    bits = np.asarray(payloads, np.uint64).reshape(-1, 1)
    return ReportBatch(np.zeros(len(bits), np.uint16), bits, mechanism.payload_bits, mechanism.num_cohorts)


@given(st.lists(st.integers(0, (1 << 34) - 1), max_size=40))
def test_sums_of_pairs_are_the_sums(payloads):
    pairs = numbers.count_bit_pairs(np.array(payloads, np.int64), 34)
    assert numbers.sums_of_pairs(pairs, 34) == (sum(payloads), sum(x * x for x in payloads))


@pytest.mark.parametrize("resolution", [2, 7, 64, 1 << 20])
def test_the_counts_are_as_many_as_stated(resolution):
    mechanism = Hybrid(1.5, RANGE, resolution)
    payloads = numbers.simulate_payloads(mechanism, np.random.default_rng(3).uniform(-5, 40, 500), 4)
    counts = count_reports(mechanism, batch_of(mechanism, payloads))
    assert counts.ones.shape == server_half(mechanism).shape(())


def test_ten_billion_reports_do_not_overflow():
    mechanism = Hybrid(2.0, RANGE)
    counts = count_reports(mechanism, batch_of(mechanism, numbers.simulate_payloads(mechanism, np.full(1000, 39.0), 5)))
    many = SupportCounts(counts.totals * 10**7, counts.ones * 10**7)
    few, learned = (estimate_mean(mechanism, each) for each in (counts, many))
    assert many.num_reports == 10**10
    assert learned[0] == few[0]
    assert learned[1] == pytest.approx(few[1] * 1e7**-0.5, rel=1e-3)


def test_a_payload_that_no_branch_has_counts_as_one_that_has():
    """Hybrid's even payloads are Duchi's bit: no device sends another, and it could not add more than a bit."""
    mechanism = Hybrid(2.0, RANGE, 64)
    assert not mechanism.valid(64)
    counts = count_reports(mechanism, batch_of(mechanism, [64, 66]))
    assert numbers.sums_of_pairs(counts.ones[0], numbers.MeanSupport(mechanism).branch_bits[0])[0] == 1


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
    batch = devices.report()
    counts = count_reports(mechanism, batch)
    for level, part in enumerate(mechanism.parts):
        own = [Report(0, int(b)) for c, b in zip(batch.cohorts, batch.bits[:, 0], strict=True) if c == level]
        expected = FrequencyOracle(part).accumulate(own)
        width = expected.num_bits
        assert counts.totals[level] == expected.num_reports
        assert counts.ones[level, :width].tolist() == expected.ones[0].tolist()
    spoiled = ReportBatch(batch.cohorts * 0, batch.bits | np.uint64(1 << 10), batch.num_bits, batch.num_cohorts)
    assert not count_reports(mechanism, spoiled).ones[0, 4:].any()


def test_values_and_positions_are_inverse():
    mechanism = Hybrid(1.0, Interval(0.1, 0.7), 33)
    values = [mechanism.value_at(place) for place in range(mechanism.domain_size)]
    assert [mechanism.position(value) for value in values] == list(range(34))
    assert numbers.positions(mechanism, [float(value) for value in values]).tolist() == list(range(34))
    assert [float(v) for v in mechanism.neighbours(values[1], 2)] == [float(values[i]) for i in (0, 2, 3)]
