"""Two kinds of intervals, and the difference of two collections (FINDINGS, item 9 of the issue).

A 95% interval of a difference between two weeks covered 64.5% at epsilon 4: it held the noise of randomization, and not
that other people were asked. Coverage counts as right from 93.5% to 96.5%. The quick test raises a false alarm with a
chance of at most FALSE_ALARM for each oracle, were the seeds not fixed; the slow one measures the mean coverage over
five values with a standard error of about .4 percentage points, of which its band has 3.5 on either side.
"""

import json

import numpy as np
import pytest
from scipy.stats import binom

import overstory
from overstory.analysis.decoding import decode
from overstory.analysis.difference import difference
from overstory.analysis.estimate import Estimate
from overstory.analysis.reports import SupportCounts
from overstory.protocol.errors import ParameterError
from support import two_weeks
from support.estimates import estimate_of
from support.random_collections import FALSE_ALARM, random_map, report
from support.two_weeks import KINDS, ORACLES, WEEKS, collections, is_alarming


def covered(weeks, interval_kind):
    """How often the interval of each value's difference holds the difference of the populations."""
    truth = WEEKS[0] - WEEKS[1]
    hits = []
    for a, b in weeks:
        low, high = difference(a, b, interval_kind=interval_kind).confidence_interval()
        hits.append((low <= truth) & (truth <= high))
    return np.array(hits)


@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_of_a_difference_covers_the_populations(kind):
    weeks = list(collections(kind, 4.0, 1_500, 120))
    assert not is_alarming(covered(weeks, "population"))
    if kind in {"a symbol", "a set"}:  # as it was: noise alone
        assert is_alarming(covered(weeks, "reports"))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_coverage_of_a_difference_is_between_93_5_and_96_5_percent(kind, epsilon):
    hits = covered(collections(kind, epsilon, 3_000, 500), "population")
    by_value = hits.mean(axis=0).round(3).tolist()
    assert 0.935 <= hits.mean() <= 0.965, by_value
    assert not is_alarming(hits), by_value


@pytest.mark.parametrize("interval_kind", ["reports", "population"])
@pytest.mark.parametrize("kind", ["one-hot bits", "hashes, fitted seeds", "Bloom filters, h = 2"])
def test_an_interval_covers_what_its_kind_says(kind, interval_kind):
    """Of these reports: the shares among the people who reported. Of all devices like these: the population's."""
    if kind in ORACLES:
        oracle = overstory.oracle(ORACLES[kind][0], epsilon=4.0, **ORACLES[kind][1])
    rng, hits = np.random.default_rng(2), []
    for _ in range(150):
        drawn = rng.multinomial(2_000, WEEKS[0])
        truth = drawn if interval_kind == "reports" else 2_000 * WEEKS[0]
        if kind in ORACLES:
            counts = oracle.accumulate(oracle.simulate(np.repeat(np.arange(5), drawn), rng))
            found = oracle.estimate(counts, interval_kind=interval_kind)
        else:
            shelf, q_star = random_map(rng, 5, cohorts=4, bits=24), 1 / (np.exp(2) + 1)
            counts = report(rng, shelf, drawn, 0.5, q_star)
            found = decode(counts, shelf, p_star=0.5, q_star=q_star, interval_kind=interval_kind)
        low, high = found.confidence_interval()
        hits.append((low <= truth) & (truth <= high))
    assert not is_alarming(np.array(hits))


def estimate(counts, reports=1_000, error=20.0, **more):
    return estimate_of(counts, error, values=list("abc"), reports=reports, **more)


def test_the_population_adds_the_sampling_of_devices_not_of_reports():
    """f (1 - f) over the devices: 1,000 reports of 100 devices are 100 people."""
    alone, ten = (estimate([500.0, 0.0, -30.0], reports_per_device=each) for each in (1.0, 10.0))
    for found, devices in ((alone, 1_000), (ten, 100)):
        variances = (found.errors("population") ** 2 - found.errors("reports") ** 2) / 1_000**2
        assert np.allclose(variances, [0.5 * 0.5 / devices, 0.0, 0.0])
    assert (alone.errors() == alone.standard_errors).all()


def test_detection_does_not_depend_on_the_kind():
    """Detection tests whether nobody has a value: then the sampling of people adds nothing."""
    reports, population = (estimate([300.0, 70.0, 10.0], interval_kind=kind) for kind in ("reports", "population"))
    assert (reports.p_values == population.p_values).all()
    assert (reports.detected() == population.detected()).all()
    assert (population.errors() > reports.errors()).all()


def test_a_difference_has_error_interval_p_and_q():
    """Values are matched by name, whatever their order; kinds of the two estimates do not matter."""
    a = estimate([500.0, 300.0, 100.0], interval_kind="reports")
    b = estimate_of([300.0, 600.0, 5.0], 30.0, values=["c", "b", "x"], reports=2_000, interval_kind="population")
    both = difference(a, b)
    assert list(both.values) == ["b", "c"]
    assert np.allclose(both.differences, [0.3 - 0.3, 0.1 - 0.15])
    expected = np.sqrt([0.02**2 + 0.3 * 0.7 / 1_000 + 0.015**2 + 0.3 * 0.7 / 2_000,
                        0.02**2 + 0.1 * 0.9 / 1_000 + 0.015**2 + 0.15 * 0.85 / 2_000])  # fmt: skip
    assert np.allclose(both.standard_errors, expected)
    low, high = both.confidence_interval()
    assert np.allclose(high - low, 2 * 1.959964 * expected)
    assert both.p_values[0] == pytest.approx(1.0)
    assert both.notes == ("2 value(s) occur in only one of the estimates and are not compared",)
    told = json.loads(json.dumps(both.to_json(), allow_nan=False))
    assert [row["value"] for row in told["differences"]] == ["c", "b"]
    assert (told["interval"], told["reports"]) == ("population", [1_000, 2_000])
    assert "of all devices like these" in both.table()
    assert difference(a, b, interval_kind="reports").standard_errors[0] == pytest.approx(0.025)


def test_what_one_collection_does_not_know_is_unknown():
    nothing = estimate([0.0, 0.0, 0.0], reports=0, error=np.inf)
    both = difference(estimate([500.0, 300.0, 100.0]), nothing)
    assert (both.p_values == 1.0).all()
    assert both.rows()[0]["standard_error"] is None
    assert "unknown" in both.table()


def test_bad_arguments_are_refused():
    with pytest.raises(ParameterError, match="no value in common"):
        difference(estimate([1.0, 2.0, 3.0]), estimate_of([1.0], values=["x"]))
    with pytest.raises(ParameterError, match="lists a value twice"):
        difference(estimate([1.0, 2.0, 3.0]), estimate_of([1.0, 1.0], values=["a", "a"]))
    with pytest.raises(ParameterError, match="interval_kind = 'both': choose one of reports, population"):
        estimate([1.0, 2.0, 3.0], interval_kind="both")
    with pytest.raises(ParameterError, match="choose one of"):
        estimate([1.0, 2.0, 3.0]).confidence_interval(kind="people")
    oracle = overstory.oracle("grr", domain_size=2, epsilon=1.0)
    with pytest.raises(ParameterError, match="interval_kind"):
        oracle.estimate(SupportCounts([4], [[3, 1]]), interval_kind="all")


@pytest.fixture
def unchanged(monkeypatch):
    """Both weeks have the first one's shares."""
    monkeypatch.setattr(two_weeks, "WEEKS", np.array([WEEKS[0], WEEKS[0]]))


def alarms(kind, epsilon, people, pairs):
    """In how many pairs of weeks the overall test says that something changed."""
    count = 0
    for a, b in two_weeks.collections(kind, epsilon, people, pairs, seed=21):
        both = difference(a, b)
        assert both.overall_test == "covariance"
        count += both.overall_p_value <= 0.05
    return count


@pytest.mark.parametrize("kind", ["a symbol", "a set", "hashes, fitted seeds", "sampled bits", "Bloom filters, h = 2"])
@pytest.mark.usefixtures("unchanged")
def test_the_overall_test_is_calibrated(kind):
    count = alarms(kind, 4.0, 1_500, 150)
    assert binom.sf(count - 1, 150, 0.08) > FALSE_ALARM
    if kind == "a symbol":
        assert count > 0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unchanged")
def test_the_overall_test_calls_two_to_eight_percent_changed(kind, epsilon):
    assert 0.02 <= alarms(kind, epsilon, 3_000, 600) / 600 <= 0.08


@pytest.mark.usefixtures("unchanged")
def test_the_noise_alone_raises_false_alarms(monkeypatch):
    """Broken on purpose: without the sampling of people nearly every pair of weeks differs at epsilon 4."""
    monkeypatch.setattr(Estimate, "errors", lambda self, kind=None: self.standard_errors)
    assert alarms("a symbol", 4.0, 1_500, 60) > 20


def test_a_change_is_seen_by_all_values_together():
    """Each of 20 values moves by little more than its error: no single one is sure, but all together are."""
    rng = np.random.default_rng(5)
    oue = overstory.oracle("oue", domain_size=20, epsilon=2.0)
    shares = np.full((2, 20), 0.05) + 0.018 * np.outer([1, -1], np.tile([1, -1], 10))
    weeks = [oue.estimate(oue.accumulate(oue.simulate(rng.choice(20, 6_000, p=each), rng))) for each in shares]
    both = difference(*weeks)
    assert both.overall_p_value < 1e-3
    assert both.to_json()["overall_p_value"] == both.overall_p_value


def week(oracle, held, rng):
    return oracle.estimate(oracle.accumulate(oracle.simulate(held, rng)))


def test_the_change_that_could_have_been_missed_is_computed():
    """A change of `detectable` in one value is called one with its probability, 95%, at least."""
    rng, hits, pairs = np.random.default_rng(16), 0, 300
    oue, shares = overstory.oracle("oue", domain_size=5, epsilon=2.0), np.array([0.3, 0.3, 0.2, 0.2, 0.0])
    before = difference(*(week(oue, rng.choice(5, 4_000, p=shares), rng) for _ in range(2)))
    change = float(before.detectable()[0])
    moved = shares + change * np.array([1, -0.25, -0.25, -0.25, -0.25])
    moved = np.clip(moved, 0, None) / np.clip(moved, 0, None).sum()
    for _ in range(pairs):
        both = difference(*(week(oue, rng.choice(5, 4_000, p=p), rng) for p in (moved, shares)))
        hits += both.changed()[0]
    assert binom.cdf(hits, pairs, 0.90) > FALSE_ALARM
    assert hits < pairs
    text = f"a change of {100 * before.detectable().max():.1f} percentage points or more in any value"
    assert before.sentence().startswith("no change is visible")
    assert text in before.sentence()
    with pytest.raises(ParameterError, match="power is a probability"):
        before.detectable(1.0)


def test_the_sentence_names_what_changed():
    rng, oue = np.random.default_rng(7), overstory.oracle("oue", labels=["dark", "light", "auto"], epsilon=3.0)
    weeks = [
        week(oue, ["dark"] * a + ["light"] * b + ["auto"] * 2_000, rng) for a, b in ((6_000, 2_000), (4_000, 4_000))
    ]
    both = difference(*weeks)
    low, high = both.interval()
    text = f"dark {100 * both.differences[0]:+.1f} ({100 * low[0]:.1f} to {100 * high[0]:.1f})"
    assert both.sentence().startswith("changed, in percentage points: ")
    assert text in both.sentence()
    assert both.sentence() in both.table()


def test_without_covariances_the_overall_test_is_that_of_the_smallest_q():
    both = difference(estimate_of([500.0, 300.0, 100.0], 20.0), estimate_of([300.0, 300.0, 100.0], 20.0))
    assert both.overall_test == "simes"
    assert both.overall_p_value == both.q_values.min()
    assert "from the smallest q" in both.table()
