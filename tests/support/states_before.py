"""The states of schemas 1 and 2, as the versions of the client before wrote them, in SQL of its own.

    python -m support.states_before

in `tests` writes tests/vectors/client-state-1 and client-state-2 again. The files are kept in the repository: what is
tested is that they open.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "vectors" / "client-state-1"
FOLDER_2 = FOLDER.with_name("client-state-2")
RAW = bytes(range(100, 132))
TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE reported (metric TEXT, period INTEGER, PRIMARY KEY (metric, period)) WITHOUT ROWID;
CREATE TABLE responses (metric TEXT NOT NULL, mechanism BLOB NOT NULL, number INTEGER NOT NULL, tag BLOB NOT NULL,
    permanent BLOB NOT NULL, reports INTEGER NOT NULL,
    PRIMARY KEY (metric, mechanism, tag), UNIQUE (metric, mechanism, number)) WITHOUT ROWID;
CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, batch BLOB NOT NULL UNIQUE, metric TEXT NOT NULL,
    period INTEGER NOT NULL, body BLOB NOT NULL, due REAL NOT NULL, attempts INTEGER NOT NULL, state TEXT NOT NULL,
    answer TEXT);
"""
TABLES_2 = """
ALTER TABLE responses ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN response INTEGER;
CREATE TABLE terms (mechanism BLOB PRIMARY KEY, terms TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE counts (what TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX outbox_by_state ON outbox (state, due);
"""


def write_2(folder, rows, terms):
    """Write a state of schema 2 with a waiting and a sent report of each row; `terms` are (mechanism, JSON)."""
    write(folder, rows)
    connection = sqlite3.connect(folder / "state.db", isolation_level=None)
    connection.executescript(TABLES_2)
    connection.execute("UPDATE about SET value = 2 WHERE key = 'schema'")
    connection.execute("UPDATE outbox SET state = 'sent', answer = 'accepted', attempts = 1 WHERE id % 2 = 0")
    connection.executemany("INSERT INTO terms VALUES (?, ?)", terms)
    connection.close()


def copy(folder, vector=FOLDER):
    """Copy a state that the repository keeps, closed to others as a client makes it: git does not keep modes."""
    shutil.copytree(vector, folder)
    closed(folder)


def closed(folder):
    folder.chmod(0o700)
    for path in folder.iterdir():
        path.chmod(0o600)


def write(folder, rows):
    """Write a state of schema 1; `rows` are (metric, period, mechanism, tag, permanent, batch, body)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    body = b"OVSS\x01\0\0\0" + RAW
    (folder / "secret").write_bytes(body + hashlib.blake2b(body, person=b"secret file").digest()[:12])
    (folder / "lock").write_bytes(b"begun\n")
    connection = sqlite3.connect(folder / "state.db", isolation_level=None)
    connection.executescript(TABLES)
    fingerprint = hashlib.blake2b(RAW, digest_size=16, person=b"fingerprint").digest()
    connection.executemany("INSERT INTO about VALUES (?, ?)", [("schema", 1), ("fingerprint", fingerprint)])
    for number, (metric, period, mechanism, tag, permanent, batch, upload) in enumerate(rows):
        connection.execute("INSERT INTO reported VALUES (?, ?)", (metric, period))
        connection.execute(
            "INSERT INTO responses VALUES (?, ?, ?, ?, ?, 1)", (metric, mechanism, number, tag, permanent)
        )
        row = (batch, metric, period, upload)
        connection.execute(
            "INSERT INTO outbox (batch, metric, period, body, due, attempts, state)"
            " VALUES (?, ?, ?, ?, 0, 0, 'waiting')",
            row,
        )
    connection.close()
    closed(folder)


GOOGLE = (
    'domain = {{kind = "strings"}}\noracle = "rappor"\nperiod = "day"\n'
    'parameters = {{num_bits = 32, num_cohorts = 1, f = {f}, hash_family = "google-rappor-python"}}\n'
)


def registry_2(**f):
    """Return a registry of the colours, and of Google's family with these f: `page` alone, with 0.5, unless given."""
    from support.devices import DEFAULT, registry

    return registry(
        colour=DEFAULT["colour"], **{name: GOOGLE.format(f=one) for name, one in (f or {"page": 0.5}).items()}
    )


def reports_2(metrics, told):
    """Yield what a device with the secret of before reported: a value of a metric on each day."""
    from overstory.client.recorder import MetricRecorder
    from overstory.client.state.secret_file import DeviceSecret, metric_key
    from support.devices import DAY, NOON

    for day, (name, value) in enumerate(told):
        metric, period = metrics[name], int(NOON // DAY) + day
        recorder = MetricRecorder(metric, metric_key(DeviceSecret.of_version_1(RAW), metric, legacy=True))
        made = recorder.make(value, period)
        yield name, period, metric.mechanism.digest, made.tag, made.permanent, made.batch, made.body


def terms_2(metrics):
    """Yield the rows of `terms`."""
    from overstory.privacy.payloads.registry import terms_of
    from overstory.protocol.mechanisms.base import canonical

    for metric in metrics.values():
        yield metric.mechanism.digest, canonical(terms_of(metric.mechanism).canonical())


TOLD_2 = (("colour", "red"), ("colour", "blue"), ("page", "a page"), ("page", "another"))


def reports():
    """What a device with this secret reported on two days: the first as red, the second as blue."""
    from overstory.client.recorder import MetricRecorder
    from overstory.client.state.secret_file import DeviceSecret, metric_key
    from support.devices import DAY, NOON, REGISTRY

    colour = REGISTRY["colour"]
    recorder = MetricRecorder(colour, metric_key(DeviceSecret.of_version_1(RAW), colour, legacy=True))
    for day, colour in enumerate(("red", "blue")):
        period = int(NOON // DAY) + day
        made = recorder.make(colour, period)
        yield "colour", period, REGISTRY["colour"].mechanism.digest, made.tag, made.permanent, made.batch, made.body


if __name__ == "__main__":
    write(FOLDER, reports())
    write_2(FOLDER_2, reports_2(registry_2(), TOLD_2), terms_2(registry_2()))
