"""What a device's disk holds: of no oracle the value, nor what it is encoded as, whenever the device is killed."""

import contextlib
import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from overstory.client import Client
from overstory.client.state.rows import Bounds, Outbox, Rows
from overstory.privacy.payloads.base import terms_of
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import REGISTRY as ORACLES
from overstory.protocol.metrics import RegistryError, load_registry, parse_registry
from support.privacy_cases import toml_parameters
from support.processes import in_child
from support.registry_texts import plain_registry

NAMES = [f"forest-secret-{number:03}" for number in range(256)]
VALUES = [NAMES[137], NAMES[9], NAMES[137]]
WITHOUT_F = "{f = 0.0, p = 0.25, q = 0.75, num_bits = 256}"
DOMAINS = (f'{{kind = "categories", names = {NAMES}}}', '{kind = "strings", candidates = "unread.txt"}')


def toml_of(oracle, parameters=None):
    """The registry of one metric of an oracle, by the first domain that it takes."""
    for domain in DOMAINS:
        given = parameters or toml_parameters(oracle)
        text = plain_registry("m", oracle=f'"{oracle}"', parameters=given, domain=domain)
        with contextlib.suppress(RegistryError):
            parse_registry(text)
            return text
    raise AssertionError(oracle)


def traces(values):
    """Every form of a value that its bytes could be found by."""
    for value in set(values):
        plain = value.encode()
        yield from (plain, value.encode("utf-16-le"), plain.hex().encode(), plain[::-1])
        one_hot = 1 << NAMES.index(value)
        for order in ("little", "big"):
            yield one_hot.to_bytes(32, order)


def leaks(folder, values):
    """The files that hold one of these traces; the public registry, which names all values alike, is what it was."""
    public = {"version": 1, "name": "t", "registry": folder.with_name("metrics.toml").read_text("utf-8")}
    assert json.loads((folder / "application.json").read_text("utf-8")) == public
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "application.json"]
    return [path.name for path in files for trace in traces(values) if trace in path.read_bytes()]


def killed(folder, text, moment):
    """A device that reports its values on days of their own, in a process that is killed."""
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
