"""Relays that are killed at random, with a collector that fails at random: nothing is lost, nothing counted twice."""

import random
import time

import pytest

from support.relays import RelayProcess, Senders, receiving, shuffling, take_all
from support.rounds import rounds

LEAST = 6


class Faulty:
    def __init__(self, seed):
        self._random, self.calm = random.Random(seed), False

    def __call__(self, release):
        drawn = 1.0 if self.calm else self._random.random()
        if drawn < 0.1:
            return 503
        if drawn < 0.3:
            again = [n for n in range(len(release.messages)) if self._random.random() < 0.5]
            return take_all(release) | {"taken": len(release.messages) - len(again), "again": again}
        return take_all(release)


def kill_at_random(folder, rounds, seed, longest=1.5):
    draws, faulty = random.Random(seed), Faulty(seed)
    with receiving(faulty) as side:
        relay = RelayProcess(side.url, shuffling(folder, least=LEAST, every="0.2s"))
        senders = Senders(relay)
        for _ in range(rounds):
            relay.start(folder / "log")
            with senders:
                time.sleep(draws.choice((draws.uniform(0.0, 0.05), draws.uniform(0.0, longest))))
                relay.kill()
        faulty.calm = True
        relay.start(folder / "log")
        acknowledged = set(senders.acknowledged)
        until = time.monotonic() + 60
        while not (acknowledged <= side.counted.keys() and side.releases > 1) and time.monotonic() < until:
            for _ in range(LEAST):  # what is left may be too few for a release, or all in one: others come
                senders.once()  # refused, while a release that did not get on has left the spool full
            time.sleep(0.5)
        assert senders.once()
        assert relay.stop() == 0
    return acknowledged, side


def check(acknowledged, side):
    assert [one for one in acknowledged if one not in side.counted] == [], "acknowledged, and lost"
    assert [ids for ids in side.ids.values() if len(ids) != 1] == [], "one message came with two releases"
    members = {}
    for one, ids in side.ids.items():
        members.setdefault(next(iter(ids)), set()).add(one)
    assert min(map(len, members.values())) >= LEAST, "a release was smaller than promised"
    assert len(members) > 1


def test_a_few_kills(tmp_path):
    acknowledged, side = kill_at_random(tmp_path, 3, seed=1, longest=0.6)
    check(acknowledged, side)
    assert len(acknowledged) > 10


@pytest.mark.slow
def test_many_kills(tmp_path):
    kills = rounds(50)
    acknowledged, side = kill_at_random(tmp_path, kills, seed=2)
    check(acknowledged, side)
    assert len(acknowledged) > 10 * kills
    assert sum(side.counted.values()) > len(side.counted), "some parts did come again after a kill"


class Shown:
    def __init__(self, releases):
        self.counted = {one: 1 for members in releases.values() for one in members}
        self.ids = {one: {release} for release, members in releases.items() for one in members}


def test_what_is_lost_or_in_two_releases_or_too_few_is_noticed():
    one, two = [b"%d" % n for n in range(6)], [b"%d" % n for n in range(6, 12)]
    check(one + two, Shown({b"a": one, b"b": two}))
    with pytest.raises(AssertionError, match="lost"):
        check([*one, b"gone"], Shown({b"a": one, b"b": two}))
    with pytest.raises(AssertionError, match="smaller"):
        check(one, Shown({b"a": one, b"b": two[:5]}))
    twice = Shown({b"a": one, b"b": two})
    twice.ids[b"1"].add(b"b")
    with pytest.raises(AssertionError, match="two releases"):
        check(one, twice)
