"""The laws of tables divided over devices: by enumeration of every output, and on the noise."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom
from test_kind_laws import KINDS

from overstory.analysis.association.table import divided_tables
from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.reports import ReportBatch
from overstory.audit.laws import exact_epsilon_of
from overstory.client import Randomizer
from overstory.client.session import Tagger
from overstory.collector.ingest import ReportFormat
from overstory.privacy.terms import terms_of
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.kinds.split import DividedMechanism, divided
from overstory.protocol.metrics import parse_registry
from overstory.protocol.sampling import SeededEntropy
from overstory.protocol.wire.upload import encode_reports
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import EstimateOptions, read
from support.registry_texts import registry_of

ALARM = 1e-6
DESIGNS = [built for built, _ in KINDS.values() if built.name == "divided"]
REGISTRY = registry_of(
    {
        "crashes": {
            "domain": """{kind = "table", names = ["version", "crash"], of = [
                {kind = "categories", names = ["1.0", "2.0"], other = "another version"},
                {kind = "categories", names = ["no", "yes"]}], tables = [["version", "crash"], ["version"]]}""",
            "oracle": '"divided"',
            "parameters": '{oracle = "oue", epsilon = 2.0}',
        }
    }
)


def test_the_enumeration_finds_a_table_that_reveals_more():
    """One part of epsilon 2 among parts of 1, with the stated epsilon of the first: the check fails."""
    parts = mechanism("grr", domain_size=2, epsilon=1.0), mechanism("grr", domain_size=2, epsilon=2.0)
    broken = DividedMechanism("divided", {}, (2, 2), ((0,), (1,)), parts)
    assert float(exact_epsilon_of(broken, range(4))) > parts[0].epsilon_report + 0.9
    assert broken.epsilon_report == parts[1].epsilon_report


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.parameters["oracle"])
def test_a_change_outside_the_own_table_is_no_new_value(design):
    """The permanent response, the ledger's tag and the report depend on the table's cell alone."""
    for table in range(design.num_cohorts):
        device = Randomizer(design, secret=b"s" * 32, metric="m", cohort=table)
        metric = SimpleNamespace(mechanism=design, id="m", account=design.digest)
        tagger = Tagger(metric, b"s" * 32, table)  # type: ignore[arg-type]
        seen = {}
        for value in range(design.domain_size):
            answer = device.permanent(value), tagger.tag(value)
            assert seen.setdefault(design.project(value, table), answer) == answer
        assert len({tag for _, tag in seen.values()}) == design.parts[table].domain_size


def test_payloads_beyond_their_table_are_refused():
    design = divided(oracle="grr", epsilon=1.0, sizes="3 2", tables="0 1, 1")
    form = ReportFormat.of(design)
    assert form.refuse(bytes([0, 0]), bytes([5])) is None
    assert form.refuse(bytes([1, 0]), bytes([1])) is None
    assert form.refuse(bytes([1, 0]), bytes([2])) is not None
    assert form.refuse(bytes([2, 0]), bytes([0])) is not None


@pytest.mark.parametrize("reports", [3, 200])
def test_a_batch_of_wide_tables_is_read_as_its_reports_are(reports):
    """A table of 100 bits beside one of 2: a limit of 2**100 is no number of 64 bits."""
    design = divided(oracle="oue", epsilon=1.0, sizes="10 10 2", tables="0 1, 2")
    entropy, form = SeededEntropy(1), ReportFormat.of(design)
    sent = [design.randomize(number % 200, entropy) for number in range(reports)]
    sent[1] = Report(1, 4)
    read = form.read(encode_reports(design, sent), 1000)
    assert [place for place, _ in read.rejected] == [1]
    assert read.num_reports == reports - 1


def test_the_marginals_of_all_tables_are_weighted_and_cover():
    """A variable's share from two tables is more precise than from one, and its intervals hold the truth (60 seeds)."""
    design = divided(oracle="grr", epsilon=2.0, sizes="3 2", tables="0 1, 0")
    shares = np.array([0.45, 0.05, 0.30, 0.10, 0.07, 0.03])
    inside = trials = 0
    for seed in range(60):
        drawn = np.random.default_rng(seed)
        held = drawn.choice(6, 20_000, p=shares)
        fleet = SimulatedDevices.holding(design, range(6), held, drawn)
        counts = count_reports(design, fleet.report())
        (table,) = divided_tables(design, counts, ["x", "y"], [["a", "b", "c"], ["no", "yes"]])
        assert (table.marginals[0].standard_errors < table.sums[0].standard_errors).all()
        low, high = table.marginals[0].interval()
        truth = shares.reshape(3, 2).sum(axis=1)
        inside += int(np.count_nonzero((low <= truth) & (truth <= high)))
        trials += 3
    # The three shares of a seed add up to 1: a seed counts as two trials.
    assert binom.cdf(round(inside * 2 / 3), trials * 2 // 3, 0.95) > ALARM
    assert binom.sf(round(inside * 2 / 3) - 1, trials * 2 // 3, 0.97) > ALARM


def test_a_registry_has_divided_tables():
    """Sizes and tables follow from the domain; the public form is read back; "all pairs" is short for each two."""
    metric = parse_registry(REGISTRY)["crashes"]
    assert metric.mechanism.num_cohorts == 2
    assert metric.reading == "table"
    counts = count_reports(metric.mechanism, ReportBatch.of(metric.mechanism, [Report(0, 1), Report(1, 1)]))
    with pytest.raises(ParameterError, match="crashes: a table is answered by a part of the devices: ask for"):
        read(PeriodCounts(metric, 1, 1, {1: counts}), "total", EstimateOptions(interval_kind="reports"))
    tables = '[["version", "crash"], ["version"]]'
    pairs = parse_registry(REGISTRY.replace(tables, '"all pairs"'))["crashes"]
    assert pairs.domain.tables == (("version", "crash"),)
    with pytest.raises(FormatError, match="choose one of divided"):
        parse_registry(REGISTRY.replace('oracle = "divided"', 'oracle = "grr"').replace('oracle = "oue", ', ""))
    with pytest.raises(FormatError, match="choose grr, oue, sue or projective"):
        parse_registry(REGISTRY.replace('oracle = "oue"', 'oracle = "subset"'))


TABLES = [("2 3 8", "0 1,0 2,1 2"), ("3 2 2", "0 1, 2"), ("4 5", "0,1"), ("6 6", "0 1")]


@pytest.mark.parametrize(("sizes", "tables"), TABLES)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("oracle", ["grr", "oue", "sue", "projective"])
def test_no_table_discloses_more_than_the_terms_of_all(oracle, epsilon, sizes, tables):
    built = divided(oracle=oracle, epsilon=epsilon, sizes=sizes, tables=tables)
    terms = terms_of(built)
    assert terms.epsilon_permanent == max(terms_of(part).epsilon_permanent for part in built.parts)
    assert terms.epsilon_n(1) == terms.epsilon_permanent
    assert terms.epsilon_any(2) == math.inf
    for part in map(terms_of, built.parts):
        for number in (1, 2, 20, 1000):
            assert terms.epsilon_values(number) >= part.epsilon_values(number)


def test_the_values_of_the_largest_table_are_what_its_responses_disclose():
    built = divided(oracle="grr", epsilon=0.5, sizes="2 3 8", tables="0 1,0 2,1 2")
    chances = [built.likelihood(Report(2, payload), 0) for payload in range(24)]
    one = math.log(max(chances) / min(chances))
    assert 20 * one <= terms_of(built).epsilon_values(20) <= 20 * one + 1e-6
