"""The headline of a year against brute force: every history of two cycles of three periods, on domains of 2 and 3."""

import math
from itertools import product

import pytest

from overstory.audit.laws import payloads_of
from overstory.client.recorder import MetricRecorder
from overstory.privacy.registry.yearly import yearly
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.panel import CYCLES, Places
from overstory.protocol.metrics.period import DAY
from overstory.protocol.wire.upload import decode_batch, decode_uploads
from support.devices import ENTRY, HEAD

PERIODS, CYCLE = 6, 3
ONE_ROUND = ('oracle = "grr"', 'oracle = "oue"', 'oracle = "subset"')
TWO_ROUNDS = 'oracle = "l-grr"'
KEYS = [bytes([number]) * 32 for number in range(12)]


@pytest.fixture(autouse=True)
def short_year(monkeypatch):
    """A year of two weeks: a cycle then has three periods, as one of 365 days has 54."""
    monkeypatch.setitem(CYCLES, "year", 14 * DAY)
    monkeypatch.setattr("overstory.privacy.registry.yearly.YEAR", 14 * DAY)


def registry(size, oracle, count=1, panel='panel = {cycle = "year"}\n'):
    names = ", ".join(f'"{name}"' for name in "abc"[:size])
    epsilons = "epsilon_permanent = 2.0, epsilon_report = 1.0" if oracle == TWO_ROUNDS else "epsilon = 1.5"
    rest = (
        f'domain = {{kind = "categories", names = [{names}]}}\n{oracle}\nparameters = {{{epsilons}}}\nperiod = "week"\n'
    )
    entries = (ENTRY.format(name=f"m{number}", rest=rest, expires="2099-01-01") for number in range(count))
    return parse_registry(HEAD.format(version="1") + panel + "".join(entries))


def log_ratio(mechanism, first, second):
    """By how much one report tells two values apart, over all that it can be: in the worst of the first cohorts."""
    worst = 0.0
    for cohort in range(min(mechanism.num_cohorts, 4)):
        for payload in payloads_of(mechanism, cohort):
            report = Report(cohort, payload)
            chances = [mechanism.likelihood(report, value) for value in (first, second)]
            assert all(chances)
            worst = max(worst, abs(math.log(chances[0]) - math.log(chances[1])))
    return worst


def worst_of_a_window(of, key, size):
    """The largest epsilon between any two histories of all metrics, over all windows of a year's length."""
    places = Places(key, of)
    asked = [(name, period) for period in range(PERIODS) for name in of if places.asks(of[name], period)]
    ratios = {pair: log_ratio(next(iter(of.values())).mechanism, *pair) for pair in product(range(size), repeat=2)}
    # A report is made at any moment of its period, so a window of two weeks sees those of three of them, at most; of
    # those, none are a cycle apart.
    windows = {
        tuple(period for period in seen if period - seen[0] < CYCLE)
        for start in range(PERIODS - 2)
        if (seen := [period for _, period in asked if start <= period <= start + 2])
    }
    assert windows
    histories = [*product(range(size), repeat=PERIODS)]
    return max(
        sum(ratios[one[period], two[period]] for period in window)
        for window in windows
        for one, two in product(histories, repeat=2)
    )


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("oracle", [*ONE_ROUND, TWO_ROUNDS])
@pytest.mark.parametrize("count", [1, 3])
def test_a_year_is_never_worth_more_than_is_said_and_of_one_round_as_much(size, oracle, count):
    of = registry(size, oracle, count)
    said = yearly(of.values()).epsilon
    for key in KEYS[: 3 if size == 2 else 1]:
        found = worst_of_a_window(of, key, size)
        assert found <= said + 1e-12  # the logarithms here are floats
        if oracle in ONE_ROUND:
            assert found == pytest.approx(said, rel=1e-6)


@pytest.mark.parametrize("oracle", [*ONE_ROUND, TWO_ROUNDS])
def test_what_is_reported_depends_on_the_value_of_that_period_alone(oracle):
    """So the law of a history is the product of the laws of its answers, which the test above multiplies."""
    of = registry(2, oracle)
    metric = of["m0"]
    for key in KEYS:
        places = Places(key, of)
        made = {}
        for history in product("ab", repeat=PERIODS):
            recorder = MetricRecorder(metric, key, asks=lambda period, places=places: places.asks(metric, period))
            for period, value in enumerate(history):
                if recorder.refusal(period) is None:
                    made.setdefault((period, value), set()).add(recorder.make(value, period).body)
        assert len(made) == 4
        assert all(len(bodies) == 1 for bodies in made.values())


def bits_of(body):
    (upload,) = decode_uploads(body, 1)
    return decode_batch(upload.reports).bits


def test_the_noise_of_two_answers_is_drawn_apart():
    """Over many devices, the answers of two cycles are no more alike than two devices' are."""
    of = registry(2, ONE_ROUND[0])
    metric, alike, across = of["m0"], 0, 0
    before = None
    for number in range(3000):
        recorder = MetricRecorder(metric, number.to_bytes(32, "big"), asks=lambda _: True)
        one, two = (bits_of(recorder.make("a", period).body) for period in (0, CYCLE))
        alike += one == two
        across += one == before
        before = two
    assert abs(alike - across) < 5 * math.sqrt(2 * 3000 * 0.25)


def test_a_memoized_answer_would_be_caught():
    """Broken on purpose: with the mechanism's own terms, which memoize, a second answer has no bound."""
    metric = registry(2, ONE_ROUND[0], panel="")["m0"]
    assert math.isinf(yearly([metric]).epsilon)
