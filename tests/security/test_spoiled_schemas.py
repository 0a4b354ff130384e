"""A database whose own words are no text: SQLite complains in those words, and the user still reads one sentence."""

import sqlite3

import pytest

from overstory.client.outcomes import Fault, StateError
from overstory.client.state.files import StatePaths
from overstory.client.state.state import State
from overstory.collector.store import StoreError, open_store


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
