"""How long a shuffling relay keeps what it has accepted, for every setting and whenever it comes."""

from __future__ import annotations

import math
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.relay.slots import SLOT
from overstory.relay.spool import WAITING, Rules
from support.relays import StagedRelay, message, put

HOUR = 3600.0
BEGUN = 1_800_000_000.25
LEAST = 3


def staged(folder, every, at_most):
    return StagedRelay(folder, Rules(LEAST, every, at_most, per_release=LEAST), capacity=20, now=BEGUN)


def take(relay, number=1):
    """Let messages come, and return how many of them were accepted."""
    return relay.deliver(*(message(n) for n in range(number))).count(202)


# --every and --at-most in hours; the fourth is what the relay's page has.
SETTINGS = [(24, 24), (24, 36), (24, 48), (24, 720), (24, 49), (0, 24), (168, 240), (0.001, 0.0015)]
BEFORE = ["nothing", "a release", "a drop"]
# When the first message comes, in --at-most after that.
ARRIVALS = [0.0, 0.01, 0.49, 0.4999, 0.5, 0.51, 0.75, 0.99, 0.9972, 1.0, 1.01, 1.49, 1.99, 2.0, 7.77, 40.3]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(("every", "at_most"), SETTINGS)
def test_the_first_message_after_a_silence_has_at_least_half_of_the_time(tmp_path, every, at_most, before):
    for number, arrival in enumerate(ARRIVALS):
        for looking in (True, False):  # False: the relay was off, or was sending a release, until the message came
            relay = staged(tmp_path / f"{number}{looking}", every * HOUR, at_most * HOUR)
            if before != "nothing":
                take(relay, LEAST if before == "a release" else 1)
                relay.now += at_most * HOUR + 1
                relay.look()
                assert relay.spool.count == 0
            start, earlier = relay.now, relay.spool.totals.get("dropped", 0)
            silence = arrival * at_most * HOUR
            for step in range(20 if looking else 0):
                relay.now = start + silence * step / 20
                relay.look()
            relay.now = came = start + silence
            assert take(relay) == 1
            for share in (0.0, 0.1, 0.25, 0.4, 0.4999, 0.5):
                relay.now = came + math.nextafter(share * at_most * HOUR, 0)
                relay.look()
                assert relay.spool.count == 1, f"dropped after {share} of --at-most, arrival {arrival}"
            relay.now = came + at_most * HOUR
            relay.look()
            assert relay.spool.count == 0, "nothing waits for longer than --at-most"
            assert relay.spool.totals["dropped"] == earlier + 1
            relay.spool.close()


@pytest.mark.parametrize(("every", "at_most"), SETTINGS)
def test_a_release_after_a_silence_waits_for_messages_alone(tmp_path, every, at_most):
    relay = staged(tmp_path, every * HOUR, at_most * HOUR)
    with closing(relay.spool):
        for share in (0.5, 0.99, 1.5, 9.9):
            before = len(relay.released)
            relay.now += max(every, share * at_most) * HOUR + 1
            relay.look()
            take(relay, LEAST)
            relay.look()
            assert len(relay.released) == before + LEAST


steps = st.lists(
    st.tuples(st.sampled_from(["take", "look", "look", "start again"]), st.floats(0, 1.2)), min_size=1, max_size=25
)


@settings(max_examples=60)
@given(every=st.floats(0, 1), at_most=st.floats(2, 1e6), steps=steps)
def test_nothing_is_dropped_released_or_kept_against_the_rules(tmp_path_factory, every, at_most, steps):
    relay = staged(tmp_path_factory.mktemp("relay") / "spool", every * at_most, at_most)
    last, started = relay.now, relay.now  # when the last release or drop was, and the last start
    waiting = []  # when each message that waits came
    for step, pause in steps:
        relay.now += pause * at_most
        if step == "take":
            waiting += [relay.now] * take(relay)
        elif step == "start again":
            relay.restart()
            started = relay.now
        else:
            released, due = len(relay.released), relay.now - last >= every * at_most
            relay.look()
            if len(relay.released) > released:
                assert len(waiting) >= LEAST
                assert relay.now - last >= every * at_most - 1, "the spool counts whole seconds"
                assert relay.spool.count == 0
            elif waiting and not relay.spool.count:
                assert len(waiting) < LEAST
                assert relay.now - last >= at_most - 1
                assert relay.now - waiting[0] >= at_most / 2
            else:
                assert not (due and len(waiting) >= LEAST), "a release was due"
                kept = max([*waiting[:1], started])
                assert len(waiting) >= LEAST or not waiting or relay.now - kept < at_most, "too old"
                continue
            last, waiting = relay.now, []
    relay.spool.close()


def test_the_disk_has_no_time_of_the_first_message_after_a_silence(tmp_path):
    """The time moves on by halves of --at-most: from anywhere within one, the same bytes."""
    starts = []
    for number, arrival in enumerate((1.5, 1.6, 1.75, 1.99, 2.0)):
        relay = staged(tmp_path / str(number), 24 * HOUR, 36 * HOUR)
        relay.now += arrival * 36 * HOUR
        take(relay)
        starts.append((relay.folder / WAITING).read_bytes()[:SLOT])
        assert relay.spool.waited == relay.now - (int(BEGUN) + (1.5 if number < 4 else 2.0) * 36 * HOUR)
        waited = relay.spool.waited
        relay.restart()
        assert relay.spool.waited == waited, "and after a restart it is the same"
        relay.spool.close()
    assert [one == two for one, two in pairwise(starts)] == [True, True, True, False]


def test_messages_that_became_enough_at_the_last_moment_are_not_dropped(tmp_path):
    relay = staged(tmp_path, 24 * HOUR, 36 * HOUR)
    with closing(relay.spool):
        take(relay, LEAST - 1)
        relay.now += 36 * HOUR
        drop = relay.spool.drop
        relay.spool.drop = lambda: (put(relay.spool, [message(9)]), drop())[1]
        relay.look()
        assert relay.spool.count == LEAST
        relay.look()
        assert (len(relay.released), dict(relay.spool.totals)) == (LEAST, {"releases": 1, "taken": LEAST})
