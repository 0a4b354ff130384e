"""Life stories: what happens to one device, and to the collector that many report to."""

import math
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from referee.model import longest
from referee.worlds import WORLDS

CROWDS = ("published", "seeds", "words", "grr")
"""Worlds in which many devices report, so that there is something to publish and to delete."""
MESSAGES = (200, 2_000, 20_000)
ARRIVALS = (1, 2, 9, 99, 100, 137)

Event = tuple[Any, ...]


@dataclass(frozen=True)
class Story:
    """A device's life, event by event.

    value n      the day's report is of the world's n-th value; the next day begins
    restored n   likewise; then the state is put back from a backup of the day before, and the report is made again
    silent       a day without a report
    registry r   the program is built with another registry; the person reads the question, and agrees
    off          consent is withdrawn; nothing is recorded until it is given
    on           consent is given
    group g      the device moves to another public group
    look         the person reads `status` and `view`
    relay        what a relay's release is said to reveal, which some of whose senders work with the reader

    A crowd's life, on the side of the collector:

    arrive d n g so many reports of a day d days ago come in, of the g-th group
    days n       so many days go by
    poll         somebody reads the public page
    retain       reports past retention are deleted
    """

    world: str
    seed: int
    events: tuple[Event, ...]
    crowd: tuple[Event, ...] = field(default=())


@st.composite
def stories(draw, worlds=tuple(WORLDS), *, crowded=False):
    """Return a story in one of some worlds; `crowded`: one of the collector's side alone."""
    name = draw(st.sampled_from(worlds))
    world = WORLDS[name]
    events = () if crowded else tuple(draw(st.lists(device_events(world), min_size=1, max_size=9)))
    crowd = ()
    if crowded or (name in CROWDS and draw(st.integers(0, 3)) == 0):
        crowd = tuple(draw(st.lists(crowd_events(world), min_size=2, max_size=8)))
    return Story(name, draw(st.integers(0, 7)), shortened(world, events), crowd)


def device_events(world):
    numbers = st.integers(0, len(world.values) - 1)
    return st.one_of(
        st.tuples(st.just("value"), numbers),
        st.tuples(st.just("value"), numbers),
        st.tuples(st.just("registry"), st.sampled_from(world.names)),
        st.sampled_from([("silent",), ("off",), ("on",), ("look",)]),
        st.one_of(
            st.tuples(st.just("restored"), numbers),
            st.tuples(st.just("group"), st.sampled_from(["1.0", "1.1", "0.9"])),
            st.tuples(st.just("relay"), st.sampled_from(MESSAGES), known_messages()),
        ),
    )


def known_messages():
    """How many messages of a release the reader knows: at most all but the person's own."""
    return st.sampled_from(["none", "a tenth", "all but two", "all but one"])


def crowd_events(world):
    group = st.integers(0, 2) if "groups" in world.base else st.just(0)
    return st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 2), st.sampled_from(ARRIVALS), group),
        st.tuples(st.just("days"), st.sampled_from([1, 1, 3, 130])),
        st.sampled_from([("poll",), ("poll",), ("retain",)]),
    )


def shortened(world, events):
    """Return a story with as many reports as can be enumerated: later ones are days of silence."""
    left, told = longest(world.values), []
    for event in events:
        reports = event[0] in {"value", "restored"}
        told.append(("silent",) if reports and not left else event)
        left -= reports and bool(left)
    return tuple(told)


def honest_share(number, known):
    """Return the share of a release's messages that the reader does not know."""
    honest = {"none": number, "a tenth": number - number // 10, "all but two": 2, "all but one": 1}[known]
    return math.nextafter(honest / number, 1.0)
