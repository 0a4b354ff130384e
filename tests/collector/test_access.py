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
