"""Tokens: by their hash, by role, until they expire or are revoked, read anew."""

import pytest

from overstory.collector.auth import TokenTable
from overstory.collector.http.endpoint import Head
from overstory.collector.service import Collector
from overstory.collector.store import open_store
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE
from support.collector_in_process import METRICS

NOW = 1_000_000.0


def header(token):
    return f"Bearer {token}".encode()


@pytest.fixture
def store(tmp_path):
    with open_store(str(tmp_path / "store.db"), create=True) as opened:
        yield opened


def test_a_token_does_what_its_role_may_and_nothing_else(store):
    write, admin = store.add_token("write", "app"), store.add_token("admin", "ops")
    tokens = TokenTable(store.tokens)
    tokens.refresh()
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert tokens.refuse(f"{scheme} {write}".encode(), "write", NOW) is None
        assert tokens.refuse(f"{scheme}{write}".encode(), "write", NOW) is Reason.UNKNOWN_TOKEN
    assert tokens.refuse(header(admin), "admin", NOW) is None
    assert tokens.refuse(header(write), "admin", NOW) is Reason.UNKNOWN_TOKEN
    assert tokens.refuse(header(admin), "write", NOW) is Reason.UNKNOWN_TOKEN
    assert tokens.refuse(b"", "write", NOW) is Reason.NO_TOKEN


def test_a_token_expires_between_two_readings(store):
    token = store.add_token("write", "app", expires=int(NOW) + 10)
    tokens = TokenTable(store.tokens)
    tokens.refresh()
    assert tokens.refuse(header(token), "write", NOW + 9) is None
    assert tokens.refuse(header(token), "write", NOW + 10) is Reason.UNKNOWN_TOKEN


@pytest.mark.parametrize(
    "authorization",
    [b"Basic abc", b"Bearer", b"Bearer ", b"Bearer a b", b"Bearer \xff", b"bearer " + b"x" * 10_000, b"token"],
)
def test_anything_else_is_an_unknown_token(store, authorization):
    tokens = TokenTable(store.tokens)
    tokens.refresh()
    assert tokens.refuse(authorization, "write", NOW) is Reason.UNKNOWN_TOKEN


def test_open_writes_are_open_for_writes_alone(store):
    post = Head(content_type=MEDIA_TYPE)
    assert Collector(METRICS, store).endpoint.admit(post) is Reason.NO_TOKEN
    collector = Collector(METRICS, store, open_writes=True)
    assert collector.endpoint.admit(post) is Reason.STORE, "it is admitted; the writer has not started"
    assert collector.tokens.refuse(b"", "admin", NOW) is Reason.NO_TOKEN


def test_the_last_day_of_use_is_kept_a_day_and_not_a_time_and_written_once_a_day(store):
    day = 86_400
    token, other = store.add_token("write", "app"), store.add_token("write", "unused")
    tokens = TokenTable(store.tokens)
    tokens.refresh()
    assert tokens.used() == {}
    for second in range(0, day, 3600):
        assert tokens.refuse(header(token), "write", 20_000 * day + second) is None
        tokens.refuse(b"Bearer guess", "write", 20_000 * day)
    (used,) = tokens.used().items()
    assert used[1] == 20_000
    store.note_token_days(dict([used]))
    tokens.noted(dict([used]))
    assert tokens.refuse(header(token), "write", 20_000 * day + 86_399) is None
    assert tokens.used() == {}  # nothing to write until the next day
    again = TokenTable(store.tokens)  # nor by another collector, or after a start
    again.refresh()
    assert again.refuse(header(token), "write", 20_000 * day) is None
    assert again.used() == {}
    assert again.refuse(header(token), "write", 20_001 * day) is None
    store.note_token_days(again.used())
    store.note_token_days({used[0]: 19_000})  # a clock that was behind
    assert sorted((one.application, one.used) for one in store.tokens()) == [("app", 20_001), ("unused", None)]
    assert other
