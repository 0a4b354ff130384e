"""Devices, `overstory relay --spool`, `overstory serve`, all real, with an eavesdropper at every hop.

The records, the relay's files and the collector's are searched for what must not be in them, and the counts are those
of what the devices sent.
"""

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.eavesdroppers import Recorded, faults, held, listening_in, released, spellings
from support.misfortunes import until
from support.relayed_devices import METRIC, NAMES, collecting
from support.relays import health, relaying, shuffling
from support.store_samples import ids_in_file

pytestmark = pytest.mark.slow  # two servers and forty devices; test_eavesdroppers.py has the hops in two seconds

DEVICES = 40


@dataclass
class Observation:
    arrived: list[Recorded]  # between devices and relay
    passed: list[Recorded]  # between relay and collector
    direct: list[Recorded]  # between devices and collector
    relay_before: bytes  # the relay's files while messages waited
    relay_after: bytes
    stored: bytes  # the collector's files, after its end
    store: Path
    log: str  # the collector's output
    health: dict[str, Any]
    sent: Counter[str]
    counts: Counter[str]
    token: str

    @property
    def secrets(self):
        names = {name: name.encode() for name in NAMES}
        return names | {"token": self.token.encode(), "metric": METRIC.encode(), "path": b"/v1/reports"}

    @property
    def addresses(self):
        return {name: text for record in self.arrived for name, text in spellings(record.source).items()}


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "relay-token")
    return b"".join(path.read_bytes() for path in files)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder, sent = tmp_path_factory.mktemp("end-to-end"), Counter()
    relayed = folder / "relay"
    relayed.mkdir()
    shuffle = shuffling(relayed, least=DEVICES, every="0.2s")
    with (
        collecting(folder / "collector") as site,
        listening_in(site.collector.address) as behind,
        listening_in(site.collector.address) as around,
    ):
        (relayed / "relay-token").write_text(site.tokens["relay"])
        url = "http://{}:{}"
        with (
            relaying(url.format(*behind.address), *shuffle, log=relayed / "log") as relay,
            listening_in(relay.address) as before,
        ):
            for number in range(DEVICES):
                before.source = around.source = f"127.0.1.{number + 1}"
                if number == DEVICES - 1:
                    relay_before = contents(relayed)
                sent[site.report(number, url.format(*before.address) + "/", url.format(*around.address))] += 1
            until(lambda: site.counts().total() == DEVICES)
            until(lambda: "releases" in health(relay.address)["totals"])
            counts, facts = site.counts(), health(relay.address)
            assert relay.stop() == 0
        assert site.collector.stop() == 0
        stored, log = contents(site.folder), "".join(site.collector.said)
    records = before.records, behind.records, around.records
    files = relay_before, contents(relayed), stored, site.store
    return Observation(*records, *files, log, facts, sent, counts, site.tokens["write"])


def test_the_counts_are_those_of_what_was_sent(seen):
    assert seen.sent.total() == DEVICES
    assert set(seen.sent) == set(NAMES)
    assert seen.counts == seen.sent
    assert seen.health["totals"] == {"releases": 1, "taken": DEVICES}


def test_the_eavesdroppers_of_both_hops_have_nothing_that_they_must_not(seen):
    assert faults(seen.arrived, seen.passed, seen.secrets) == []
    assert len({record.source for record in seen.arrived}) == DEVICES, "addresses, next to what nobody there can read"
    assert [len(messages) for messages in released(seen.passed).values()] == [DEVICES]


def test_no_device_went_around_the_relay(seen):
    assert seen.direct == []


def test_the_relay_s_files_have_no_content_and_no_sender(seen):
    for files in (seen.relay_before, seen.relay_after):
        assert held(files, seen.secrets | seen.addresses) == []
    waiting = [record.body in seen.relay_before for record in seen.arrived]
    assert waiting.count(True) == DEVICES - 1, "what waits is there, sealed"
    assert not any(record.body in seen.relay_after for record in seen.arrived), "and gone once it was sent"


def test_the_collector_s_files_and_log_have_no_sender(seen):
    assert held(seen.stored + seen.log.encode(), seen.addresses) == []
    assert held(seen.stored, {"metric": METRIC.encode()}) == ["metric"], "the search does find what is there"


def test_the_collector_counts_the_release_and_joins_it_to_no_report(seen):
    ((release, messages),) = released(seen.passed).items()
    with closing(sqlite3.connect(seen.store)) as store:
        rows = store.execute("select metric, release, messages from releases where release <> x''").fetchall()
        assert rows == [(METRIC, release, DEVICES)]
        tables = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
        holding = {
            table
            for table in tables
            for row in store.execute(f"select * from {table}")
            if any(isinstance(cell, bytes) and release in cell for cell in row)
        }
        assert holding == {"releases"}
        assert len(ids_in_file(store)) == DEVICES
    assert not any(message in seen.stored for message in messages)
