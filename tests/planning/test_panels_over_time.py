"""200,000 devices in a panel for a year: intervals cover, and the error is the formula's, far below splitting's."""

import numpy as np
import pytest

import overstory
from overstory.analysis.variance import frequency_variance
from overstory.planning.yearly import YearPlan
from overstory.privacy.registry.yearly import yearly
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.panel import Places
from support.devices import ENTRY, HEAD

DEVICES, CYCLE, YEARS = 200_000, 54, 12
SHARES = np.array([0.5, 0.3, 0.15, 0.05])
LATER = np.array([0.1, 0.2, 0.3, 0.4])
TREE = (
    'domain = {kind = "categories", names = ["oak", "ash", "elm", "fir"]}\noracle = "grr"\n'
    'parameters = {epsilon = 4.0}\nperiod = "week"\n'
)


def fixed(values, rng):
    return values


def slowly(values, rng):
    """One device in fifty changes in every period, towards other shares."""
    changes = rng.random(len(values)) < 0.02
    return np.where(changes, rng.choice(4, size=len(values), p=LATER), values)


def always(values, rng):
    return rng.choice(4, size=len(values), p=SHARES)


@pytest.fixture(scope="module")
def places():
    """The place of every device, by the function that devices use."""
    metric = ENTRY.format(name="tree", rest=TREE, expires="2099-01-01")
    of = parse_registry(HEAD.format(version="1") + 'panel = {cycle = "year"}\n' + metric)
    rng = np.random.default_rng(20261127)
    found = np.empty(DEVICES, np.int64)
    for number in range(DEVICES):
        device = Places(rng.bytes(32), of)
        (found[number],) = [period for period in range(CYCLE) if device.asks(of["tree"], period)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("changes", [fixed, slowly, always])
def test_intervals_cover_and_the_error_is_the_formulas(places, changes):
    rng = np.random.default_rng([20261127, len(changes.__name__)])
    oracle = overstory.oracle("grr", domain_size=4, epsilon=4.0)
    covered, errors, promised = [], [], []
    for _ in range(YEARS):
        values = rng.choice(4, size=DEVICES, p=SHARES)
        for week in range(CYCLE):
            values = changes(values, rng)
            truth = np.bincount(values, minlength=4) / DEVICES
            asked = values[places == week]
            estimate = oracle.estimate(oracle.accumulate(oracle.simulate(asked, rng)), interval_kind="population")
            low, high = (end / len(asked) for end in estimate.confidence_interval())
            covered.append((low <= truth) & (truth <= high))
            errors.append((estimate.frequencies - truth) ** 2)
            # The formula of `YearPlan`, at this period's shares and the number of devices that it expects.
            many = DEVICES / CYCLE
            promised.append([frequency_variance(oracle.mechanism, many, f) + f * (1 - f) / many for f in truth])
    assert 0.935 <= np.mean(covered) <= 0.965
    assert abs(np.sqrt(np.mean(errors) / np.mean(promised)) - 1) <= 0.03


def test_a_panel_is_at_least_five_times_as_exact_as_splitting():
    for devices, values, metrics in ((10**5, 4, 1), (10**6, 20, 1), (10**6, 20, 5)):
        ways = {way.name: way for way in YearPlan(devices, values, 4.0, metrics).ways()}
        panel, split = ways["one panel, 1 answer a year"], ways["every device in every period"]
        assert 5 * panel.error < split.error
        assert panel.error == min(way.error for way in ways.values() if way.epsilon_any <= 4)


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
        (asked,) = {metric.panel.share_asked(metric.period) for metric in registry.values()}
        assert way.reports == pytest.approx(10**6 / metrics * float(asked))


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
