"""Two periods of tables, sets and searches: what changed is found, what did not is seldom called changed."""

import numpy as np
import pytest
from scipy import stats

import overstory
from overstory.analysis.association.summary import TableSummary
from overstory.analysis.association.table import divided_tables
from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.reports import ReportBatch
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.split import divided
from overstory.protocol.metrics import parse_registry
from overstory.queries.comparison import compare
from overstory.queries.counts import PeriodCounts
from support.association_populations import drawn_table, population
from support.console_readings import METRICS
from support.registry_texts import registry_of

CRASHES = (
    '{kind = "table", names = ["version", "crash"], of = [{kind = "categories", names = ["1.0", "2.0", "3.0"]}, '
    '{kind = "categories", names = ["no", "yes"]}]}'
)
TABLE = {"domain": CRASHES, "oracle": '"grr"', "parameters": "{epsilon = 4.0}"}
BEFORE = np.array([0.30, 0.10, 0.30, 0.10, 0.15, 0.05])
AFTER = np.array([0.30, 0.10, 0.20, 0.20, 0.15, 0.05])  # version 2.0 crashes in half of the devices instead of a fourth


def metric_of(entry):
    return parse_registry(registry_of({"crashes": entry}))["crashes"]


def period(metric, number, shares, devices, seed):
    """Return the counts of a period with devices of their own."""
    rng = np.random.default_rng(seed)
    held = rng.choice(len(shares), devices, p=shares)
    reports = SimulatedDevices.holding(metric.mechanism, range(len(shares)), held, rng).report()
    return PeriodCounts(metric, number, number, {number: count_reports(metric.mechanism, reports)})


def test_the_row_that_changed_is_named():
    metric = metric_of(TABLE)
    both = compare(period(metric, 2, AFTER, 40_000, 1), period(metric, 1, BEFORE, 40_000, 2))
    rows = {row["value"]: row for row in both.to_json()["differences"]}
    assert len(rows) == 12
    assert rows["crash=yes in version=2.0"]["changed"]
    assert rows["version=2.0, crash=yes"]["changed"]
    assert not rows["crash=yes in version=1.0"]["changed"]
    changed = rows["crash=yes in version=2.0"]
    assert changed["low"] < 0.25 < changed["high"]
    assert changed["low"] < changed["plain_low"]
    assert next(iter(both.csv_lines())).startswith("value,a,b,difference")
    assert (both.to_arrow().num_rows, both._repr_html_().count("<img ")) == (12, 1)  # as a notebook shows it


def false_alarms(shrunk):
    """Return in how many of 100 pairs of periods from one population something is called changed."""
    metric, alarms = metric_of(TABLE), 0
    for seed in range(100):
        a, b = (period(metric, number, BEFORE, 3_000, 2 * seed + number) for number in (0, 1))
        difference = compare(a, b).difference  # type: ignore[attr-defined]
        errors = difference.standard_errors * shrunk
        p_values = 2 * stats.norm.sf(np.abs(difference.differences) / errors)
        alarms += bool((stats.false_discovery_control(p_values) <= 0.05).any())
        assert shrunk != 1 or difference.changed().any() == (stats.false_discovery_control(p_values) <= 0.05).any()
    return alarms


def test_periods_of_one_population_are_seldom_called_changed():
    """At most 14 of 100 at 5%, which chance passes once in 10,000; errors of two thirds their size are noticed."""
    most = int(stats.binom.isf(1e-4, 100, 0.05))
    assert false_alarms(1.0) <= most
    assert false_alarms(0.66) > most


def test_a_row_that_is_too_small_is_named_and_a_range_without_reports_is_refused():
    metric = metric_of(TABLE)
    few = np.array([0.5, 0.2, 0.2995, 0.0, 0.0005, 0.0])
    a, b = (period(metric, number, few, 2_000, number) for number in (0, 1))
    both = compare(a, b)
    assert any("no shares in the rows version=3.0: too few reports" in note for note in both.to_json()["notes"])
    with pytest.raises(ParameterError, match="has no reports"):
        compare(a, PeriodCounts(metric, 3, 3, {}))


def test_items_of_sets_are_compared():
    metric = metric_of(METRICS["plugins"])
    sets = [(), (0,), (0, 1), (1, 2)]
    counted = []
    for number, shares in enumerate(([0.1, 0.4, 0.4, 0.1], [0.1, 0.1, 0.4, 0.4])):
        rng = np.random.default_rng(number)
        held = rng.choice(4, 20_000, p=shares)
        reports = SimulatedDevices.holding(metric.mechanism, sets, held, rng).report()
        counted.append(PeriodCounts(metric, number, number, {number: count_reports(metric.mechanism, reports)}))
    rows = {row["value"]: row for row in compare(*counted).to_json()["differences"]}
    for item, difference in (("adblock", 0.3), ("grammar", -0.3), ("vpn", -0.3)):
        assert rows[item]["changed"], item
        assert rows[item]["low"] < difference < rows[item]["high"]


def test_intervals_of_detected_cells_hold_the_truth():
    """As often as stated, less three standard errors of the proportion; plain ones do so clearly less often."""
    shares = population(20, 10, 0.3)
    oracle = overstory.oracle("oue", domain_size=200, epsilon=2.0)
    detected = held = held_by_plain = 0
    for seed in range(150):
        summary = TableSummary(drawn_table(oracle, shares, 20_000, seed))
        low, high = summary.interval()
        chosen = summary.selected.chosen.reshape(shares.shape)
        detected += int(chosen.sum())
        held += int((chosen & (low <= shares) & (shares <= high)).sum())
        low, high = summary.table.interval()
        held_by_plain += int((chosen & (low <= shares) & (shares <= high)).sum())
    assert detected > 1_000
    assert held / detected > 0.95 - 3 * (0.95 * 0.05 / detected) ** 0.5
    assert held_by_plain / detected < 0.93


def test_rows_have_plain_and_adjusted_intervals():
    table = drawn_table(overstory.oracle("oue", domain_size=200, epsilon=2.0), population(20, 10, 0.3), 20_000, 1)
    rows = list(TableSummary(table).rows())
    detected = [row for row in rows if row["detected"]]
    assert 0 < len(detected) < len(rows)
    for row in rows:
        wider = row["high"] - row["low"] > row["plain_high"] - row["plain_low"] + 1e-12
        assert wider == row["detected"]
        assert row["detected"] == (row["q_value"] <= 0.05)


LABELS = (("a", "b"), ("c", "d"), ("e", "f"))


def drawn(mechanism, values, reports, seed=1):
    held = np.arange(reports) % len(values)
    return SimulatedDevices.holding(mechanism, values, held, np.random.default_rng(seed)).report()


def test_tables_that_no_device_answered_have_no_reports():
    """All reports of one table: the others say that there are none, and their marginals are those of the first."""
    asked = divided(oracle="oue", epsilon=2.0, sizes="2 2 2", tables="0 1, 1 2")
    batch = drawn(asked, range(8), 400)
    first = np.flatnonzero(asked_table(asked, batch) == 0)
    one = ReportBatch(batch.cohorts[first], batch.bits[first], batch.num_bits, batch.num_cohorts)
    answered, silent = divided_tables(asked, count_reports(asked, one), ("x", "y", "z"), LABELS)
    assert answered.num_reports == len(first) > 0
    assert silent.num_reports == 0
    assert np.isfinite(answered.marginals[1].shares).all()
    assert TableSummary(silent).sentences() == ["there are no reports of y and z"]


def asked_table(asked, batch):
    return batch.cohorts.astype(int) % len(asked.tables)
