"""What raises an alarm, how severe it is, and what it says; false alarms and power of steps and drifts (issue 12).

Each test of rates raises a false alarm with a chance of at most FALSE_ALARM, were its seed not fixed. A week is false
if any value of any of 10 metrics, none of which changes, is called changed at q <= .05; at most 8% of the weeks may be.
"""

import datetime as dt
import json
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from overstory.analysis.alarms import alarm as alarms
from overstory.analysis.alarms import alarm as changes_module
from overstory.analysis.decoding import decode
from overstory.protocol.errors import ParameterError
from support.estimates import estimate_of
from support.random_collections import FALSE_ALARM, P_STAR, Q_STAR, random_map, report


def week(*shares, reports=100_000, error=0.0):
    return estimate_of(np.array(shares) * reports, error * reports, reports=reports)


def change(value="v0", by=0.05, metric="m", q=0.001):
    return alarms.Change(
        metric=metric, period="2026-W47", value=value, before=0.2, after=0.2 + by, standard_error=0.01, q_value=q
    )


def test_a_step_is_a_change_past_chance_that_matters():
    before = [week(0.4, 0.02, 0.58)] * 8
    [found] = alarms.find_changes([alarms.Comparison("m", "2026-W47", [week(0.405, 0.03, 0.575)], before)])
    assert (found.value, round(found.change, 4)) == ("v1", 0.01)
    every = alarms.find_changes([alarms.Comparison("m", "2026-W47", [week(0.405, 0.03, 0.565)], before)], least=False)
    assert {one.value for one in every} == {"v0", "v1", "v2"}


def test_the_mean_before_weighs_reports_and_the_error_has_the_people():
    before = [week(0.4, reports=10_000), week(0.5, reports=30_000)]
    [found] = alarms.find_changes([alarms.Comparison("m", "w", [week(0.2, reports=10_000)], before)])
    assert found.before == pytest.approx(0.475)
    variance = 0.2 * 0.8 / 10_000 + (10_000 * 0.4 * 0.6 + 30_000 * 0.25) / 40_000**2
    assert found.standard_error == pytest.approx(variance**0.5)


def test_one_false_discovery_rate_covers_all_metrics_of_a_run():
    """The same change among many values that did not change has a larger q."""
    moved = alarms.Comparison("a", "w", [week(0.4066)], [week(0.4)] * 8)
    steady = alarms.Comparison("b", "w", [week(*[0.01] * 99)], [week(*[0.01] * 99)] * 8)
    [alone] = alarms.find_changes([moved], alpha=0.5, least=False)
    among = alarms.find_changes([moved, steady], alpha=0.5, least=False)
    assert [one.metric for one in among] == ["a"]
    assert among[0].q_value == pytest.approx(min(1, 100 * alone.q_value))


def test_periods_without_reports_and_negative_shares():
    nothing = estimate_of([0], np.inf, reports=0)
    assert alarms.find_changes([alarms.Comparison("m", "w", [nothing], [week(0.4)] * 8)], least=False) == ()
    [found] = alarms.find_changes([alarms.Comparison("m", "w", [week(0.004)], [week(-0.001, error=0.0001), nothing])])
    assert found.before < 0 < found.after
    assert alarms.find_changes([]) == ()


def test_two_lists_are_not_compared():
    with pytest.raises(ParameterError, match="one list of values"):
        alarms.Comparison("m", "w", [week(0.4)], [week(0.4, 0.2)])
    with pytest.raises(ParameterError, match="at least one"):
        alarms.Comparison("m", "w", [week(0.4)], [])


@pytest.mark.parametrize(
    ("runs", "severities"),
    [
        ([[], [], []], []),
        ([[], [], [change()]], ["amber"]),
        ([[change()]], ["amber"]),
        ([[], [change()], [change()]], ["red"]),
        ([[change()], [], [change()]], ["red"]),
        ([[change()], [change()], []], ["red"]),
        ([[change()], [change()], [], []], []),  # of the last three alone
        ([[], [change()], []], []),  # over
        ([[], [change(by=-0.05)], [change()]], ["amber"]),  # the other way
        ([[], [change("v1")], [change(), change("v1")]], ["red", "amber"]),
        ([[], [], [change(), change(metric="n")]], ["amber", "amber"]),
    ],
)
def test_a_step_is_amber_once_and_red_twice_in_three(runs, severities):
    assert [alarm.severity for alarm in alarms.steps(runs)] == severities


def test_an_alarm_names_its_surest_values_and_reads_as_a_sentence():
    [alarm] = alarms.steps([[change(f"v{i}", q=i / 1_000) for i in range(5, 0, -1)]])
    assert alarm.values == ("v1", "v2", "v3", "v4", "v5")
    assert alarm.text.startswith("v1 +5.00 points, v2 +5.00 points, v3 +5.00 points, 2 more against the 8 periods")
    entry = json.loads(json.dumps(alarm.to_json(), allow_nan=False))
    assert (entry["kind"], entry["metric"], entry["period"]) == ("step", "m", "2026-W47")
    assert entry["numbers"]["changes"][0]["low"] == pytest.approx(0.05 - 0.0196, abs=1e-4)


def test_a_drift_is_amber_when_new_and_a_note_afterwards():
    assert [alarms.drifts([change()], is_new=new)[0].severity for new in (True, False)] == ["amber", "note"]
    assert alarms.drifts([]) == []


@pytest.mark.parametrize(
    ("reports", "before", "severity"),
    [
        (1_000, [1_000] * 8, None),
        (500, [1_000] * 8, None),
        (499, [1_000] * 8, "amber"),
        (2_001, [1_000] * 8, "amber"),
        (0, [1_000] * 8, "red"),
        (0, [1_000] * 3, None),  # too few to compare with
        (0, [10] * 8, None),  # by chance, too
        (0, [17] * 8, "red"),
        (60, [0, 0, 0, 0, 0, 0, 0, 0], "amber"),
        (1_000, [1_000] * 5 + [50_000] * 3, None),  # a median, not a mean
    ],
)
def test_volume(reports, before, severity):
    alarm = alarms.volume("m", "2026-W47", reports, before)
    assert (alarm and alarm.severity) == severity


def decoded(*, missing=0.0, cohorts=None, seed=1):
    rng = np.random.default_rng(seed)
    shelf = random_map(np.random.default_rng(9), 12)
    listed = type(shelf)(shelf.candidates[:-1], shelf.positions[:, :-1], shelf.num_bits)
    held = np.append(np.full(11, (1 - missing) / 11), missing)
    counts = report(rng, shelf, rng.multinomial(200_000, held))
    if cohorts:  # reports of the first cohort, twice
        counts = type(counts)(counts.totals * [2, *[1] * 7], counts.ones * np.array([[2], *[[1]] * 7]))
    return decode(counts, listed, p_star=P_STAR, q_star=Q_STAR)


def test_a_fit_past_the_decoders_limits_is_amber_and_says_why():
    usual = [decoded(seed=seed) for seed in range(8)]
    assert list(alarms.fit("m", "w", usual[0], usual[1:])) == []
    missing = list(alarms.fit("m", "w", decoded(missing=0.1), usual))
    assert {alarm.severity for alarm in missing} == {"amber"}
    assert "strings that are not in the list" in next(a.text for a in missing if "unallocated" in a.numbers)
    [uneven] = alarms.fit("m", "w", decoded(cohorts=True), usual)
    assert "cohort_p_value" in uneven.numbers
    assert json.dumps([alarm.to_json() for alarm in (*missing, uneven)], allow_nan=False)


def test_a_list_that_never_had_all_strings_is_a_note():
    without = [decoded(missing=0.1, seed=seed) for seed in range(8)]
    assert {alarm.severity for alarm in alarms.fit("m", "w", without[0], without[1:])} == {"note"}
    assert {alarm.severity for alarm in alarms.fit("m", "w", without[0], without[1:3])} == {"amber"}, "too few before"


@pytest.mark.parametrize(
    ("posts", "refused", "before", "severities"),
    [
        (10_000, {}, [], []),
        (10_000, {"late": 9}, [{}] * 8, []),
        (10_000, {"late": 11}, [{}] * 8, ["amber"]),
        (10_000, {"late": 11}, [], ["amber"]),
        (10_000, {"late": 40}, [{"late": 0.001}] * 8, []),
        (10_000, {"late": 60}, [{"late": 0.001}] * 8, ["amber"]),
        (10_000, {"late": 6_000}, [{"late": 0.001}] * 8, ["red"]),
        (10, {"late": 1}, [{}] * 8, []),
        (10_000, {"late": 100, "token": 100}, [{}] * 8, ["amber", "amber"]),
    ],
)
def test_refusals(posts, refused, before, severities):
    assert [alarm.severity for alarm in alarms.refusals("2026-11-21", posts, refused, before)] == severities


@pytest.mark.parametrize(
    ("days", "severity"), [(61, None), (60, "note"), (30, "amber"), (8, "amber"), (7, "red"), (1, "red"), (0, None)]
)
def test_expiry(days, severity):
    alarm = alarms.expiry("m", dt.date(2027, 1, 1) + dt.timedelta(days), dt.date(2027, 1, 1))
    assert (alarm and alarm.severity) == severity
    assert severity is None or severity in alarms.SEVERITIES


BENCH = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "alarm_rates.py"))
MOST_FALSE = 0.08


def weeks_of(name, epsilon, metrics=10, seed=7):
    rng = np.random.default_rng(seed)
    return [BENCH["MAKERS"][name](rng, epsilon) for _ in range(metrics)]


def is_surely_more(false_weeks, weeks, rate=MOST_FALSE):
    return binom.sf(false_weeks - 1, weeks, rate) < FALSE_ALARM


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(
    ("name", "metrics", "weeks"),
    [
        ("randomized response", 10, 120),
        pytest.param("randomized response", 10, 1_000, marks=pytest.mark.slow),
        ("Bloom, 50 strings", 1, 60),
        pytest.param("Bloom, 50 strings", 10, 200, marks=pytest.mark.slow),
        pytest.param("Bloom, 9 of 10 listed", 10, 100, marks=pytest.mark.slow),
        pytest.param("Bloom, 400 strings", 10, 20, marks=pytest.mark.slow),
    ],
)
def test_at_most_8_percent_of_the_weeks_have_a_false_alarm(name, metrics, weeks, epsilon):
    false_weeks = BENCH["false_alarms"](weeks_of(name, epsilon, metrics), weeks, 0.05)
    assert not is_surely_more(false_weeks, weeks), false_weeks / weeks
    if weeks >= 1_000:  # and the rate itself, where so many weeks tell
        assert false_weeks / weeks <= MOST_FALSE


def test_a_variance_without_the_sampling_of_people_fails():
    """Broken on purpose, as it was before: at epsilon 4 every week had a false alarm."""
    naive = [BENCH["without_sampling"](weeks) for weeks in weeks_of("randomized response", 4.0)]
    assert is_surely_more(BENCH["false_alarms"](naive, 60, 0.05), 60)


@pytest.mark.parametrize(
    ("step", "devices", "least", "most"),
    [(0.04, 20_000, 0.8, 1.0), (0.02, 20_000, 0.15, 0.45), (0.01, 200_000, 0.5, 0.85)],
)
def test_a_step_is_found_about_as_often_as_the_page_says(step, devices, least, most):
    runs = 200
    found = round(BENCH["power"](step, devices, 0.05, runs, np.random.default_rng(3)) * runs)
    assert min(binom.cdf(found, runs, least), binom.sf(found - 1, runs, most)) > FALSE_ALARM
    broken = round(BENCH["power"](0.0, devices, 0.05, runs, np.random.default_rng(3)) * runs)
    assert binom.cdf(broken, runs, least) < FALSE_ALARM, "without a step there is nothing to find"


def spread(stay, after, before, weeks=400, seed=4, *, apart=False):
    rng = np.random.default_rng(seed)
    metrics = [BENCH["symbols"](rng, 1.0, stay=stay)]
    runs = BENCH["compared"](metrics, weeks, after, before)
    return BENCH["spread"]([replace(comparison, apart=apart) for comparison in run] for run in runs)


@pytest.mark.parametrize("stay", [0.0, 0.5, 0.86, 0.95])
def test_devices_that_stay_make_no_more_alarms(stay):
    """z of a step or a drift never spreads by surely more than 1; neighbouring drifts share weeks, hence the margin."""
    assert spread(stay, 1, 8) < 1.1
    assert spread(stay, 13, 13) < 1.25


def test_a_drift_takes_periods_for_independent_where_no_device_is_in_two():
    """Broken on purpose for devices that stay: 13 weeks of those are not 13 collections."""
    assert 0.8 < spread(0.0, 13, 13, apart=True) < 1.2
    assert spread(0.86, 13, 13, apart=True) > 1.8


def test_the_variance_of_a_drift_is_the_most_that_devices_that_stay_can_cause():
    weights = np.repeat([1 / 13, -1 / 13], 13)
    apart = np.abs(np.subtract.outer(np.arange(26), np.arange(26)))
    most = max(weights @ stay**apart @ weights for stay in np.linspace(0, 1, 2_001))
    assert 0.999 < most / changes_module.DRIFT_VARIANCE <= 1


def test_a_slow_drift_is_found_where_no_week_shows_it():
    found, week = BENCH["drift_found"](200_000, 0.5, 15, np.random.default_rng(2))
    assert (found, week) == (1.0, 26.0)
