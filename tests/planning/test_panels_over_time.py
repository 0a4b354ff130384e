"""Devices in a panel for years, from their places to estimates: intervals cover, and errors are the formula's."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.variance import frequency_variance
from overstory.audit.laws import Alarm
from overstory.planning.yearly import YearPlan
from overstory.privacy.registry.cost import yearly
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.panel import Places
from overstory.queries.comparison import compare_ranges
from overstory.queries.counts import PeriodCounts
from overstory.queries.estimates import read_estimates
from overstory.queries.readings import EstimateOptions
from support.devices import ENTRY, HEAD
from support.numeric_alarms import check_coverage, check_spread

CYCLE = 54
FIRST = 3_024  # 2027-W51, which has place 0
SHARES = np.array([0.5, 0.3, 0.15, 0.05])
LATER = np.array([0.1, 0.2, 0.3, 0.4])
TREE = (
    'domain = {kind = "categories", names = ["oak", "ash", "elm", "fir"]}\noracle = "grr"\n'
    'parameters = {epsilon = 4.0}\nperiod = "week"\n'
)
OF = parse_registry(
    HEAD.format(version="1") + 'panel = {cycle = "year"}\n' + ENTRY.format(name="tree", rest=TREE, expires="2099-01-01")
)


def drawn(shares, size, rng):
    return np.searchsorted(np.cumsum(shares)[:-1], rng.random(size), side="right")


def fixed(values, rng):
    return values


def slowly(values, rng):
    """One device in fifty changes in every period, towards other shares."""
    changes = np.flatnonzero(rng.random(len(values)) < 0.02)
    values[changes] = drawn(LATER, changes.size, rng)
    return values


def always(values, rng):
    return drawn(SHARES, len(values), rng)


POPULATIONS = pytest.mark.parametrize("changes", [fixed, slowly, always])


def places_of(devices):
    """Return the place of every device, by the function that devices use."""
    rng, found = np.random.default_rng(20261127), np.empty(devices, np.int64)
    for number in range(devices):
        device = Places(rng.bytes(32), OF)
        found[number] = next(place for place in range(CYCLE) if device.asks(OF["tree"], place))
    return found


@pytest.fixture(scope="module")
def few():
    return places_of(20_000)


@pytest.fixture(scope="module")
def many():
    return places_of(200_000)


def collected(places, changes, rng, weeks=CYCLE):
    """Return the counts of successive weeks, and each week's shares in the population that devices are drawn from."""
    oracle, counts, truth = FrequencyOracle(OF["tree"].oracle), {}, {}
    values, shares = drawn(SHARES, len(places), rng), SHARES
    for week in range(FIRST, FIRST + weeks):
        values = changes(values, rng)
        shares = 0.98 * shares + 0.02 * LATER if changes is slowly else shares
        asked = values[places == week % CYCLE]
        counts[week], truth[week] = oracle.accumulate(oracle.simulate(asked, rng)), shares
    return PeriodCounts(OF["tree"], FIRST, FIRST + weeks - 1, counts), truth


def measured(places, changes, pool, years, **options):
    """Estimate every week of some years, pooled with those before it: errors, promised variances, and what covers.

    What is promised is the formula of `YearPlan`, at the true shares and the number of devices that it expects.
    """
    rng = np.random.default_rng([20261127, pool, len(changes.__name__)])
    told = SimpleNamespace(errors=[], promised=[], covered=[])
    for _ in range(years):
        counted, truth = collected(places, changes, rng)
        parts = read_estimates(counted, "per-period", EstimateOptions(pool=pool, **options)).parts
        for part in parts[pool - 1 :: pool]:
            together = range(part.first, part.last + 1)
            reports = np.array([counted.counts[week].num_reports for week in together])
            shares = reports @ np.array([truth[week] for week in together]) / reports.sum()
            low, high = (end / reports.sum() for end in part.estimate.confidence_interval())
            asked, mechanism = pool * len(places) / CYCLE, OF["tree"].oracle
            told.errors.append(part.estimate.raw_frequencies - shares)
            told.promised.append([frequency_variance(mechanism, asked, f) + f * (1 - f) / asked for f in shares])
            told.covered.append((low <= shares) & (shares <= high))
    return told


def one_each(columns):
    """Return one value of each estimate, each in its turn: values of one estimate are not independent."""
    return np.array([row[number % 4] for number, row in enumerate(columns)])


@POPULATIONS
@pytest.mark.parametrize("pool", [1, 6])
def test_intervals_cover_and_errors_are_the_formulas(few, changes, pool):
    told = measured(few, changes, pool, years=3 * pool)
    check_coverage(one_each(told.covered))
    check_spread(one_each(told.errors), one_each(told.promised))


@pytest.mark.slow
@POPULATIONS
@pytest.mark.parametrize("pool", [1, 6])
def test_among_200_000_devices_intervals_cover_and_errors_are_within_3_percent(many, changes, pool):
    told = measured(many, changes, pool, years=60)
    assert 0.935 <= np.mean(told.covered) <= 0.965
    assert abs(np.sqrt(np.mean(np.square(told.errors)) / np.mean(told.promised)) - 1) <= 0.03 * np.sqrt(pool)


def test_intervals_of_the_noise_alone_are_noticed(few):
    """Broken on purpose: which devices were asked is most of the error."""
    with pytest.raises(Alarm):
        check_coverage(one_each(measured(few, fixed, 1, years=3, interval_kind="reports").covered))


def differences(places, changes, apart):
    """Return z of the difference of every week and the one `apart` weeks later, one value of each, and the notes."""
    rng, z, notes = np.random.default_rng([apart, len(changes.__name__)]), [], set()
    counted, truth = collected(places, changes, rng, weeks=2 * CYCLE)
    for number, week in enumerate(range(FIRST, FIRST + CYCLE)):
        both = [replace(counted, counts={one: counted.counts[one]}) for one in (week + apart, week)]
        found, value = compare_ranges(*both), number % 4
        row = list(found.difference.values).index(("oak", "ash", "elm", "fir")[value])
        error = found.difference.differences[row] - (truth[week + apart] - truth[week])[value]
        z.append(error / found.difference.standard_errors[row])
        notes.update(found.notes)
    return np.array(z), notes


@POPULATIONS
@pytest.mark.parametrize("apart", [1, 20, 53])
def test_differences_within_a_cycle_are_of_other_devices(few, changes, apart):
    z, notes = differences(few, changes, apart)
    check_spread(z, np.ones(len(z)))
    assert not notes


def test_a_cycle_later_the_error_is_the_stated_one_or_smaller(few):
    """The same devices: what they keep is in both ranges and cancels; where all of it is drawn anew nothing does."""
    for changes, least, most in ((fixed, 0.05, 0.3), (slowly, 0.2, 1.0)):
        z, notes = differences(few, changes, CYCLE)
        assert least < np.mean(np.square(z)) < most
        assert any("where devices avoid the value that they had" in note for note in notes)
    check_spread(differences(few, always, CYCLE)[0], np.ones(CYCLE))


def test_a_panel_is_at_least_five_times_as_exact_as_splitting():
    for devices, values, metrics in ((10**5, 4, 1), (10**6, 20, 1), (10**6, 20, 5)):
        plan = YearPlan(devices, values, 4.0, metrics)
        ways = {way.name: way for way in plan.ways()}
        panel, split = ways["one panel, 1 answer a year"], ways["every device in every period"]
        assert 5 * panel.error < split.error
        kept = [way for way in ways.values() if way.epsilon_any <= 4]
        assert panel.error == min(way.error for way in kept)
        picture = plan.plot()
        assert picture.alt.startswith(f"The bound on any year holds for {len(kept)} of {len(ways)} ways, ")
        assert "detected" not in picture.alt + picture.svg.partition("<metadata>")[0]


@pytest.mark.parametrize("metrics", [1, 3])
@pytest.mark.parametrize("values", [2, 20])
def test_a_registry_of_a_panel_keeps_to_the_bound_of_its_row(values, metrics):
    """The row's panel and oracle, written down for every metric: what a year comes to, as people are told."""
    names = ", ".join(f'"v{value}"' for value in range(values))
    domain = f'domain = {{kind = "categories", names = [{names}]}}\n'
    ways = [way for way in YearPlan(10**6, values, 4.0, metrics).ways() if way.panel is not None]
    assert len(ways) == 5
    for way in ways:
        head = f'panel = {{cycle = "{way.panel.cycle}", answers = {way.panel.answers}}}\n'
        rest = f'{domain}{way.toml()}\nperiod = "week"\n'
        entries = "".join(ENTRY.format(name=f"m{n}", rest=rest, expires="2099-01-01") for n in range(metrics))
        registry = parse_registry(HEAD.format(version="1") + head + entries)
        assert 3.99 < yearly(registry.values()).epsilon <= way.epsilon_any == 4.0
        panels = [(metric.panel, metric.period) for metric in registry.values()]
        (asked,) = {panel.share_asked(period, panel.part_of_questions(0)) for panel, period in panels}
        assert way.reports == pytest.approx(10**6 * float(asked))


def test_noise_that_is_kept_has_the_least_error_and_no_such_bound():
    plan = YearPlan(10**6, 20, 4.0, 5)
    *bounded, kept = plan.ways()
    assert {way.epsilon_any for way in bounded} == {4.0}
    assert kept.error < min(way.error for way in bounded)
    assert kept.oracle.epsilon_permanent <= 0.8
    assert kept.epsilon_any > 100
    assert any("only while a value never changes" in note for note in plan.all_notes())


@pytest.mark.parametrize(
    "wrong", [{"devices": 0}, {"metrics": 0}, {"epsilon": 0.0}, {"share": 1.0}, {"period": "year"}]
)
def test_what_is_out_of_range_is_refused(wrong):
    with pytest.raises(ParameterError):
        list(YearPlan(**{"devices": 10**6, "domain_size": 4, "epsilon": 4.0} | wrong).ways())
