"""How long a shuffling relay keeps what it has accepted, for every setting and whenever it comes."""

from contextlib import closing
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.relay.spool import SLOT, WAITING, Rules
from support.relays import StagedRelay, message, put

HOUR = 3600.0
BEGUN = 1_800_000_000.25
LEAST = 3


def staged(folder, every, at_most):
    return StagedRelay(folder, Rules(LEAST, every, at_most, per_release=LEAST), capacity=20, now=BEGUN)


def take(relay, number=1):
    return relay.deliver(*(message(n) for n in range(number))).count(202)


# In shares of `at_most`: among others those around which the rules change.
pauses = st.floats(0, 1.2) | st.sampled_from([0.49, 0.4999, 0.5, 0.51, 0.99, 0.9972, 1.0, 1.01, 1.49, 7.77])
steps = st.lists(st.tuples(st.sampled_from(["take", "look", "look", "start again"]), pauses), min_size=1, max_size=25)


@settings(max_examples=150)
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
    """The time moves on by halves of `at_most`: from anywhere within one, the same bytes."""
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
