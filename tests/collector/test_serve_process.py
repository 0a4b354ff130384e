"""`overstory serve` as a process: it drains, refuses, reloads, says what an operator needs, and nothing of senders."""

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
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from overstory.collector.auth import sha256
from overstory.collector.store import open_store
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.upload import Upload, encode_reports, encode_upload
from overstory.supervision.listening import Listening, ServingError
from support.collector_in_process import ABOUT, METRICS, REGISTRY, batch_id, sound
from support.listening_process import ListeningProcess
from support.misfortunes import until
from support.processes import make_certificate
from support.registry_texts import metric_table
from support.running import overstory
from support.served import Wire, post
from support.store_samples import ids_in_file

BLOOM = METRICS["bloom"]
MORE = metric_table("second", **ABOUT, domain='{kind = "categories", names = ["yes", "no"]}')
BOTH = parse_registry(REGISTRY + MORE)


def upload(name="bloom", batch=None):
    metric = BOTH[name]
    reports = encode_reports(metric.mechanism, sound(metric, 1))
    return encode_upload(Upload(batch or batch_id(), name, metric.period.number(time.time()), reports))


class Serving(ListeningProcess):
    def __init__(self, folder, *options):
        self.said, self.log_file, self.options = [], folder / "log", options

    def command(self):
        return [sys.executable, "-m", "overstory", "serve", *self.options]

    def log(self):
        return self.log_file.read_text()

    def hang_up(self, said):
        before = len(self.log())
        os.kill(self.pid, signal.SIGHUP)
        until(lambda: said in self.log()[before:])


@contextmanager
def serving(folder, *options, writes=("--open-writes",), **environ):
    if not (folder / "metrics.toml").exists():
        (folder / "metrics.toml").write_text(REGISTRY)
    plain = "--registry", "metrics.toml", "--store", "store.db", "--port", "0", *writes, "OVERSTORY_GRACE=0"
    running = Serving(folder, *(plain if not environ else ()), *options)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OVERSTORY")}
    running.start(running.log_file, env=clean | environ, cwd=folder)
    try:
        yield running
    finally:
        running.kill()


def get(address, path, **headers):
    answer = httpx.get("http://{}:{}".format(*address) + path, headers=headers, trust_env=False)
    return answer.status_code, answer.headers, answer.content


def test_a_signal_under_load_loses_nothing_that_was_acknowledged_and_it_is_not_ready_until_its_end(tmp_path):
    acknowledged, refused = [], []

    def load(address):
        try:
            with Wire(address) as wire:
                while True:
                    batch = batch_id()
                    status, headers, _ = wire.send(post(upload(batch=batch))).answer()
                    if status == 200:
                        acknowledged.append(batch)
                    else:
                        refused.append((status, headers.get("retry-after")))
                        time.sleep(0.02)
        except (OSError, AssertionError):
            return  # it has ended

    with serving(tmp_path, "OVERSTORY_GRACE=1") as process:
        address = process.address
        threads = [threading.Thread(target=load, args=(address,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        assert get(address, "/readyz")[0] == 200
        with ThreadPoolExecutor(1) as ending:
            ended = ending.submit(process.stop)
            time.sleep(0.3)
            status, headers, body = get(address, "/readyz")
            assert (status, json.loads(body)["reason"]) == (503, "closing")
            assert int(headers["retry-after"]) > 0
            assert get(address, "/healthz")[0] == 200
            assert ended.result(60) == 0
        for thread in threads:
            thread.join(10)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=1)
    with open_store(str(tmp_path / "store.db"), METRICS) as store:
        kept = sum(counts.num_reports for counts in store.counts(BLOOM, 0, 1 << 30).values())
        with closing(sqlite3.connect(tmp_path / "store.db")) as raw:
            known = ids_in_file(raw)
    assert len(acknowledged) > 50
    assert set(known) >= set(acknowledged)
    assert kept == len(known)
    assert refused
    assert all(status == 503 and int(after) > 0 for status, after in refused)


def test_tokens_rotate_while_it_runs(tmp_path):
    with open_store(str(tmp_path / "store.db"), METRICS, create=True) as store, serving(tmp_path, writes=()) as process:

        def status(token):
            with Wire(process.address) as wire:
                return wire.send(post(upload(), b"Authorization: Bearer " + token.encode())).answer()[0]

        def becomes(token, wanted):
            return any(status(token) == wanted or time.sleep(0.2) for _ in range(40))

        with Wire(process.address) as wire:
            assert wire.send(post(upload())).answer()[0] == 401
        old = store.add_token("write", "app")
        assert becomes(old, 200)
        new = store.add_token("write", "app")
        assert becomes(new, 200)
        assert status(old) == 200
        store.revoke_token(next(token.id for token in store.tokens() if token.sha256 == sha256(old)))
        assert becomes(old, 401)
        assert status(new) == 200
        assert get(process.address, "/v1/metrics/bloom/counts", Authorization=f"Bearer {new}")[0] == 401
        admin = {"Authorization": f"Bearer {store.add_token('admin', 'ops')}"}
        assert any(
            get(process.address, "/v1/metrics/bloom/counts", **admin)[0] == 200 or time.sleep(0.2) for _ in range(40)
        )


def test_nothing_about_a_sender_is_logged_or_stored(tmp_path):
    marks = [b"Trackable-Agent/7", b"203.0.113.77", b"a-very-personal-cookie"]
    more = (b"User-Agent: " + marks[0], b"X-Forwarded-For: " + marks[1], b"Cookie: " + marks[2])
    page = b"GET /trackable-page HTTP/1.1\r\nHost: c\r\n" + b"\r\n".join(more) + b"\r\n\r\n"
    requests = {post(upload(), *more): 200, post(b"nonsense", *more): 400, page: 404, b"nonsense " + marks[0]: 400}
    with serving(tmp_path) as running:
        for request, status in requests.items():
            with Wire(running.address) as wire:
                assert wire.send(request).answer()[0] == status
        assert running.stop() == 0
    assert [line.startswith("listening on ") for line in running.said] == [True]
    words = [line.split()[1:5] for line in running.log().splitlines()]
    assert [" ".join(first) for first in words] == [
        "info there is no",
        "info overstory 0.2.0.dev0 serves",
        "info stopping: reports are",
        "info stopped: everything that",
    ]
    assert not [mark for mark in [*marks, b"trackable-page"] if mark.decode() in running.log()]
    files = b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    assert files
    assert not [mark for mark in [*marks, b"trackable-page", b"127.0.0.1"] if mark in files]


@pytest.mark.parametrize("host", ["\udcff", "9" * 5000, "a\u202eb", "x" * 64 + ".example"])
def test_a_host_that_no_name_can_be_is_said(host):
    with pytest.raises(ServingError, match="cannot listen on"):
        Listening(host, 0).bind()


def test_it_says_why_it_cannot_serve(tmp_path):
    (registry := tmp_path / "metrics.toml").write_text(REGISTRY)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for options, says in (
            (("--port", taken.getsockname()[1]), "in use"),
            (("--host", "192.0.2.1"), "cannot listen on"),
            (("OVERSTORY_TLS_KEY=a.pem", "OVERSTORY_TLS_CERTIFICATE=a.pem"), "no such file"),
            ((f"OVERSTORY_TLS_KEY={registry}", f"OVERSTORY_TLS_CERTIFICATE={registry}"), "certificate and key"),
        ):
            ran = overstory("serve", "--registry", registry, "--store", "s.db", *options, cwd=tmp_path)
            assert (ran.returncode, says in ran.stderr, "Traceback" in ran.stderr) == (2, True, False)


def test_a_public_address_without_tls_is_warned_of(tmp_path):
    with serving(tmp_path, "--host", "0.0.0.0") as running:
        assert running.said[0].startswith("listening on http://0.0.0.0:")
        assert "there is no TLS" in running.log()


def status(wire, name):
    return wire.send(post(upload(name))).answer()[0]


def page(wire, path, accept="*/*"):
    return wire.send(f"GET {path} HTTP/1.1\r\nHost: c\r\nAccept: {accept}\r\n\r\n".encode()).answer()


def test_the_log_says_when_it_started_reloaded_and_stopped_and_what_matters(tmp_path):
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
def test_a_store_that_lost_its_file_acknowledges_nothing_and_the_last_line_says_so(tmp_path, how):
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
            code, headers, answer = wire.send(post(upload())).answer()
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


def test_a_reload_changes_the_registry_and_loses_no_request(tmp_path):
    with serving(tmp_path) as running:
        seen = []
        ended = threading.Event()

        def load():
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
    (changed,) = [line for line in running.log().splitlines() if line.endswith("7 metrics, changed")]
    assert f"info reloaded: registry 2026-11-21 (digest {BOTH.digest.hex()})" in changed
    with open_store(str(tmp_path / "store.db"), BOTH) as store:
        kept = sum(counts.num_reports for counts in store.counts(BOTH["bloom"], 0, 1 << 30).values())
        assert kept == len(seen)
        assert [counts.num_reports for counts in store.counts(BOTH["second"], 0, 1 << 30).values()] == [1]


def test_a_broken_registry_leaves_the_old_one_and_the_log_says_why(tmp_path):
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
def test_a_reload_serves_a_new_certificate_and_keeps_the_old_one_for_a_broken_one(tmp_path):
    def certify(name):
        return ssl.PEM_cert_to_DER_cert(make_certificate(tmp_path, name=name).read_text())

    def served_certificate():
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(running.address))

    first = certify("one")
    with serving(tmp_path, "OVERSTORY_TLS_CERTIFICATE=certificate.pem", "OVERSTORY_TLS_KEY=key.pem") as running:
        assert served_certificate() == first
        trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
        plain = socket.create_connection(running.address, timeout=10)
        with trusted.wrap_socket(plain, server_hostname="localhost") as wire:
            wire.sendall(post(upload()))
            assert wire.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        second = certify("two")
        assert served_certificate() == first
        running.hang_up("reloaded")
        until(lambda: served_certificate() == second)
        (tmp_path / "key.pem").write_text("no key")
        running.hang_up("the certificate is unchanged: certificate.pem: no certificate and key that belong together")
        assert served_certificate() == second


def test_a_password_need_not_be_on_the_command_line_and_is_warned_of_there(tmp_path):
    options = {"OVERSTORY_REGISTRY": "metrics.toml", "OVERSTORY_PORT": "0", "OVERSTORY_OPEN_WRITES": "1"}
    with serving(tmp_path, OVERSTORY_STORE="store.db", **options) as running, Wire(running.address) as wire:
        assert status(wire, "bloom") == 200
        assert "store.db" not in Path(f"/proc/{running.pid}/cmdline").read_text()
    for url in ("postgresql://me:geheim@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db?user=me&password=geheim"):
        done = overstory("serve", "--registry", "metrics.toml", "--store", url, cwd=tmp_path)
        assert done.returncode == 2
        assert "warning the password in --store is visible in the list of processes" in done.stderr
        assert "geheim" not in done.stderr


def test_a_second_collector_on_one_file_is_refused_until_the_first_is_dead(tmp_path):
    def second():
        files = "--registry", "metrics.toml", "--store", "store.db"
        return overstory("serve", *files, "--port", 0, cwd=tmp_path)

    def kept_days():
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
