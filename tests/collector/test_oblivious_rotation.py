"""Keys over time: what doctor says of a rotation, and a collector that reads its keys again while it serves."""

from __future__ import annotations

import os
import signal
import time
from http.client import HTTPConnection

import pytest

from overstory.cli.main import main
from overstory.collector.checkup import check_keys
from overstory.collector.oblivious.keys import add_key, public_line, read_private_keys, remove_key
from overstory.protocol.metrics import parse_registry
from overstory.protocol.oblivious.messages import REQUEST_TYPE
from support.collector_processes import CollectorProcess
from support.sealed_reports import KEYS, METRICS, REGISTRY, opened, seal, upload, write_files


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "oblivious.keys"
    add_key(made)
    return made


def findings(path, keys=None, text=REGISTRY):
    keys = read_private_keys(path) if keys is None else keys
    registry = parse_registry(text.replace(public_line(KEYS), public_line(keys)))
    return [f"{finding.level}: {finding.detail}" for finding in check_keys(registry, path)]


def test_a_rotation_step_by_step(path):
    first = read_private_keys(path)
    assert [line.partition(":")[0] for line in findings(path)] == ["ok"]
    both = add_key(path)
    assert findings(path, first) == [
        f"warning: key 2, the newest of {path}, is not in the registry: no device uses it",
        f"ok: {path} opens what is sealed for the registry's keys: 1",
    ]
    assert findings(path) == [f"ok: {path} opens what is sealed for the registry's keys: 2, 1"]
    assert findings(path, both[1:]) == [
        f"warning: key 1 of {path} is no longer in the registry",
        f"ok: {path} opens what is sealed for the registry's keys: 2",
    ]
    remove_key(path, 1)
    assert findings(path) == [f"ok: {path} opens what is sealed for the registry's keys: 2"]


def test_keys_that_cannot_be_opened_are_errors(path):
    both = add_key(path)
    remove_key(path, 1)
    (line, *_) = findings(path, both)
    assert line.startswith("error: the registry lists key 1 (")
    assert line.endswith("no key of this id")
    assert "another key of this id" in findings(path, KEYS)[0]


def test_an_earlier_key_that_is_listed_first_is_a_warning(path):
    both = add_key(path)
    assert "warning: the registry lists key 1 first: devices use it" in findings(path, both[::-1])


def test_an_oblivious_metric_without_a_file_and_a_file_without_a_route(path):
    (finding,) = check_keys(METRICS, None)
    assert (finding.level, "hidden, other" in finding.detail) == ("warning", True)
    direct = REGISTRY.split("[oblivious]")[0].replace('transport = "oblivious"\n', "")
    (line,) = findings(path, text=direct)
    assert "has no table [oblivious]" in line
    assert list(check_keys(parse_registry(direct), None)) == []


def test_doctor_compares_the_registry_with_the_file(tmp_path, capsys):
    registry, keys = write_files(tmp_path)
    arguments = ["doctor", "--registry", str(registry), "--oblivious-keys", str(keys)]
    assert main(arguments) == 0
    assert f"ok       oblivious keys: {keys} opens what is sealed" in capsys.readouterr().out
    remove_key(keys, 1)
    assert main(arguments) == 1
    assert "error    oblivious keys: the registry lists key 1 (" in capsys.readouterr().out
    keys.chmod(0o644)
    assert main(arguments) == 1
    assert f"chmod 600 {keys}" in capsys.readouterr().out


def post(collector, sealed):
    connection = HTTPConnection(*collector.address, timeout=30)
    try:
        connection.request("POST", "/v1/oblivious", sealed.body, {"Content-Type": REQUEST_TYPE})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_serving_collector_reads_its_keys_again(tmp_path):
    """The earlier key opens until it is removed, and a file that cannot be used changes nothing."""
    registry, keys = write_files(tmp_path)
    options = ("--open-writes", "--oblivious-keys", str(keys))
    collector = CollectorProcess(registry, str(tmp_path / "store.db"), options)
    collector.start()
    now = METRICS["hidden"].period.number(time.time())

    def status(key):
        sealed = seal(upload(period=now), key=key)
        outer, body = post(collector, sealed)
        return outer if outer != 200 else opened(sealed, body)[0].status

    def reloaded_to(expected):
        os.kill(collector.pid, signal.SIGHUP)
        deadline = time.monotonic() + 30
        while [status(key) for key in KEYS] != expected:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    try:
        assert [status(key) for key in KEYS] == [200, 200]
        keys.chmod(0o644)
        os.kill(collector.pid, signal.SIGHUP)
        time.sleep(0.5)
        assert [status(key) for key in KEYS] == [200, 200]
        keys.chmod(0o600)
        remove_key(keys, 1)
        reloaded_to([400, 200])
    finally:
        assert collector.stop() == 0
