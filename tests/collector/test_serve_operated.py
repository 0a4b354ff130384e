"""`overstory serve` as an operator meets it: log lines, reload, one process on a file (FINDINGS A16)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from overstory.cli.main import main
from overstory.collector.server import metrics_on_port
from overstory.collector.store import open_store
from overstory.collector.telemetry import Telemetry
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.upload import Upload, encode_reports, encode_upload
from overstory.supervision.listening import ServingError
from support.collector_in_process import ABOUT, REGISTRY, batch_id, sound
from support.listening_process import ListeningProcess
from support.misfortunes import until
from support.processes import make_certificate
from support.registry_texts import metric_table
from support.running import overstory
from support.served import Wire, post

MORE = metric_table("second", **ABOUT, domain='{kind = "categories", names = ["yes", "no"]}')
BOTH = parse_registry(REGISTRY + MORE)


class Serving(ListeningProcess):
    """A collector in a process of its own, and its log."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.said, self.log_file, self.options = [], folder / "log", options

    def command(self) -> list[str]:
        return [sys.executable, "-m", "overstory", "serve", *self.options]

    def log(self) -> str:
        return self.log_file.read_text()

    def hang_up(self, said: str) -> None:
        """Send SIGHUP, and wait until the log says what came of it."""
        before = len(self.log())
        os.kill(self.pid, signal.SIGHUP)
        until(lambda: said in self.log()[before:])


@contextmanager
def serving(folder: Path, *options: str, **environ: str) -> Iterator[Serving]:
    if not (folder / "metrics.toml").exists():
        (folder / "metrics.toml").write_text(REGISTRY)
    plain = "--registry", "metrics.toml", "--store", "store.db", "--port", "0", "--open-writes", "--grace", "0"
    running = Serving(folder, *(plain if not environ else ()), *options)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OVERSTORY")}
    running.start(running.log_file, env=clean | environ, cwd=folder)
    try:
        yield running
    finally:
        running.kill()


def body(name: str = "bloom") -> bytes:
    metric = BOTH[name]
    reports = encode_reports(metric.mechanism, sound(metric, 1))
    return encode_upload(Upload(batch_id(), name, metric.period.number(time.time()), reports))


def status(wire: Wire, name: str) -> int:
    return wire.send(post(body(name))).answer()[0]


def page(wire: Wire, path: str, accept: str = "*/*") -> tuple[int, dict[str, str], bytes]:
    return wire.send(f"GET {path} HTTP/1.1\r\nHost: c\r\nAccept: {accept}\r\n\r\n".encode()).answer()


def test_prometheus_has_a_port_of_its_own_without_a_token_and_with_nothing_else(tmp_path) -> None:
    with serving(tmp_path, "--metrics-port", "0") as running:
        (port,) = re.findall(r"metrics for Prometheus on http://127\.0\.0\.1:(\d+)/metrics", running.log())
        with Wire(running.address) as wire:
            assert status(wire, "bloom") == 200
        with Wire(("127.0.0.1", int(port))) as wire:
            wire.send(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert wire.head()[0] == 200
            shown = wire.rest()
        assert b'overstory_reports_accepted_total{metric="bloom"} 1.0' in shown
        assert b"overstory_commit_seconds_bucket{" in shown
        with Wire(("127.0.0.1", int(port))) as wire:
            assert wire.send(post(body())).head()[0] == 405, "it takes no reports"
        taken = rf"cannot listen on 127\.0\.0\.1:{port} for metrics: "
        with pytest.raises(ServingError, match=taken), metrics_on_port(Telemetry(), "127.0.0.1", int(port)):
            pass
        assert running.stop() == 0


def test_the_check_of_a_container_reads_the_settings_of_the_collector(tmp_path, capsys, monkeypatch) -> None:
    def checked(*options: str) -> tuple[int, str]:
        status = main(["serve", "--check", "--registry", "metrics.toml", "--store", "store.db", *options])
        return status, capsys.readouterr().err

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(tmp_path) as running:
        port = running.address[1]
        monkeypatch.setenv("OVERSTORY_PORT", str(port))
        assert checked() == checked("--host", "0.0.0.0") == (0, "")
        assert running.stop() == 0
    status, said = checked()
    assert (status, said.count("\n")) == (1, 1)
    assert said.startswith(f"overstory: http://127.0.0.1:{port}/readyz: ")
    assert checked("--port", "0") == (2, "overstory: error: --check needs the collector's port, and --port is 0\n")


def test_the_log_says_when_it_started_reloaded_and_stopped_and_what_matters(tmp_path) -> None:
    with serving(tmp_path) as running:
        port = running.address[1]
        running.hang_up("reloaded")
        assert running.stop() == 0
    stamped = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (info|warning|error) (.*)")
    lines = [match.groups() for line in running.log().splitlines() if (match := stamped.fullmatch(line))]
    assert len(lines) == len(running.log().splitlines()) == 5
    digest = parse_registry(REGISTRY).digest.hex()
    assert lines[0] == ("info", "there is no store yet: creating it")
    for part in ("overstory 0.2.0.dev0", f"127.0.0.1:{port}", f"digest {digest}", "sqlite:///store.db"):
        assert part in lines[1][1]
    assert lines[2][1] == f"reloaded: registry 2026-11-21 (digest {digest}), 6 metrics, as before"
    assert lines[3][1].startswith("stopping: reports are refused")
    assert lines[4][1] == "stopped: everything that was acknowledged is in the store"


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_store_that_lost_its_file_acknowledges_nothing_and_the_last_line_says_so(tmp_path, how) -> None:
    path = tmp_path / "store.db"
    with serving(tmp_path) as running, Wire(running.address) as wire:
        assert status(wire, "bloom") == 200
        if how == "replaced":
            open_store(str(tmp_path / "other.db"), create=True).close()
            (tmp_path / "other.db").replace(path)
        elif how == "moved":
            path.rename(tmp_path / "moved.db")
        else:
            path.unlink()
        for _ in range(20):
            code, headers, answer = wire.send(post(body())).answer()
            assert (code, json.loads(answer)["reason"]) == (503, "store")
            assert int(headers["retry-after"]) > 0
        until(lambda: page(wire, "/readyz")[0] == 503)
        if how == "moved":
            (tmp_path / "moved.db").rename(path)
            until(lambda: status(wire, "bloom") == 200)
            until(lambda: page(wire, "/readyz")[0] == 200)
        assert running.stop() == 0
    lost = "error stopped: reports that were acknowledged are missing from the store: sqlite:///store.db was deleted, "
    lost += "moved or replaced while the collector ran"
    kept = "info stopped: everything that was acknowledged is in the store"
    assert running.log().splitlines()[-1].endswith(kept if how == "moved" else lost)


def test_a_reload_changes_the_registry_and_loses_no_request(tmp_path) -> None:
    with serving(tmp_path, "--log-format", "json") as running:
        seen: list[int] = []
        ended = threading.Event()

        def load() -> None:
            with Wire(running.address) as wire:
                while not ended.is_set():
                    seen.append(status(wire, "bloom"))

        senders = [threading.Thread(target=load) for _ in range(4)]
        for sender in senders:
            sender.start()
        with Wire(running.address) as wire:
            assert status(wire, "second") == 404
            assert b'"second"' not in page(wire, "/v1/metrics")[2]
            (tmp_path / "metrics.toml").write_text(REGISTRY + MORE)
            running.hang_up("reloaded")
            assert status(wire, "second") == 200  # on the same connection
            assert b'"second"' in page(wire, "/v1/metrics")[2]
            assert page(wire, "/v1/metrics/second")[0] == 200
            assert b'id="second"' in page(wire, "/")[2]
            for _ in range(5):
                running.hang_up("reloaded")
        ended.set()
        for sender in senders:
            sender.join(10)
        assert len(seen) > 20
        assert set(seen) == {200}
        assert running.stop() == 0
    lines = [json.loads(line) for line in running.log().splitlines()]
    assert [line["event"] for line in lines if "event" in line][:2] == ["start", "reload"]
    first = next(line for line in lines if line.get("event") == "reload")
    assert (first["level"], first["changed"], first["metrics"]) == ("info", True, 7)
    assert first["digest"] == BOTH.digest.hex()
    with open_store(str(tmp_path / "store.db"), BOTH) as store:
        kept = sum(counts.num_reports for counts in store.counts(BOTH["bloom"], 0, 1 << 30).values())
        assert kept == len(seen)
        assert [counts.num_reports for counts in store.counts(BOTH["second"], 0, 1 << 30).values()] == [1]


def test_a_broken_registry_leaves_the_old_one_and_the_log_says_why(tmp_path) -> None:
    with serving(tmp_path) as running, Wire(running.address) as wire:
        (tmp_path / "metrics.toml").write_text(REGISTRY.replace('oracle = "rappor"', 'oracle = "rapor"'))
        running.hang_up("error reload: the registry is unchanged: metrics.toml")
        assert status(wire, "bloom") == 200
        other_periods = REGISTRY.replace('period = "day"', 'period = "week"')
        (tmp_path / "metrics.toml").write_text(other_periods)
        running.hang_up("is unchanged: sqlite:///store.db: bloom was collected by day")
        assert status(wire, "bloom") == 200
        (tmp_path / "metrics.toml").unlink()
        running.hang_up("No such file")
        assert status(wire, "bloom") == 200
        assert "Traceback" not in running.log()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_a_reload_serves_a_new_certificate_and_keeps_the_old_one_for_a_broken_one(tmp_path) -> None:
    def certify(name: str) -> bytes:
        return ssl.PEM_cert_to_DER_cert(make_certificate(tmp_path, name=name).read_text())

    def served_certificate() -> bytes:
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(running.address))

    first = certify("one")
    with serving(tmp_path, "--tls-certificate", "certificate.pem", "--tls-key", "key.pem") as running:
        assert served_certificate() == first
        trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
        plain = socket.create_connection(running.address, timeout=10)
        with trusted.wrap_socket(plain, server_hostname="localhost") as wire:
            wire.sendall(post(body()))
            assert wire.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        second = certify("two")
        assert served_certificate() == first
        running.hang_up("reloaded")
        until(lambda: served_certificate() == second)
        (tmp_path / "key.pem").write_text("no key")
        running.hang_up("the certificate is unchanged: certificate.pem: no certificate and key that belong together")
        assert served_certificate() == second


def test_a_password_need_not_be_on_the_command_line_and_is_warned_of_there(tmp_path) -> None:
    options = {"OVERSTORY_REGISTRY": "metrics.toml", "OVERSTORY_PORT": "0", "OVERSTORY_OPEN_WRITES": "1"}
    with serving(tmp_path, OVERSTORY_STORE="store.db", **options) as running, Wire(running.address) as wire:
        assert status(wire, "bloom") == 200
        assert "store.db" not in Path(f"/proc/{running.pid}/cmdline").read_text()
    for url in ("postgresql://me:geheim@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db?user=me&password=geheim"):
        done = overstory("serve", "--registry", "metrics.toml", "--store", url, cwd=tmp_path)
        assert done.returncode == 2
        assert "warning the password in --store is visible in the list of processes" in done.stderr
        assert "geheim" not in done.stderr


def test_a_second_collector_on_one_file_is_refused_until_the_first_is_dead(tmp_path) -> None:
    def second() -> Any:
        files = "--registry", "metrics.toml", "--store", "store.db"
        return overstory("serve", *files, "--port", 0, cwd=tmp_path)

    def kept_days() -> set[int]:
        with closing(sqlite3.connect(tmp_path / "store.db")) as raw:
            return {days for (days,) in raw.execute("SELECT retention_days FROM metrics")}

    with serving(tmp_path) as running:
        (tmp_path / "metrics.toml").write_text(REGISTRY.replace("retention_days = 90", "retention_days = 60"))
        done = second()
        assert done.returncode == 2
        assert kept_days() == {90}  # what was refused has changed nothing
        (tmp_path / "metrics.toml").write_text(REGISTRY)
        assert f"process {running.pid} serves this file already" in done.stderr
        assert "PostgreSQL" in done.stderr
        with open_store(str(tmp_path / "store.db")) as store:  # an operator's commands go on
            assert store.summary().kind == "sqlite"
        running.kill()
        with serving(tmp_path) as again, Wire(again.address) as wire:
            assert status(wire, "bloom") == 200
