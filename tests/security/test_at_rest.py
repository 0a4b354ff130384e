"""What a device's disk holds: of no oracle the value, nor what it is encoded as, whenever the device is killed."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import stat
from pathlib import Path

import pytest

from overstory.client import Client
from overstory.client.state.rows import Bounds, Outbox, Rows
from overstory.collector.ingest import Received
from overstory.collector.store import open_store
from overstory.privacy.terms import terms_of
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import REGISTRY as ORACLES
from overstory.protocol.metrics import RegistryError, load_registry, parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.privacy_cases import toml_parameters
from support.processes import in_child
from support.registry_texts import plain_registry
from support.store_samples import ids_in_file

NAMES = [f"forest-secret-{number:03}" for number in range(256)]
VALUES = [NAMES[137], NAMES[9], NAMES[137]]
WITHOUT_F = "{f = 0.0, p = 0.25, q = 0.75, num_bits = 256}"
DOMAINS = (f'{{kind = "categories", names = {NAMES}}}', '{kind = "strings", candidates = "unread.txt"}')


def toml_of(oracle, parameters=None):
    for domain in DOMAINS:
        given = parameters or toml_parameters(oracle)
        text = plain_registry("m", oracle=f'"{oracle}"', parameters=given, domain=domain)
        with contextlib.suppress(RegistryError):
            parse_registry(text)
            return text
    raise AssertionError(oracle)


def traces(values):
    for value in set(values):
        plain = value.encode()
        yield from (plain, value.encode("utf-16-le"), plain.hex().encode(), plain[::-1])
        one_hot = 1 << NAMES.index(value)
        for order in ("little", "big"):
            yield one_hot.to_bytes(32, order)


def leaks(folder, values):
    public = {
        "version": 1,
        "name": "t",
        "server": None,
        "registry": folder.with_name("metrics.toml").read_text("utf-8"),
    }
    assert json.loads((folder / "application.json").read_text("utf-8")) == public
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "application.json"]
    return [path.name for path in files for trace in traces(values) if trace in path.read_bytes()]


def killed(folder, text, moment):
    (folder / "metrics.toml").write_text(text.replace("unread.txt", "candidates.txt"), encoding="utf-8")
    now = [1_795_262_400.0]

    def device():
        registry = load_registry(folder / "metrics.toml", read_candidates=False)
        settings = {"environ": {}, "policy": folder / "none", "clock": lambda: now[0]}
        client = Client("t", registry=registry, state=folder / "state", **settings)
        client.consent("on")
        for day, value in enumerate(VALUES):
            now[0] += 86_400
            if moment == "in a transaction" and day + 1 == len(VALUES):
                Outbox.trim = lambda _: os.kill(os.getpid(), signal.SIGKILL)
            assert client.record("m", value) == "recorded", client.status()
            assert not client.flush(0).problem
        os.kill(os.getpid(), signal.SIGKILL)

    in_child(device, expected=-signal.SIGKILL)
    return folder / "state"


CASES = {oracle: (oracle,) for oracle in sorted(ORACLES)} | {"f = 0": ("rappor", WITHOUT_F)}


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_byte_on_the_disk_of_a_killed_device_is_of_a_value(tmp_path, case):
    text = toml_of(*case)
    state = killed(tmp_path, text, "in a transaction")  # the third; two were flushed before
    assert (state / "state.db").stat().st_size > 0
    assert leaks(state, VALUES) == []
    metric = parse_registry(text)["m"]
    connection = sqlite3.connect(state / "state.db")
    permanent = [row[0] for row in connection.execute("SELECT permanent FROM responses ORDER BY number")]
    connection.close()
    # Where all noise is fresh the permanent response would be the truth: one row for all values, and nothing in it.
    assert permanent == [b""] if terms_of(metric.mechanism).fresh else all(permanent)
    assert permanent


def test_the_search_finds_a_device_that_keeps_what_it_should_not(tmp_path):
    text = toml_of("wb")
    metric = parse_registry(text)["m"]
    assert isinstance(metric.mechanism, BitMechanism)
    state = killed(tmp_path, text, "after a flush")
    connection = sqlite3.connect(state / "state.db")
    true = metric.mechanism.encode(metric.encode(VALUES[0]), 0).to_bytes(32, "little")
    Rows(connection, Bounds()).charge(metric, b"tag", true, most=None, kept=False)
    connection.commit()
    connection.close()
    assert leaks(state, VALUES) == ["state.db"]
    Path(state / "note").write_text(VALUES[1], encoding="utf-16-le")
    assert leaks(state, VALUES) == ["note", "state.db"]


# What was folded or deleted is gone from the store's file, not only from its tables
METRIC = next(iter(parse_registry(EXAMPLE).values()))
DAY = 86_400
PERIOD = 20_000
NOW = (PERIOD + 1) * DAY


def filled(path, rng):
    columns = []
    built = METRIC.mechanism
    shape = built.digest, built.payload_bits, built.num_cohorts, 40, bytes(80)
    with open_store(str(path), parse_registry(EXAMPLE), create=True) as store:
        for _ in range(60):
            bits = bytes(rng.randrange(3) for _ in range(40))
            columns.append(bits)
            store.add([Received(METRIC.id, PERIOD, rng.randbytes(16), *shape, bits, NOW, NOW)])
    connection = sqlite3.connect(path)
    ids = ids_in_file(connection)
    connection.close()
    return columns, ids


def found(path, traces):
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    return sum(trace in content for trace in traces)


def test_the_order_in_which_reports_came_is_gone_from_the_file_once_they_are_folded(tmp_path):
    path = tmp_path / "store.db"
    columns, _ = filled(path, random.Random(3))
    assert found(path, columns) == 60
    with open_store(str(path)) as store:
        assert store.compact(NOW - DAY).reports == 2400
    assert found(path, columns) == 0


def test_ids_that_were_forgotten_are_gone_from_the_file(tmp_path):
    path = tmp_path / "store.db"
    _, ids = filled(path, random.Random(3))
    assert found(path, ids) == 60
    with open_store(str(path)) as store:
        assert store.compact(NOW + 40 * DAY).forgotten == 60
    assert found(path, ids) == 0


@pytest.mark.skipif(os.name == "nt", reason="file modes")
def test_a_store_and_its_backup_are_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        with open_store(str(tmp_path / "store.db"), create=True) as store:
            store.add_token("write", "editor")
            store.backup(tmp_path / "backup.db")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"store.db", "store.db-wal", "backup.db"} <= set(modes)
    assert set(modes.values()) == {0o600}
