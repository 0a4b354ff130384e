"""Every sentence that is printed in a life, held against what observers can tell: a life at a time.

How it works
------------
`stories.py` draws life stories by Hypothesis, in one of the worlds of `worlds.py`: values, days of silence, changes of
the registry, consent withdrawn and given, states that go back, groups, releases of a relay; and on the collector's side
reports that come in, late ones too, polls of the public page and retention. `life.py` lives a story with a real
client, a real store and the real commands, reads every line that they print (`surfaces.py`) and holds what it claims
(`sentences.py`) against the exact laws of a small model of a device (`model.py`). What is not true is a `Lie`.

A new sentence fails with `UnknownSentenceError`: add its form to `sentences.py`, and to `life.JUDGES` what it means.
Where it is no promise, it goes to `sentences.PLAIN`. `test_planted.py` plants the defects of the second
audit again, and asks the referee to find each.

What is not enumerated: more than `model.MOST_REPORTS` reports, where a number has to hold for these at least; and what
notes below a table add. A note does not make a sentence true.

A thousand stories take about a minute of one core. `make test-all` plays 4,000 more, some three minutes of two cores;
OVERSTORY_STORIES=100000 plays as many as it says:

    OVERSTORY_STORIES=100000 python -m pytest -m slow tests/referee -n 2
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings

from overstory.client.budget import Allowance
from overstory.protocol.metrics import parse_registry
from referee import life, model, surfaces
from referee.life import Crowd, Person, Scene, about_epsilon, judge, lies
from referee.model import step, truth
from referee.sentences import UnknownSentenceError, read
from referee.stories import Story, stories
from referee.worlds import AGREED, COLOURS, METRIC, WORLDS, metric
from support.privacy_cases import toml_parameters
from support.referee_cases import SIZED, of_case, truth_of
from support.registry_texts import registry_of

PARTS = 4
FEW = 1_000  # stories of a quick run; Hypothesis draws a third of the examples there, see `conftest.py`
MANY = int(os.environ.get("OVERSTORY_STORIES", "1000"))

pytestmark = pytest.mark.usefixtures("nothing_forbids")

plays = settings(
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def lies_of(story):
    return [str(lie) for lie in lies(story)]


@pytest.mark.parametrize("part", range(PARTS))
@given(story=stories())
@settings(plays, max_examples=3 * FEW // PARTS)
def test_no_sentence_in_a_thousand_lives_is_a_lie(part, story):
    assert lies_of(story) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@given(story=stories())
@settings(plays, max_examples=max(MANY // PARTS, 1))
def test_no_sentence_in_many_more_lives_is_a_lie(part, story):
    assert lies_of(story) == []


# --- the referee itself -----------------------------------------------------------------------------------------------

ALIKE = ("grr", "l-grr", "l-osue", "basic-rappor", "oue", "opt-wb")


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("reports", [1, 2, 3])
def test_the_model_agrees_with_the_referee_of_mechanisms(name, reports):
    """Two enumerations that share no code: `support.referee_device` reads every law off the samplers themselves."""
    keys = {"domain": COLOURS, "oracle": f'"{name}"', "parameters": toml_parameters(name)}
    of = parse_registry(registry_of({METRIC: keys}))[METRIC]
    other = truth_of(of_case(name, SIZED[name]), most=3)
    steps, values = (step(of),) * reports, ("red", "green", "blue")
    assert truth(steps, values, "unchanged") == pytest.approx(float(other.constant(reports)), abs=1e-9)
    assert truth(steps, values, "any") == pytest.approx(float(other.anything(reports)), abs=1e-9)


@pytest.mark.parametrize("name", ["grr", "basic", "clamp", "words", "grouped", "search"])
def test_a_number_that_is_a_little_too_low_is_a_lie(name):
    world, of = WORLDS[name], metric(name, AGREED)
    scene = Scene(world, of)
    exact = truth((step(of),), world.values, "any")
    assert not list(judge([f"epsilon {exact + 1e-4:.4f} | one report; odds move by a factor of at most 999"], scene))
    (lie,) = judge([f"epsilon {exact - 2e-4:.4f} | one report; odds move by a factor of at most 999"], scene)
    assert lie.way == "accounts"
    (lie,) = judge([f"epsilon {exact + 1e-4:.4f} | one report; odds move by a factor of at most 1.1"], scene)


YEAR = "whatever you hold and however it changes, in the first year: 367 reports of theme, until the budget is used up"


@pytest.mark.parametrize("form", ["{words} | {epsilon:.4f} | 999 times | [1]", "epsilon {epsilon:.4f} | {words}"])
def test_a_budget_that_a_device_does_not_keep_is_a_lie(form, monkeypatch):
    """The budget of 1.5 allows two reports and not three; a device without it makes as many as are enumerated."""
    scene = Scene(WORLDS["budget"], metric("budget", AGREED))
    monkeypatch.setitem(life.PLACES, (scene.in_force.digest, scene.in_force.title), ("budget", AGREED))
    life.reports_in_the_budget.cache_clear()

    def lies_at(epsilon):
        return list(judge([form.format(words=YEAR, epsilon=epsilon)], scene))

    assert life.reports_in_the_budget("budget", AGREED) == 2
    exact = truth((step(scene.in_force),) * 2, scene.values, "any")
    assert exact < 1.5 < truth((step(scene.in_force),) * 3, scene.values, "any")
    assert not lies_at(exact + 1e-4)
    assert lies_at(exact - 2e-4)
    life.reports_in_the_budget.cache_clear()
    with monkeypatch.context() as broken:
        broken.setattr(Allowance, "allows", lambda *_: True)
        assert lies_at(1.5)
    life.reports_in_the_budget.cache_clear()


@pytest.mark.parametrize(
    "line",
    [
        "epsilon 1.0000 | whatever you hold: 3 reports",
        "Nobody can ever find out what you hold.",
        "What could put a device's reports together | the same in some reports: 3 bits",
        "at most 12 devices share it",
    ],
)
def test_a_sentence_that_nobody_knows_is_an_error(line):
    with pytest.raises(UnknownSentenceError):
        read(line)


def test_a_life_without_a_lie_prints_what_the_model_expects(tmp_path):
    """The client and the model live the same life: as many reports, from as many permanent responses."""
    story = Story("basic", 1, (("value", 0), ("silent",), ("value", 1), ("value", 2), ("off",), ("value", 0)))
    person = Person(story, tmp_path)
    told = person.live()
    assert len(person.scene.steps) == 3
    assert not [lie for lie in told if lie.way in {"number", "accounts", "restored"}]


def test_a_crowd_is_published_and_deleted(tmp_path):
    """There is something to poll, and something past retention: the collector's side is not silent."""
    arrived = (("arrive", 0, 137, 0), ("arrive", 1, 100, 0), ("days", 4), ("poll",), ("days", 130), ("retain",))
    crowd = Crowd(Story("published", 3, (), arrived), tmp_path)
    told = crowd.live()
    assert [number for polls in crowd.bodies.values() for number, _ in polls] == [137]
    assert crowd.judged_cells > 0
    assert not [lie for lie in told if lie.way in {"public", "kept"}]


def test_a_story_of_the_device_takes_all_events():
    """Every event has its method, and every method its event."""
    kinds = {event[0] for one in EVENTS_OF_A_DEVICE for event in one.events}
    assert kinds == {name.removeprefix("on_") for name in vars(Person) if name.startswith("on_")}
    for story in EVENTS_OF_A_DEVICE:
        assert lies_of(story) == []


EVENTS_OF_A_DEVICE = (
    Story("grr", 1, (("value", 0), ("restored", 1), ("registry", "swapped"), ("group", "1.1"), ("off",), ("on",))),
    Story("grouped", 2, (("silent",), ("value", 1), ("look",), ("relay", 2000, "a tenth"), ("value", 0))),
)


def test_what_is_judged_is_printed():
    """Each kind of epsilon is printed somewhere, so that no judge waits in vain."""
    lines = [line for world in ("basic", "words") for line in surfaces.show(world, AGREED)]
    claims = [claim for line in lines for claim in read(line) if claim.about == "epsilon"]
    assert {claim.reports for claim in claims} >= {1, 3, None}
    scene = Scene(WORLDS["basic"], metric("basic", AGREED))
    assert all(not list(about_epsilon(claim, scene)) for claim in claims if claim.condition == "any")
    assert model.longest(WORLDS["basic"].values) >= 3
