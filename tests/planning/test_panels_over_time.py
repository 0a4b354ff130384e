"""200,000 devices in a panel for a year: intervals cover, and the error is the formula's, far below splitting's."""

import numpy as np
import pytest

import overstory
from overstory.analysis.variance import frequency_variance
from overstory.planning.yearly import YearPlan
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
