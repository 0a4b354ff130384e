"""Intervals and estimates of detected values: they pay for the selection, and say so (issue 13, item 7)."""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

from overstory.analysis.difference import difference
from overstory.analysis.estimate import FEW
from overstory.analysis.kinds.base import SimulatedDevices, count_reports, support_of
from overstory.analysis.postprocess import postprocess
from overstory.analysis.selection import clustered_tails, needed_p_value, normal_reach
from overstory.discovery.result import Discovered
from overstory.protocol.kinds.item_sets import padding_and_sampling
from overstory.protocol.kinds.registry import mechanism
from support.estimates import estimate_of
from support.random_collections import FALSE_ALARM

BENCH = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "detected_coverage.py"))
PROMISED = 0.945

RAW = np.array([100.0, 45.0, 36.0, *np.linspace(-15, 15, 97)])  # two of 100 are far above the noise, one barely


def is_surely_less(held, number, share=PROMISED):
    return binom.cdf(held, number, share) < FALSE_ALARM


def test_detected_values_have_the_level_of_benjamini_and_yekutieli():
    estimate = estimate_of(RAW)
    detected = estimate.detected()
    assert detected.tolist() == [True] * 3 + [False] * 97
    low, high = estimate.interval()
    assert np.allclose((high - low)[detected] / 20, norm.isf(0.05 * 3 / 100 / 2))
    assert np.allclose((high - low)[~detected] / 20, norm.isf(0.025))
    for level in (0.9, 0.99):
        plain = estimate.confidence_interval(level)
        assert np.allclose(estimate.interval(level, adjusted=False), plain)
        assert np.array_equal(np.array(estimate.interval(level))[:, ~detected], np.array(plain)[:, ~detected])
    nothing = estimate_of(np.zeros(5))
    assert np.allclose(nothing.interval(), nothing.confidence_interval())


def test_a_search_pays_for_all_that_it_tried():
    values = {"values": ("a", "b"), "raw_values": ("a", "b"), "sources": ("last", "last")}
    found = Discovered(
        **values,
        counts=[500.0, 20.0],
        raw_counts=[500.0, 20.0],
        standard_errors=[50.0, 50.0],
        p_values=[1e-20, 0.3],
        q_values=[1e-14, 1.0],
        num_reports=1_000,
        tried=100_000,
        alpha=0.05,
        correction="fdr",
        threshold=None,
        detectable_frequency=None,
        epsilon=1.0,
    )
    low, high = found.interval()
    assert (high - low) / 100 == pytest.approx([norm.isf(0.025 / 100_000), norm.isf(0.025)])
    assert [row["adjustment"] for row in found.rows(everything=True)] == ["fcr", "none"]


def test_the_needed_p_value_is_that_of_the_rule():
    for correction in ("fdr", "bonferroni"):
        estimate = estimate_of(RAW, correction=correction)
        needed = needed_p_value(0.05, correction, int(estimate.detected().sum()), len(estimate))
        assert np.array_equal(estimate.p_values <= needed, estimate.detected())


def test_every_output_names_the_adjustment(tmp_path):
    estimate = estimate_of(RAW)
    assert estimate.to_json()["adjustment"] == "fcr"
    assert [row["adjustment"] for row in estimate.rows()][:4] == ["fcr"] * 3 + ["none"]
    words = "wider for detected values, so that the level holds for them too (false coverage rate)"
    assert estimate.table().splitlines()[-1].endswith(words)
    estimate.to_csv(tmp_path / "results.csv")
    header, *lines = (tmp_path / "results.csv").read_text(encoding="utf-8").splitlines()
    row = dict(zip(header.split(","), lines[0].split(","), strict=True))
    assert row["adjustment"] == "fcr"
    assert float(row["prop_plain_low_95"]) == pytest.approx(0.1 - 0.0196, abs=1e-4)
    assert estimate.to_arrow().column_names == list(next(iter(estimate))._fields)
    json.dumps(estimate.to_json(), allow_nan=False)


def test_changed_values_pay_as_well():
    both = difference(estimate_of(RAW), estimate_of(np.where(RAW == 100.0, 0.0, RAW)))
    assert both.changed().tolist() == [True] + [False] * 99
    reach = normal_reach(1 - 0.05 / 100)
    rows = both.rows()
    assert (rows[0]["high"] - rows[0]["low"]) / 2 == pytest.approx(reach * both.standard_errors[0])
    assert (rows[0]["adjustment"], rows[1]["adjustment"]) == ("fcr", "none")
    assert rows[0]["plain_high"] < rows[0]["high"]
    assert "wider for changed values" in both.table()
    assert f"({100 * rows[0]['low']:.1f} to {100 * rows[0]['high']:.1f})" in both.sentence()


MEMOIZED = mechanism("basic-rappor", domain_size=5, f=0.05, p=0.01, q=0.9)
FEW_EXPECTED = [  # the oracle, how many devices, how many reports each sends; whether normal p-values surely fail
    (mechanism("grr", epsilon=6, domain_size=10), 30, [1], True),
    (mechanism("subset", epsilon=6, domain_size=10), 30, [1], True),
    (mechanism("dbitflip", epsilon=13, domain_size=10, sampled_bits=8), 200, [1], False),
    (padding_and_sampling(domain_size=10, most=1, epsilon=6, inner="grr"), 30, [1], True),
    (mechanism("l-grr", epsilon_permanent=8, epsilon_report=7, domain_size=10), 60, [1, 2, 3], False),
    (MEMOIZED, 30, [4], False),
    (MEMOIZED, 30, [1, 2, 8], False),
]
COLLECTIONS = 400


def false_shares(built, num_devices, several):
    """Return the false discovery proportions where all hold value 0: with p-values as they are, and normal ones."""
    rng, shares = np.random.default_rng(29), []
    numbers = -np.sort(-np.resize(several, num_devices))
    each = float((numbers**2).sum() / numbers.sum())
    held = {0} if built.name == "padding-and-sampling" else 0
    for _ in range(COLLECTIONS):
        fleet = SimulatedDevices.holding(built, [held], np.zeros(num_devices, int), rng)
        batches = (fleet.report(index, stop=int((numbers > index).sum())) for index in range(numbers[0]))
        first, *others = (count_reports(built, batch) for batch in batches)
        estimate = support_of(built).estimate(sum(others, first), None, reports_per_device=each)
        for shown in (estimate, postprocess(estimate, "norm-sub")):
            low, _ = shown.interval(adjusted=False)
            assert (low[1:][shown.p_values[1:] > 0.025] <= 0).all(), "an interval excludes 0, and the test does not"
        found = [each.detected() for each in (estimate, replace(estimate, null_support=None))]
        shares.append([detected[1:].sum() / max(detected.sum(), 1) for detected in found])
    return np.mean(shares, axis=0)


@pytest.mark.parametrize(("built", "devices", "several", "is_lost"), FEW_EXPECTED)
def test_the_false_discovery_rate_holds_where_few_supports_are_expected(built, devices, several, is_lost):
    """By Hoeffding's inequality a mean of 400 shares is this far above its expectation once in a million."""
    margin = np.sqrt(np.log(1 / FALSE_ALARM) / (2 * COLLECTIONS))
    exact, normal = false_shares(built, devices, several)
    assert exact < 0.05 + margin
    assert not is_lost or normal > 0.05 + margin, "broken on purpose: normal p-values, and nobody notices"


@pytest.mark.parametrize(
    ("clusters", "size", "chances", "second"), [(9, 3, (0.01, 0.9), 0.1), (40, 2, (0.0, 1.0), 0.02)]
)
def test_the_tail_of_clusters_is_that_of_its_mixture(clusters, size, chances, second):
    tails = clustered_tails(clusters * size, size, chances, second)
    for count in range(1, clusters * size + 1):
        mixture = 0.0
        for many in range(clusters + 1):  # clusters with the second chance
            first = binom.pmf(np.arange(count), size * (clusters - many), chances[0])
            reached = binom.sf(count - np.arange(count) - 1, size * many, chances[1])
            rest = first @ reached + binom.sf(count - 1, size * (clusters - many), chances[0])
            mixture += binom.pmf(many, clusters, second) * rest
        assert tails[min(count, tails.size - 1)] == pytest.approx(mixture, abs=2e-13)


@pytest.mark.parametrize("q_star", [1 / (1 + np.exp(4.0)), 1 / (2 + np.exp(8.0)), 1 / (9 + np.exp(8.0))])
def test_normal_p_values_are_near_enough_from_where_they_are_taken(q_star):
    """SUE, and GRR of 3 and 10 values, at epsilon 8; where a tenth as many are expected they would not be."""
    p_star = 1 - q_star if q_star > 0.01 else 1 - 2 * q_star
    for expected, most in ((FEW, 1.15), (FEW // 10, None)):
        reports = int(expected / q_star)
        support = int(expected + 4 * np.sqrt(expected))
        holders = (support - reports * q_star) / (p_star - q_star)
        spread = holders * p_star * (1 - p_star) + (reports - holders) * q_star * (1 - q_star)
        normal = norm.sf((support - reports * q_star) / np.sqrt(spread))
        ratio = binom.sf(support - 1, reports, q_star) / normal
        assert 1 < ratio < most if most else ratio > 1.4


@pytest.mark.parametrize("name", ["oue", "basic-rappor", "l-sue"])
def test_p_values_move_little_with_the_reports_of_a_device(name):
    """As the normal ones do: also where the reports of a device are no whole number, and at once for all values."""
    given = {"f": 0.5, "p": 0.4, "q": 0.6} if name == "basic-rappor" else {"epsilon": 2.0}
    given = {"epsilon_permanent": 2.0, "epsilon_report": 1.0} if name == "l-sue" else given
    built = mechanism(name, domain_size=4, **given)
    devices = SimulatedDevices.holding(built, range(4), np.zeros(3_000, np.int64), np.random.default_rng(7))
    counts = count_reports(built, devices.report())
    logs = []
    for each in (1.0, 1.0001, 1.1, 1.9, 2.0, 2.01, 3.0, 7.5, 30.5, 365.0):
        estimate = support_of(built).estimate(counts, list(range(4)), reports_per_device=each)
        exact = np.log(estimate.p_values[1:])
        normal = np.log(replace(estimate, null_support=None).p_values[1:])
        assert np.abs(exact - normal).max() < 0.5 if each < 30 else np.isfinite(exact).all()
        logs.append(exact)
    # A kept response supports a value with all reports of a device: one device more or less is 8% of a p-value here.
    assert np.abs(logs[1] - logs[0]).max() < 0.15
    assert np.abs(logs[5] - logs[4]).max() < 0.15


@pytest.mark.parametrize("workload", ["one-hot bits", "one-hot bits, population"])
def test_intervals_of_detected_values_cover_in_a_few_collections(workload):
    """A false alarm has a chance of at most FALSE_ALARM where the intervals hold at least 94.5%."""
    row = BENCH["measure"](30, workload, "lognormal, half absent")
    number = row["detected"]
    assert not is_surely_less(round(row["coverage"]["fcr"] * number), number), row
    # Broken on purpose: the plain intervals, as they were shown before.
    assert is_surely_less(round(row["coverage"]["none"] * number), number), row
    assert row["fdr"] <= 0.08


@pytest.mark.slow
@pytest.mark.parametrize("population", BENCH["populations"]())
def test_intervals_of_detected_values_cover_on_every_population(population):
    """At least 94.5% of 5,000 to 7,600 intervals hold the truth.

    Where 96.5% do on average, as in `bench/detected_coverage.py`, the chance of a false alarm is below 1e-8.
    """
    rows = {workload: BENCH["measure"](100, workload, population, seed=29) for workload in BENCH["WORKLOADS"]}
    number = sum(row["detected"] for row in rows.values())
    covered = {
        name: sum(row["coverage"][name] * row["detected"] for row in rows.values()) / number for name in ("none", "fcr")
    }
    assert number > 2_000
    assert covered["fcr"] >= PROMISED
    assert is_surely_less(round(covered["none"] * number), number)  # the plain ones fail
    assert all(row["fdr"] <= 0.07 for row in rows.values()), rows
