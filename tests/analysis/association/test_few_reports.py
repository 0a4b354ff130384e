"""Tables of hardly any reports: words, and no traceback."""

import numpy as np
import pytest

from overstory.analysis.association.linked import linked_cells
from overstory.analysis.association.summary import TableSummary
from overstory.analysis.association.table import divided_tables
from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.reports import ReportBatch
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.joint import joint
from overstory.protocol.kinds.split import divided
from overstory.protocol.metrics import load_registry
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import read
from support.registry_texts import registry_of

LABELS = (("a", "b"), ("c", "d"), ("e", "f"))
LINKED = joint(
    of=[{"oracle": "grr", "domain_size": 2, "epsilon": 2.0}, {"oracle": "oue", "domain_size": 2, "epsilon": 2.0}]
)
SITES = (
    '{kind = "table", names = ["site", "crash"], of = [{kind = "strings", candidates = "sites.txt"}, '
    '{kind = "categories", names = ["no", "yes"]}]}'
)
PARTS = "{of = [{oracle = 'rappor', num_bits = 8, num_hashes = 1, num_cohorts = 2}, {oracle = 'grr', epsilon = 2.0}]}"


def drawn(mechanism, values, reports, seed=1):
    held = np.arange(reports) % len(values)
    return SimulatedDevices.holding(mechanism, values, held, np.random.default_rng(seed)).report()


@pytest.mark.parametrize("reports", [0, 1, 2, 3])
def test_linked_reports_of_a_few_devices_have_a_summary(reports):
    """One report supports no contrast, or only one: its covariances have no inverse."""
    batch = drawn(LINKED, range(4), 4)
    few = ReportBatch(batch.cohorts[:reports], batch.bits[:reports], batch.num_bits, batch.num_cohorts)
    summary = TableSummary(linked_cells(LINKED, count_reports(LINKED, few), ("x", "y"), LABELS[:2]))
    assert summary.to_json()["reports"] == reports
    assert list(summary.blocks())
    said = {0: "there are no reports of x and y", 1: "there are too few reports for a test of independence"}
    assert reports not in said or summary.sentences()[0] == said[reports]


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
    """Return which table each device of a batch answered."""
    return batch.cohorts.astype(int) % len(asked.tables)


@pytest.fixture(scope="module")
def metric(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few")
    (folder / "sites.txt").write_text("a.org\nb.org\n")
    (folder / "metrics.toml").write_text(
        registry_of({"sites": {"domain": SITES, "oracle": '"joint"', "parameters": PARTS}})
    )
    return load_registry(folder / "metrics.toml")["sites"]


def test_a_period_with_one_report_does_not_hide_the_others(metric):
    values = [("a.org", 0), ("b.org", 1)]
    counts = {
        n: count_reports(metric.mechanism, drawn(metric.mechanism, values, size)) for n, size in ((1, 400), (2, 1))
    }
    series = read(PeriodCounts(metric, 1, 2, counts), "per-period").to_json()
    assert len(series["readings"]) == 1
    assert any("no cohort has two reports" in note for note in series["notes"])
    assert len(read(PeriodCounts(metric, 1, 2, counts)).to_json()["readings"]) == 1
    with pytest.raises(ParameterError, match=r"sites: .*no cohort has two reports"):
        read(PeriodCounts(metric, 2, 2, {2: counts[2]}))
