"""Simulated devices and counted support where the contract suite does not reach: some values, many values, rows."""

import dataclasses

import numpy as np
import pytest

import overstory
from overstory.analysis.comparison import QUICK, TIMES, rank, recommend, trade
from overstory.analysis.kinds import base
from overstory.analysis.kinds.base import SimulatedDevices, positions_of, support_of, words_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.bits import Bloom
from overstory.protocol.kinds.hashes import SeededHash, value_word
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.numeric import Hybrid, Interval, RangeRandomizer, SquareWave

COUNTED = ("grr", "oue", "linear-hash", "hadamard", "subset", "projective")
OUTSIDE = r"outside the domain 0 \.\. 39"


@pytest.mark.parametrize("name", COUNTED)
def test_some_symbols_are_counted_as_among_all(name):
    oracle = overstory.oracle(name, domain_size=40, epsilon=1.0)
    reports = oracle.simulate(np.arange(500) % 40, np.random.default_rng(1))
    some = oracle.accumulate(reports, [39, 3, 3])
    assert some.ones.tolist() == oracle.accumulate(reports).ones[:, [39, 3, 3]].tolist()
    assert some.num_reports == 500
    with pytest.raises(ParameterError, match=OUTSIDE):
        oracle.accumulate(reports, [40])


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize(
    ("symbols", "said"),
    [
        ([0.5, 1.0], "is no whole number"),
        (["1", "2"], "this oracle numbers its values: name them"),
        ([40], OUTSIDE),
        ([-1], OUTSIDE),
        ([[1, 2]], OUTSIDE),
    ],
    ids=str,
)
def test_what_is_no_symbol_is_refused_as_a_device_refuses_it(name, symbols, said):
    oracle = overstory.oracle(name, domain_size=40, epsilon=1.0)
    with pytest.raises(ParameterError, match=said):
        oracle.simulate(symbols, np.random.default_rng(1))
    with pytest.raises(ParameterError, match=OUTSIDE):
        oracle.accumulate(oracle.simulate([1, 2], np.random.default_rng(1)), symbols)


CHAINS = {"epsilon_permanent": 2.0, "epsilon_report": 1.0}
FRESH = [mechanism(name, domain_size=12, **CHAINS) for name in ("l-grr", "loloha", "l-osue")]
MEMOIZED = [mechanism(name, domain_size=12, epsilon=1.0) for name in ("subset", "dbitflip", "hadamard")]
NUMBERS = [kind(1.0, Interval(0, 11), 50) for kind in (Hybrid, SquareWave)]


@pytest.mark.parametrize("built", [*FRESH, *MEMOIZED, *NUMBERS, RangeRandomizer(12, 1.0)], ids=lambda one: one.name)
def test_a_device_reports_alike_whatever_rows_it_is_computed_with(built):
    devices = SimulatedDevices.holding(built, range(12), np.arange(300) % 12, np.random.default_rng(2))
    whole = devices.report(1)
    assert np.array_equal(devices.report(1, start=100, stop=140).bits, whole.bits[100:140])
    batches = list(devices.batches(1, size=77))
    assert np.array_equal(np.concatenate([batch.bits for batch in batches]), whole.bits)
    assert np.array_equal(devices.report(0).bits, whole.bits) == (built not in FRESH), "one round is memoized"


@pytest.mark.parametrize(
    ("name", "more", "dtype"),
    [
        ("grr", {}, np.uint16),
        ("linear-hash", {}, np.uint32),
        ("olh", {}, np.uint16),
        ("blh", {"hash_key": "m", "num_seeds": 1000}, np.uint16),
        ("dbitflip", {}, np.uint16),
    ],
)
def test_cohorts_are_as_wide_as_they_travel(name, more, dtype):
    oracle = overstory.oracle(name, domain_size=9, epsilon=1.0, **more)
    assert oracle.simulate([1], np.random.default_rng(1)).cohorts.dtype == dtype


def test_a_domain_of_billions_is_simulated_and_asked_for_a_few_values():
    oracle = overstory.oracle("linear-hash", domain_size=1 << 31, epsilon=3.0)
    held = np.repeat([7, (1 << 31) - 1], [4000, 1000])
    reports = oracle.simulate(held, np.random.default_rng(1))
    counts = oracle.accumulate(reports, [7, (1 << 31) - 1, 8])
    estimate = oracle.estimate(counts, ["7", "last", "8"])
    assert np.all(np.abs(estimate.raw_counts - [4000, 1000, 0]) < 7 * estimate.standard_errors)


def test_few_strings_set_the_bits_that_many_do(monkeypatch):
    """The device's own code took over below 50,000 hashes alone: a first `map` of 10^4 compiled for eight seconds."""
    bloom, strings = Bloom(100, 3, 5), ["", "Ohio", "élan ☂", *(f"value-{i}" for i in range(90))]
    found = []
    for few in (True, False):
        monkeypatch.setattr(base, "are_few", lambda count, kernels, at_once, few=few: few)
        found.append(positions_of(bloom, strings))
    assert found[0].dtype == found[1].dtype
    assert np.array_equal(*found)


def test_many_words_are_the_devices_words(monkeypatch):
    strings = [f"value-{i}" for i in range(90)]
    encoding = SeededHash(4, 64, None, "key")
    for few in (True, False):
        monkeypatch.setattr(base, "are_few", lambda count, kernels, at_once, few=few: few)
        assert words_of(encoding, strings).tolist() == [value_word(string, None, "key") for string in strings]
    assert words_of(SeededHash(4, 64, 1 << 31), [(1 << 31) - 1]).tolist() == [value_word((1 << 31) - 1, 1 << 31, "")]
    with pytest.raises(ParameterError, match="outside the domain"):
        words_of(SeededHash(4, 64, 10), [10])


@pytest.mark.parametrize("sampled", [1, 63, 64, 65, 70])
def test_sampled_bits_of_every_width(sampled):
    oracle = overstory.oracle("dbitflip", domain_size=70, epsilon=20.0, sampled_bits=sampled)
    symbols = np.arange(7000) % 70
    reports = oracle.simulate(symbols, np.random.default_rng(1))
    assert reports.bits.shape[1] == -(-sampled // 64)
    counts = oracle.accumulate(reports)
    asked, ones = oracle.support.asked(counts)
    assert asked.sum() == 7000 * sampled
    assert ones.sum() == pytest.approx(7000 * sampled / 70, abs=7 * 84)


def test_a_symbol_that_nobody_was_asked_for_is_unknown():
    oracle = overstory.oracle("dbitflip", domain_size=9, epsilon=1.0, sampled_bits=2)
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate([1], np.random.default_rng(1))))
    assert np.isinf(estimate.standard_errors).sum() == 7
    nothing = oracle.estimate(oracle.accumulate([]))
    assert np.isinf(nothing.standard_errors).all()
    assert "nothing can be estimated" in nothing.notes[0]


@pytest.mark.parametrize("members", [0, 0b1, 0b111111111, 1 << 9])
def test_a_subset_of_another_size_is_refused(members):
    oracle = overstory.oracle("subset", domain_size=9, epsilon=1.0)
    sound = Report(0, (1 << oracle.mechanism.encoding.subset_size) - 1)
    with pytest.raises(ParameterError, match=r"members, not|a report's bits"):
        oracle.accumulate([sound, Report(0, members)])
    assert oracle.accumulate([sound]).num_reports == 1


def test_a_mechanism_that_names_no_server_is_refused():
    class Odd:
        name, server = "odd", ""

    with pytest.raises(ParameterError, match="reports of odd are not counted"):
        support_of(Odd())
    assert support_of(mechanism("grr", domain_size=4, epsilon=1.0)).work.words == "n + d"


def test_more_reports_and_more_values_take_longer_by_every_oracle():
    for size, larger in ((100, 10_000), (10_000, 1_000_000)):
        few, many = rank(size, 1.0, 10**5), {choice.name: choice for choice in rank(larger, 1.0, 10**5)}
        assert len({choice.core_seconds for choice in few}) > 3  # not one number for all
        for choice in few:
            support = support_of(mechanism(choice.name, **choice.parameters))
            assert 0 < choice.core_seconds < support.core_seconds(10**6, size)
            assert choice.name not in many or choice.core_seconds < many[choice.name].core_seconds


def test_an_oracle_that_counts_ten_times_longer_is_preferred_only_below_ten_core_seconds():
    quick, slow = (rank(size, 1.0, 10**7) for size in (10**5, 10**6))
    quick_seconds, slow_seconds = ({choice.name: choice.core_seconds for choice in one} for one in (quick, slow))
    for seconds in (quick_seconds, slow_seconds):  # on both sides olh takes more than ten times as long
        assert seconds["olh"] > TIMES * seconds["projective"]
    assert quick_seconds["olh"] < QUICK < slow_seconds["olh"]
    assert recommend(quick).name == "olh"
    assert recommend(slow).name == "projective"
    assert "olh" in {choice.name for choice in slow}
    assert "core-seconds" not in trade(quick, recommend(quick))
    assert trade(slow, recommend(slow)).startswith(
        "olh would link a device's reports less, but counting takes 41 core-seconds instead of 0.43 with projective; "
    )
    only_olh = tuple(choice for choice in slow if choice.name == "olh")
    assert recommend(only_olh).name == "olh"


def test_the_two_limits_of_counting_are_where_they_are_stated():
    ranking = tuple(choice for choice in rank(10**6, 1.0, 10**7) if choice.name in {"olh", "projective"})

    def preferred(olh, projective):
        seconds = {"olh": olh, "projective": projective}
        return recommend(tuple(dataclasses.replace(one, core_seconds=seconds[one.name]) for one in ranking)).name

    assert preferred(QUICK, 0.01) == "olh"
    assert preferred(QUICK + 0.01, 0.01) == "projective"
    assert preferred(TIMES * 100, 100.0) == "olh"
    assert preferred(TIMES * 100 + 1, 100.0) == "projective"


def test_quick_counting_by_a_seed_that_names_the_device_is_no_reason_to_prefer_another():
    ranking = rank(10**6, 1.0, 10**7)
    without = tuple(choice for choice in ranking if choice.name != "projective")
    seconds = {choice.name: choice.core_seconds for choice in without}
    assert seconds["olh"] > max(QUICK, TIMES * seconds["linear-hash"])
    assert recommend(without).name == "olh"
