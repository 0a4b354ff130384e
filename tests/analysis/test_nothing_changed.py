"""Two collections of one population: the overall test, overlapping devices, and what could have been missed.

The quick tests raise a false alarm with a chance of at most FALSE_ALARM, were the seeds not fixed. "Calibrated" is: at
p <= .05 between 2% and 8% of the pairs without change are called changed.
"""

import numpy as np
import pytest
from scipy.stats import binom

import overstory
from overstory.analysis.difference import difference
from overstory.analysis.estimate import Estimate
from overstory.protocol.errors import ParameterError
from support import two_weeks
from support.estimates import estimate_of
from support.random_collections import FALSE_ALARM
from support.two_weeks import KINDS, WEEKS


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


def overlapping(name, parameters, stay, rng):
    """Two weeks of 2,000 devices each, of which a share stays and keeps its values: the difference of the first value.

    Returns the difference with the overlap declared.
    """
    oracle = overstory.oracle(name, domain_size=5, **parameters)
    kept = int(2_000 * stay)
    held = rng.choice(5, 4_000 - kept, p=WEEKS[0])
    fleet = oracle.devices(held, rng)
    first, second = (
        oracle.accumulate(part)
        for part in (reports_of(fleet, 0, 0, 2_000), reports_of(fleet, 1, 2_000 - kept, 4_000 - kept))
    )
    return difference(oracle.estimate(first), oracle.estimate(second), overlap=stay)


def reports_of(fleet, index, start, stop):
    from dataclasses import replace

    batch = fleet.report(index)
    return replace(batch, bits=batch.bits[start:stop], cohorts=batch.cohorts[start:stop])


@pytest.mark.parametrize("stay", [0.5, 0.9, 1.0])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("grr", {"epsilon": 2.0}),
        ("oue", {"epsilon": 2.0}),
        ("l-osue", {"epsilon_permanent": 3.0, "epsilon_report": 1.5}),
        ("subset", {"epsilon": 2.0}),
        ("opt-wb", {"epsilon": 2.0, "window": 2}),
    ],
)
def test_a_declared_overlap_has_the_covariance(name, parameters, stay):
    """The spread of z is 1, where without the declaration it would be less: the errors are exact, not just safe."""
    rng, z, squares = np.random.default_rng(8), [], []
    for _ in range(150):
        both = overlapping(name, parameters, stay, rng)
        known = both.standard_errors[:4] > 1e-9
        z += (both.differences[:4] / np.where(known, both.standard_errors[:4], 1))[known].tolist()
        assert np.allclose(both.differences[:4][~known], 0, atol=1e-9)
        squares.append(both.overall_p_value <= 0.05)
    if z:
        assert np.mean(np.square(z)) == pytest.approx(1, abs=0.25)
    assert binom.sf(sum(squares) - 1, 150, 0.09) > FALSE_ALARM


def test_an_overlap_that_cannot_be_used_is_refused():
    rng, oue, grr = np.random.default_rng(9), *(overstory.oracle(n, domain_size=5, epsilon=1.0) for n in ("oue", "grr"))
    held = np.arange(5).repeat(100)
    a, b, other = week(oue, held, rng), week(oue, held, rng), week(grr, held, rng)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ParameterError, match="overlap is a share of the devices, 0 to 1"):
            difference(a, b, overlap=share)
    with pytest.raises(ParameterError, match="two collections of one oracle that is estimated in closed form"):
        difference(a, other, overlap=0.5)
    bloom, _ = next(two_weeks.collections("Bloom filters, h = 1", 4.0, 500, 1))[0], None
    with pytest.raises(ParameterError, match="without it the test is conservative"):
        difference(bloom, bloom, overlap=0.5)
    assert "90% of the devices of the smaller collection" in difference(a, b, overlap=0.9).notes[0]


def test_without_covariances_the_overall_test_is_that_of_the_smallest_q():
    both = difference(estimate_of([500.0, 300.0, 100.0], 20.0), estimate_of([300.0, 300.0, 100.0], 20.0))
    assert both.overall_test == "simes"
    assert both.overall_p_value == both.q_values.min()
    assert "from the smallest q" in both.table()
