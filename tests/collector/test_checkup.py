"""`overstory doctor`: each thing that can be wrong is one line that says what to do (FINDINGS A16: there was none)."""

from __future__ import annotations

import datetime as dt
import json
import resource
import shutil
import ssl
import time
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace

import pytest

from overstory.cli.main import main
from overstory.collector import checkup
from overstory.collector.store import Received, open_store
from overstory.protocol.metrics import parse_registry
from support.collector_in_process import METRICS, NOW, REGISTRY, FakeStore
from support.processes import make_certificate
from support.served import served

MIB = 1 << 20


def lines(findings) -> list[str]:
    return [f"{one.level} {one.check}: {one.detail}" for one in findings]


@pytest.mark.parametrize(("limit", "level"), [(100, "error"), (1024, "warning"), (65_536, "ok")])
def test_the_limit_of_open_files(limit, level, monkeypatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    (finding,) = checkup.check_files()
    assert (finding.level, "LimitNOFILE" in finding.do) == (level, level != "ok")


def test_metrics_that_expire() -> None:
    day = dt.datetime(2040, 1, 1, tzinfo=dt.UTC).timestamp()
    assert [one.level for one in checkup.check_registry(METRICS, day - 40 * 86_400)] == ["ok", "warning"]  # `ended`
    soon = list(checkup.check_registry(METRICS, day - 20 * 86_400))
    assert [one.detail for one in soon[1:3]] == ["bloom expires on 2040-01-01", "colour expires on 2040-01-01"]
    assert "bloom expired on 2040-01-01" in [one.detail for one in checkup.check_registry(METRICS, day)]


@pytest.fixture
def store_file(tmp_path) -> str:
    path = str(tmp_path / "store.db")
    with open_store(path, METRICS, create=True) as store:
        store.add_token("write", "app", int(NOW) + 5 * 86_400)
        metric = METRICS["colour"]
        columns = 2, 1, 1, b"\0\0", b"\1"
        ends = metric.period.start(20_779)
        report = Received("colour", 20_778, bytes(16), metric.mechanism.digest, *columns, int(NOW), ends)
        store.add([report])
    return path


def test_a_store_its_tokens_and_whether_the_registry_goes_with_it(store_file, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=9_000 * MIB))
    said = lines(checkup.check_store(store_file, METRICS, NOW))
    assert [line.split(":")[0] for line in said] == [
        "ok schema",
        "warning tokens",  # none for admins
        "warning tokens",  # one that ends
        "ok tokens",
        "ok registry and store",
        "ok disk",
    ]
    assert "(write, app) is refused from 2026-11-26 on" in said[2]
    changed = parse_registry(REGISTRY.replace("parameters = {epsilon = 1.0}", "parameters = {epsilon = 1.5}"))
    assert any(
        "colour: all stored reports were made with other" in line
        for line in lines(checkup.check_store(store_file, changed, NOW))
    )
    other = parse_registry(REGISTRY.replace("[metrics.colour]", "[metrics.hue]"))
    assert any("has reports of colour, which" in line for line in lines(checkup.check_store(store_file, other, NOW)))


@pytest.mark.parametrize(("free", "level"), [(50, "error"), (500, "warning"), (5_000, "ok")])
def test_room_on_the_disk(store_file, free, level, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free * MIB))
    assert f"{level} disk" in [line.split(":")[0] for line in lines(checkup.check_store(store_file, None, NOW))]


def test_a_clock_behind_the_store_and_a_store_that_others_may_read(store_file) -> None:
    with open_store(store_file) as store:
        store.compact(NOW)
    Path(store_file).chmod(0o644)
    said = lines(checkup.check_store(store_file, None, NOW - 40 * 86_400))
    assert "error clock: the store has seen 2026-11-21, this machine's clock shows 2026-10-12" in said
    assert any(line.startswith("warning store:") and "others may read it" in line for line in said)


@pytest.mark.parametrize("spoil", ["absent", "text", "other"])
def test_a_store_that_cannot_be_opened_is_an_error_that_says_what_to_do(store_file, spoil) -> None:
    if spoil == "text":
        Path(store_file).write_text("x" * 5_000)
    elif spoil == "absent":
        Path(store_file).unlink()
    else:
        with open_store(store_file) as store:
            store._database.write(
                lambda connection: connection.exec_driver_sql("UPDATE about SET value = '2' WHERE key = 'schema'")
            )
    (finding,) = checkup.guarded("store", lambda: checkup.check_store(store_file, None, NOW))
    assert finding.level == "error"
    assert {
        "absent": "overstory store create",
        "text": "not a SQLite database",
        "other": "reads and writes schema 1 alone",
    }[spoil] in finding.detail


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")


@needs_openssl
@pytest.mark.parametrize(("days", "level"), [(3, "warning"), (90, "ok"), (20_000, "ok")])
def test_a_certificate_s_end_is_read_and_judged(tmp_path, days, level) -> None:
    path = make_certificate(tmp_path, days=days)
    ends = ssl.cert_time_to_seconds(ssl._ssl._test_decode_cert(str(path))["notAfter"])  # type: ignore[attr-defined]
    assert [one.level for one in checkup.check_certificate(path, time.time())] == [level]
    (over,) = checkup.check_certificate(path, ends)
    assert (over.level, "SIGHUP" in over.do) == ("error", True)


def test_what_is_no_certificate(tmp_path) -> None:
    path = tmp_path / "certificate.pem"
    for raw in (b"", b"MIIB", b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", bytes(100)):
        path.write_bytes(raw)
        (finding,) = checkup.check_certificate(path, time.time())
        assert (finding.level, finding.detail) == ("error", f"{path}: no certificate in PEM")


def test_a_running_collector_its_clock_and_its_registry() -> None:
    with served(store=FakeStore()) as (_, (host, port)):
        url = f"http://{host}:{port}"
        said = lines(checkup.check_url(url, METRICS))
        assert [line.split(":")[0] for line in said] == ["ok collector", "ok clock", "ok served registry"]
        for ahead, level in ((300, "warning"), (-7_200, "error")):
            said = lines(checkup.check_url(url, METRICS, lambda ahead=ahead: time.time() + ahead))
            assert said[1].startswith(f"{level} clock: the clocks of this machine and of the collector are")
        other = parse_registry(REGISTRY.replace('title = "t"', 'title = "other"'))
        assert lines(checkup.check_url(url, other))[2].startswith("warning served registry")
    (gone,) = checkup.guarded("collector", lambda: checkup.check_url(url, METRICS))
    assert (gone.level, gone.check) == ("error", "collector")
    assert [one.level for one in checkup.check_url("collector.example", None)] == ["error"]


def test_an_answer_s_date_has_whole_seconds() -> None:
    assert checkup._compared_clocks(formatdate(1_000), 1_000.9, 1_000.95).level == "ok"
    assert checkup._compared_clocks(None, 0.0, 0.0).level == "warning"


def test_the_command_says_all_and_its_status_is_1_for_an_error(store_file, tmp_path, capsys, monkeypatch) -> None:
    for name in ("STORE", "REGISTRY", "CONFIG"):
        monkeypatch.delenv(f"OVERSTORY_{name}", raising=False)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65_536, 65_536))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=9_000 * MIB))
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    config = tmp_path / "serve.toml"
    config.write_text(f'store = "{store_file}"\nregistry = "{tmp_path}/metrics.toml"\n')
    config.chmod(0o600)
    assert main(["doctor", "--config", str(config)]) == 0
    assert "ok       disk: 9,000 MiB free" in capsys.readouterr().out
    assert main(["doctor", "--config", str(config), "--store", str(tmp_path / "none.db"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["errors"], [one["level"] for one in told["checks"] if one["check"] == "store"]) == (1, ["error"])
    config.write_text("stor = 1")
    config.chmod(0o644)
    assert main(["doctor", "--config", str(config)]) == 1
    said = capsys.readouterr().out
    assert "field stor: there is no such setting; did you mean store?" in said
    assert "warning  settings:" in said
