"""No year of a device's life tells more than the headline says, whatever happens to the registry: see `years.py`."""

import itertools
import os
import random
from collections import Counter

import pytest

from overstory.client import budget, session
from overstory.client.budget import Allowance
from overstory.client.outcomes import Outcome
from overstory.client.session import Session
from overstory.protocol.metrics.panel import Places
from overstory.protocol.metrics.period import WEEK
from referee import years
from referee.years import REGISTRIES, SHORT, Life, headline, lies, short_years, story, told
from referee.years import years as years_of

LIVES = 60
MANY = int(os.environ.get("OVERSTORY_STORIES", "1500"))
SINGLE = ("one", "two", "three", "other", "monthly", "twice", "none", "no panel")
PANELS = ("one", "two", "three", "memoized", "ending", "monthly", "twice", "own")


@pytest.fixture(autouse=True)
def _short():
    for remembered in (years.registry, years.headline):
        remembered.cache_clear()
    with short_years():
        yield


def found(lives, names=tuple(REGISTRIES), *, changing=True):
    listed = []
    for number in lives:
        rng = random.Random(number)
        listed += [f"{number}: {lie}" for lie in lies(rng.randbytes(32), story(rng, names, changing=changing))]
    return listed


def test_no_year_tells_more_than_the_headline():
    assert found(range(LIVES)) == []


def test_no_year_tells_more_where_states_are_put_back():
    assert found(range(LIVES), PANELS, changing=False) == []


@pytest.mark.slow
def test_no_year_of_many_more_lives_tells_more():
    assert found(range(LIVES, LIVES + MANY)) == []
    assert found(range(LIVES, LIVES + MANY), PANELS, changing=False) == []


@pytest.mark.parametrize("name", SINGLE)
def test_a_year_of_single_rounds_tells_as_much_as_the_headline(name):
    """No less would do: some device's year comes to all of it."""
    # A year of four weeks touches five, if it begins late in the first.
    events = [("registry", name), *(("week", 0 if number % 5 else WEEK - 1) for number in range(30))]
    most = max(
        max(told(reports) for reports in years_of(Life(bytes([number]) * 32, "ab").live(events).made))
        for number in range(8)
    )
    assert most == pytest.approx(headline(name), abs=1e-9)


def test_lives_have_what_they_are_about():
    """Metrics come, go and end between two answers of a year, clocks go back, and states do."""
    close, back = 0, 0
    for number in range(LIVES):
        rng = random.Random(number)
        secret, events = rng.randbytes(32), story(rng, PANELS)
        made = Life(secret, "ab").live(events).made
        pairs = [(one, two) for one, two in itertools.pairwise(made) if one.metric.panel and two.metric.panel]
        close += any(one.name != two.name and abs(two.time - one.time) < 2 * SHORT["year"] for one, two in pairs)
        back += any(event[0] == "jump" and event[1] < 0 for event in events)
    assert min(close, back) > LIVES // 4
    kept = [("registry", "one"), ("backup",), *[("week", 0)] * 5, ("restored",), ("jump", -5), *[("week", 0)] * 5]
    bodies = Counter(made.body for made in Life(bytes(32), "a").live(kept).made)
    assert 2 in bodies.values()  # the answer was made again, with the same bytes


# --- faults, planted ------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def answers_twice(patch):
    """Ask a device at two places of each cycle, and count none of its answers."""
    usual = Places._places_of

    def two(self, metric, panel):
        places, length = usual(self, metric, panel), panel.periods(metric.period)
        return (*places, *((place + 2) % length for place in places))

    patch.setattr(Places, "_places_of", two)
    counts_no_answers(patch)


def counts_no_answers(patch):
    """Rely on the places alone, which are near where a metric ends."""
    patch.setattr(Allowance, "answered", lambda *_: False)
    counts_answers_alone(patch)


def forgets_metrics_that_went(patch):
    """Count no report of a metric that the registry no longer lists, nor what it cost."""
    usual = budget.Allowance.__init__

    def listed(self, registry, rows, now, pending=()):
        real = rows.reports_since
        rows.reports_since = lambda moment: [row for row in real(moment) if row[0] in registry]
        usual(self, registry, rows, now, pending)

    patch.setattr(Allowance, "__init__", listed)


def counts_answers_alone(patch):
    """Count the answers of a cycle, and not what a year's reports cost: another panel's were dearer, or more."""
    patch.setattr(budget, "_most_in_a_year", lambda _: None)


def keeps_the_noise(patch):
    """Draw the noise of all answers from one key."""
    patch.setattr(session, "key_of_answer", lambda key, _: key)


def place_by_value(patch):
    """Ask no device that holds b."""
    usual = Session.record

    def record(self, metric, value, *given):
        return Outcome.UNASKED if metric.panel is not None and value == "b" else usual(self, metric, value, *given)

    patch.setattr(Session, "record", record)


def value_of_before(patch):
    """Let an answer be of the first value that the device ever held."""
    usual, held = session.MetricRecorder.make, {}

    def make(self, value, *given, **more):
        return usual(self, held.setdefault(id(self), value), *given, **more)

    patch.setattr(session.MetricRecorder, "make", make)


def no_budget(patch):
    """Let reports go on where the year's budget is used up."""
    patch.setattr(Allowance, "allows", lambda *_: True)


PLANTED = {
    answers_twice: ("in any 1 years", PANELS),
    counts_no_answers: ("in any 1 years", PANELS),
    forgets_metrics_that_went: ("in any 1 years", PANELS),
    counts_answers_alone: ("in any 1 years", (*PANELS, "none", "no panel", "both")),
    keeps_the_noise: ("in any 3 years", PANELS),
    place_by_value: ("does not depend on the value", PANELS),
    value_of_before: ("held in other periods", PANELS),
    no_budget: ("in any 1 years", ("budget", "both", "linked")),
}
"""A fault, what is said of it, and the registries of the lives in which it is looked for."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant, monkeypatch):
    words, names = PLANTED[plant]
    plant(monkeypatch)
    lives = ((number, lie) for number in range(LIVES) for lie in found(range(number, number + 1), names))
    assert any(words in lie for _, lie in lives)
