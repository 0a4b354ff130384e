"""`overstory serve` as a process: it drains, refuses, rotates tokens, stays small, and says nothing about anybody."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx
import pytest

from overstory.collector.auth import sha256
from overstory.collector.store import open_store
from support.collector_in_process import METRICS, REGISTRY, batch_id
from support.collector_in_process import upload as upload_of
from support.collector_processes import CollectorProcess
from support.running import overstory
from support.served import Wire, post
from support.store_samples import ids_in_file

BLOOM = METRICS["bloom"]


def upload(batch: bytes | None = None) -> bytes:
    return upload_of(period=BLOOM.period.number(time.time()), batch=batch)


@pytest.fixture
def registry(tmp_path):
    path = tmp_path / "metrics.toml"
    path.write_text(REGISTRY)
    return path


def running(registry, *options, store=None):
    return CollectorProcess(registry, str(store or registry.parent / "store.db"), options)


def get(address, path: str, **headers: str):
    """Status, headers and body of a page."""
    answer = httpx.get("http://{}:{}".format(*address) + path, headers=headers, trust_env=False)
    return answer.status_code, answer.headers, answer.content


def test_a_signal_under_load_loses_nothing_that_was_acknowledged_and_it_is_not_ready_until_its_end(registry) -> None:
    acknowledged, refused = [], []

    def load(address) -> None:
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

    with running(registry, "--open-writes", "--grace", "1") as process:
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
    with open_store(str(registry.parent / "store.db"), METRICS) as store:
        kept = sum(counts.num_reports for counts in store.counts(BLOOM, 0, 1 << 30).values())
        with closing(sqlite3.connect(registry.parent / "store.db")) as raw:
            known = ids_in_file(raw)
    assert len(acknowledged) > 50
    assert set(known) >= set(acknowledged)
    assert kept == len(known)
    assert refused
    assert all(status == 503 and int(after) > 0 for status, after in refused)


def test_a_full_queue_refuses_and_what_it_holds_is_kept(registry) -> None:
    with running(registry, "--open-writes", "--queue-reports", "4", "--compact-every", "0") as process:
        locked = sqlite3.connect(registry.parent / "store.db", isolation_level=None)
        locked.execute("BEGIN IMMEDIATE")  # the writer waits for it
        waiting = [Wire(process.address).send(post(upload())) for _ in range(4)]
        time.sleep(0.5)
        with Wire(process.address) as wire:
            status, headers, body = wire.send(post(upload())).answer()
        assert (status, json.loads(body)["reason"]) == (429, "queue-full")
        assert int(headers["retry-after"]) > 0
        locked.execute("ROLLBACK")
        locked.close()
        assert [wire.answer()[0] for wire in waiting] == [200] * 4
        for wire in waiting:
            wire.close()


def test_tokens_rotate_while_it_runs(registry) -> None:
    store_file = str(registry.parent / "store.db")
    with open_store(store_file, METRICS, create=True) as store, running(registry, store=store_file) as process:

        def status(token: str) -> int:
            with Wire(process.address) as wire:
                return wire.send(post(upload(), b"Authorization: Bearer " + token.encode())).answer()[0]

        def becomes(token: str, wanted: int) -> bool:
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


@contextmanager
def spoken(registry, *options: str):
    """The process itself, its first line, and what it says on both streams once it has ended."""
    command = [sys.executable, "-m", "overstory", "serve", "--registry", str(registry), "--port", "0", "--grace", "0"]
    command += ["--store", str(registry.parent / "store.db"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first, said = process.stdout.readline(), []
        try:
            yield first, said
        finally:
            process.send_signal(signal.SIGINT)
            said += process.communicate(timeout=20)
    assert process.returncode == 0


def test_nothing_about_a_sender_is_logged_or_stored(registry) -> None:
    marks = [b"Trackable-Agent/7", b"203.0.113.77", b"a-very-personal-cookie"]
    more = (b"User-Agent: " + marks[0], b"X-Forwarded-For: " + marks[1], b"Cookie: " + marks[2])
    page = b"GET /trackable-page HTTP/1.1\r\nHost: c\r\n" + b"\r\n".join(more) + b"\r\n\r\n"
    requests = {post(upload(), *more): 200, post(b"nonsense", *more): 400, page: 404, b"nonsense " + marks[0]: 400}
    with spoken(registry, "--open-writes") as (first, said):
        address = "127.0.0.1", int(first.rpartition(":")[2])
        for request, status in requests.items():
            with Wire(address) as wire:
                assert wire.send(request).answer()[0] == status
    assert said[0] == ""
    words = [line.split()[1:5] for line in said[1].splitlines()]
    assert [" ".join(first) for first in words] == [
        "info there is no",
        "info overstory 0.2.0.dev0 serves",
        "info stopping: reports are",
        "info stopped: everything that",
    ]
    assert not [mark for mark in [*marks, b"trackable-page"] if mark.decode() in said[1]]
    files = b"".join(path.read_bytes() for path in registry.parent.glob("store.db*"))
    assert files
    assert not [mark for mark in [*marks, b"trackable-page", b"127.0.0.1"] if mark in files]


def refused(registry, *options: str) -> str:
    """What the command says when it cannot serve."""
    done = overstory("serve", "--registry", registry, *options, cwd=registry.parent)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_it_says_why_it_cannot_serve(registry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "in use" in refused(registry, "--store", "store.db", "--port", port)
    assert "no folder" in refused(registry, "--store", "nowhere/store.db")
    assert "belong together" in refused(registry, "--store", "store.db", "--tls-key", "key.pem")
    assert "no such file" in refused(
        registry, "--store", "store.db", "--tls-key", "key.pem", "--tls-certificate", "certificate.pem"
    )
    assert "certificate and key" in refused(
        registry, "--store", "store.db", "--tls-key", str(registry), "--tls-certificate", str(registry)
    )
    assert "cannot listen on" in refused(registry, "--store", "store.db", "--host", "192.0.2.1")
    registry.write_text("registry = 1")
    assert "metrics.toml" in refused(registry, "--store", "store.db")


def test_a_public_address_without_tls_is_warned_of(registry) -> None:
    with spoken(registry, "--host", "0.0.0.0") as (first, said):
        assert first.startswith("listening on http://0.0.0.0:")
    assert "there is no TLS" in said[1]
