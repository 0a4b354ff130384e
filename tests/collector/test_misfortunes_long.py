"""Ten seconds of each misfortune to a collector under load; then everything goes on: posts, compaction, tokens, log.

A full and a read-only disk are file systems of their own, which root alone may mount: these two cases exist only there.
"""

import subprocess
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, text

from overstory.collector.store import open_store
from overstory.collector.store.upkeep import INBOX
from support.collector_in_process import METRICS, REGISTRY, batch_id, upload
from support.collector_processes import CollectorProcess
from support.misfortunes import EVERYWHERE, SECONDS, disk_for, may_mount, small_disk, unlucky, until
from support.running import overstory
from support.served import Wire, post
from support.store_databases import fresh

MIB = 1 << 20


class Senders:
    def __init__(self, address, token):
        self._address, self._header = address, b"Authorization: Bearer " + token.encode()
        self.acknowledged: set[bytes] = set()
        self.statuses: Counter[int] = Counter()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(4)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def _send(self):
        while not self._ended.is_set():
            batch = batch_id()
            body = upload(period=METRICS["bloom"].period.number(time.time()), batch=batch)
            while not self._ended.is_set():
                status = self.once(body)
                self.statuses[status] += 1
                if status == 200:
                    self.acknowledged.add(batch)
                    break
                time.sleep(0.05)
            time.sleep(0.05)

    def once(self, body):
        try:
            with Wire(self._address()) as wire:
                return wire.send(post(body, self._header)).answer()[0]
        except (OSError, AssertionError):
            return 0


def ready(address):
    try:
        with Wire(address) as wire:
            return wire.send(b"GET /readyz HTTP/1.1\r\nHost: c\r\n\r\n").answer()[0]
    except (OSError, AssertionError):
        return 0


@contextmanager
def file_away(pid, folder):
    (folder / "store.db").rename(folder / "away.db")
    yield
    (folder / "away.db").rename(folder / "store.db")


CASES = EVERYWHERE | {"file_away": file_away}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_after_ten_seconds_of_it_everything_goes_on(name, tmp_path):
    registry, folder = tmp_path / "metrics.toml", tmp_path / "disk"
    registry.write_text(REGISTRY)
    folder.mkdir()
    with disk_for(name, folder):
        _lives_through(CASES[name], registry, folder, f"sqlite:///{folder}/store.db")


@pytest.mark.slow
def test_after_ten_seconds_without_its_database_everything_goes_on(tmp_path, server_folder):
    registry = tmp_path / "metrics.toml"
    registry.write_text(REGISTRY)
    with fresh("postgresql", server_folder) as url, fresh("postgresql", server_folder) as beside:
        engine = create_engine(beside.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
        name = url.partition("?")[0].rpartition("/")[2]

        @contextmanager
        def away(_, __):
            end = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name")
            with engine.connect() as connection:
                connection.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'))
                connection.execute(end, {"name": name})
                yield
                connection.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'))

        try:
            _lives_through(away, registry, tmp_path, url)
        finally:
            engine.dispose()


def _lives_through(misfortune, registry, folder, url):
    at_once = "OVERSTORY_COMPACT_EVERY=0.5", "OVERSTORY_COMPACT_WITHIN=0"
    with open_store(url, METRICS, create=True) as store:
        token, other = store.add_token("write", "app"), store.add_token("write", "other")
        running = CollectorProcess(registry, url, at_once, unlucky(folder, "serve"))
        running.start()
        address = running.address
        drained = threading.Thread(target=lambda: [None for _ in running._process.stdout])  # type: ignore[union-attr]
        drained.start()
        try:
            with Senders(lambda: address, token) as senders:
                until(lambda: len(senders.acknowledged) > 50)
                until(lambda: not _inbox(store) or len(senders.acknowledged) > 5_000)
                with misfortune(running.pid, folder):
                    time.sleep(SECONDS)
                before = len(senders.acknowledged)
                until(lambda: len(senders.acknowledged) > before + 100)  # posts
            until(lambda: ready(address) == 200)
            until(lambda: not _inbox(store))  # compaction
            late = Senders(lambda: address, other)
            body = upload(period=METRICS["bloom"].period.number(time.time()), batch=batch_id())
            assert late.once(body) == 200
            for one in store.tokens():
                store.revoke_token(one.id)
            until(lambda: late.once(body) == 401, 30)  # tokens
            assert set(senders.statuses) <= {0, 200, 503}, senders.statuses  # nothing is refused for good
            if url.startswith("sqlite"):
                log = folder / "store.db-wal"
                until(lambda: not log.exists() or log.stat().st_size < 8 * MIB)
            assert running.stop() == 0
            drained.join(30)
            metric = METRICS["bloom"]
            kept = sum(counts.num_reports for counts in store.counts(metric, 0, 1 << 30).values())
            # Four senders may each have been cut off with one batch unanswered, at the end.
            assert len(senders.acknowledged) + 1 <= kept <= len(senders.acknowledged) + 1 + 4
        finally:
            running.kill()


def _inbox(store):
    with store._database.snapshot() as connection:
        return len(connection.execute(INBOX.select()).all())


@pytest.mark.slow
@pytest.mark.skipif(not may_mount(), reason="a read-only disk is mounted by root")
def test_a_start_on_a_read_only_disk_refuses_posts_until_it_can_be_written(tmp_path):
    registry, folder = tmp_path / "metrics.toml", tmp_path / "disk"
    registry.write_text(REGISTRY)
    folder.mkdir()
    with small_disk(folder):
        with open_store(f"{folder}/store.db", METRICS, create=True) as store:
            token = store.add_token("write", "app")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        done = overstory("serve", "--registry", registry, "--store", f"{folder}/store.db", "--port", 0, cwd=tmp_path)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert "store.db: the database file cannot be opened" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        running = CollectorProcess(registry, f"{folder}/store.db", ())
        address = running.start()
        body = upload(period=METRICS["bloom"].period.number(time.time()))
        assert Senders(lambda: address, token).once(body) == 200
        assert running.stop() == 0
