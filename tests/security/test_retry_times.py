"""Retry-After is no cookie: the times at which reports come back do not tell the time that a device was given."""

import os
import random
import sqlite3

import pytest

from overstory.client.outcomes import Fault, StateError
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import RowState
from overstory.client.state.state import State
from overstory.client.upload import delivery
from overstory.client.upload.delivery import FIRST_BACKOFF, LONGEST_ASKED, Collector
from overstory.client.upload.http import Response
from overstory.collector.store import StoreError, open_store
from overstory.protocol.metrics import parse_registry
from support.registry_texts import plain_registry

DAY, NOON, MINUTE = 86_400, 1_795_262_400.0, 60.0
METRICS = ("a", "b", "c")
REGISTRY = parse_registry(plain_registry(*METRICS))
FIRST, LAST = 240, 720  # the slots that a server could give, in minutes: 4 to 12 hours
DEVICES = 1000


class Device:
    """Three reports that wait, and a collector that asks for a pause; the disk is written, and not waited for."""

    def __init__(self, state, seed):
        self.state, self.now = state, NOON
        self.uniform = random.Random(seed).random
        with state.transaction() as rows:
            rows._connection.execute("DELETE FROM outbox")
            rows._connection.execute("DELETE FROM about WHERE key LIKE 'kept%'")
            for number, name in enumerate(METRICS):
                batch = number.to_bytes(16, "big")
                rows.outbox.add(
                    batch, name, int(NOON // DAY), b"x", account=bytes(16), due=NOON - 1, state=RowState.WAITING
                )

    def round(self, asked):
        answer = Response(429, {"retry-after": str(int(asked))})
        sender = Collector("https://example.org", lambda request: answer, clock=lambda: self.now, uniform=self.uniform)
        return sender.send_due(self.state, REGISTRY, seconds=5).put_off

    def returns(self, asked):
        """The times, from now, at which each report may come back: after the answer, and one look in the pause."""
        assert self.round(asked) == 1
        self.now += MINUTE
        assert self.round(asked) == 0
        with self.state.snapshot() as rows:
            resume = float(rows.recall("resume") or 0.0)
            return [max(row.due, resume) - NOON for row in rows.outbox.rows()]


@pytest.fixture
def state(tmp_path, monkeypatch):
    """One state for all devices, one after the other, on a disk that nobody waits for."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    found = State(StatePaths(tmp_path / "state"))
    found.begin()
    return found


def guesses(state, devices):
    """For each device: the minute it was given, and the minutes in which its reports come back."""
    slots = random.Random(7)
    found = []
    for number in range(devices):
        slot = slots.randrange(FIRST, LAST)
        found.append((slot, [back / MINUTE for back in Device(state, number).returns(slot * MINUTE)]))
    return found


def read_back(found):
    """The share of devices whose slot is read within two minutes, by the best of three simple readers."""
    readers = (min, max, lambda backs: min(backs) / 1.25)  # at once; the last; a quarter of the jitter off
    return max(sum(abs(reader(backs) - slot) <= 2 for slot, backs in found) / len(found) for reader in readers)


def together(found):
    return sum(
        min(b - a for a, b in zip(sorted(backs), sorted(backs)[1:], strict=False)) <= 2 for _, backs in found
    ) / len(found)


@pytest.mark.parametrize(
    ("devices", "most"), [(150, 0.15), pytest.param(DEVICES, 0.06, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_the_time_asked_for_cannot_be_read_from_when_reports_come_back(state, devices, most):
    found = guesses(state, devices)
    for slot, backs in found:
        assert all(slot <= back <= 2 * slot + 3 for back in backs)  # what was asked is obeyed
    assert read_back(found) < most
    assert together(found) < most
    # Of one report: uniform over as long again, so hours away from the minute asked for.
    late = sorted(back / slot - 1 for slot, (back, *_) in found)
    assert all(abs(late[int(share * devices)] - share) < most for share in (0.1, 0.25, 0.5, 0.75, 0.9))


def test_a_device_that_comes_back_when_it_was_told_is_caught(state, monkeypatch):
    """The device as it was: the time asked for, and up to a minute."""

    def exact(row, answer, *, now, failures, uniform):
        asked = delivery.retry_after(answer, now)
        again = now + asked + delivery.backoff(failures[""] + 1, uniform)
        return delivery.Decision(RowState.WAITING, "http-429", again, again)

    monkeypatch.setattr(delivery, "decide", exact)
    monkeypatch.setattr(delivery.CollectorHealth, "spread", lambda *_: None)
    found = guesses(state, 50)
    assert read_back(found) == 1.0
    assert together(found) == 1.0


def test_a_minute_and_half_a_day_are_told_apart(state):
    """The documented limit: times more than twofold apart do not overlap, whatever each report draws."""
    soon, late = ([Device(state, seed).returns(asked) for seed in range(50)] for asked in (60, 43_200))
    assert max(map(max, soon)) < 2 * (60 + FIRST_BACKOFF) < 43_200 <= min(map(min, late))


@pytest.mark.parametrize("asked", [120, 3600, 10**6, 10**9 - 1])
def test_what_is_asked_is_obeyed_and_bounded(state, asked):
    obeyed = min(asked, LONGEST_ASKED / 2)
    backs = Device(state, asked).returns(asked)
    assert all(obeyed <= back <= 2 * (obeyed + FIRST_BACKOFF) for back in backs)


# A database whose own words are no text: SQLite complains in those words, and the user still reads one sentence
def spoil(path, word):
    content = path.read_bytes()
    assert word in content
    path.write_bytes(content.replace(word, b"\xa2" * len(word)))
    connection = sqlite3.connect(path)
    with pytest.raises((UnicodeDecodeError, sqlite3.DatabaseError)):
        connection.execute("SELECT * FROM sqlite_master").fetchall()
    connection.close()


def test_a_store_is_damaged(tmp_path):
    path = tmp_path / "store.db"
    open_store(str(path), create=True).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    spoil(path, b"CREATE TABLE batch_ids")
    with pytest.raises(StoreError, match="damaged"):
        open_store(str(path))


def test_a_state_is_damaged(tmp_path):
    state = State(StatePaths(tmp_path / "state"))
    state.begin()
    spoil(state.paths.database, b"CREATE TABLE outbox")
    for work in (state.begin, state.snapshot().__enter__, state.transaction().__enter__):
        with pytest.raises(StateError) as raised:
            work()
        assert raised.value.fault is Fault.DAMAGED
