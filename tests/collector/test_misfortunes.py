"""Ten seconds of misfortune, and everything goes on after it: posts, compaction, tokens, retention, readiness."""

import asyncio
import dataclasses
import io
import json
import logging
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from overstory.collector.ingest import Ingest
from overstory.collector.settings import Limits, UpkeepIntervals
from overstory.collector.store import StoreError, open_store
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.databases.database import DiskFullError
from overstory.collector.store.upkeep import CHUNKS, INBOX, Compacted, InboxAges, Retained
from overstory.collector.telemetry import LOG
from overstory.protocol.metrics.period import DAY
from overstory.supervision import upkeep
from overstory.supervision.log import SparseLog, _Line, begin_log
from overstory.supervision.server import queued
from support.collector_in_process import METRICS, NOW, TODAY, FakeStore, batch_id, raising, upload
from support.misfortunes import until
from support.served import Wire, post, served

OFTEN = UpkeepIntervals(tokens=0.05, compact=0.05, retain=0.05, checkpoint=0.05)


class Upset(FakeStore):
    def __init__(self):
        super().__init__()
        self.error: BaseException | None = None
        self.done: dict[str, int] = {}
        self.remains: tuple[str, ...] = ()
        self.url = ""

    def _do(self, name):
        if self.error is not None:
            raise self.error
        self.done[name] = self.done.get(name, 0) + 1

    def tokens(self):
        self._do("tokens")
        return self.listed

    def compact(self, now, *, within=0.0, forgetting=True):
        self._do("compact")
        return Compacted()

    def retain(self, now):
        self._do("retain")
        return Retained(0, 0, self.remains)

    def checkpoint(self):
        self._do("checkpoint")


def ready(wire):
    status, _, body = wire.send(b"GET /readyz HTTP/1.1\r\nHost: c\r\n\r\n").answer()
    return status, json.loads(body)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), sqlite3.OperationalError("disk I/O error"), RuntimeError("can't start new thread"), KeyError("x")],
    ids=["memory", "bare sqlite3", "threads", "any"],
)
def test_no_task_of_the_upkeep_ends_by_an_error(error, monkeypatch):
    monkeypatch.setattr("overstory.supervision.upkeep.AGAIN", 0.05)
    store = Upset()
    with served(store=store, intervals=OFTEN) as (collector, address), Wire(address) as wire:
        until(lambda: len(store.done) == 4)
        assert ready(wire)[0] == 200
        store.error = error
        until(lambda: set(collector.telemetry.failed_upkeep) == {"tokens", "compact", "retain", "checkpoint"})
        assert ready(wire) == (503, ready(wire)[1])
        assert ready(wire)[1]["reason"] == "store"
        store.error, store.done = None, {}
        until(lambda: len(store.done) == 4)  # all of them go on
        until(lambda: ready(wire)[0] == 200)
        shown = collector.telemetry.expose().decode()
        for task in store.done:
            age = next(
                line for line in shown.splitlines() if line.startswith(f'overstory_upkeep_age_seconds{{task="{task}"')
            )
            assert float(age.split()[-1]) < 5
            assert f'overstory_store_failures_total{{work="{task}"}}' in shown


def test_a_task_that_never_comes_back_is_noticed(monkeypatch):
    monkeypatch.setattr(upkeep.Task, "late", 0.3)
    store, stuck = Upset(), threading.Event()
    store.compact = lambda *_, **__: stuck.wait(20)  # type: ignore[method-assign]
    try:
        with served(store=store, intervals=UpkeepIntervals(tokens=0.05, compact=0.05, retain=0, checkpoint=0.05)) as (
            _,
            address,
        ):
            with Wire(address) as wire:
                until(lambda: ready(wire)[0] == 503)
            stuck.set()
    finally:
        stuck.set()


def test_a_failing_commit_keeps_the_collector_from_being_ready_whatever_else_succeeds():
    store = Upset()

    with served(store=store, intervals=OFTEN) as (collector, address), Wire(address) as wire, Wire(address) as poll:
        store.before = raising(StoreError("the disk is full"))
        seen = []
        for _ in range(10):
            assert wire.send(post(upload())).answer()[0] == 503
            for _ in range(10):
                seen.append(ready(poll)[0])
                time.sleep(0.01)
        assert seen == [503] * 100
        assert collector.telemetry.failed_commits == 10
        store.before = lambda: None
        assert wire.send(post(upload())).answer()[0] == 200
        assert ready(poll)[0] == 200


def test_a_full_disk_is_one_sentence_that_says_what_becomes_of_reports(caplog):
    store = Upset()
    store.before = raising(DiskFullError("sqlite:///x: the disk is full; nothing of this was stored"))
    at_level = caplog.at_level(logging.ERROR, "overstory.collector")
    with at_level, served(store=store) as (_, address), Wire(address) as wire:
        assert {wire.send(post(upload())).answer()[0] for _ in range(50)} == {503}
    said = "cannot write to the store: disk full; reports refused with 503, senders will retry"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_what_retention_leaves_readable_is_logged(caplog):
    store = Upset()
    store.url = "postgresql://db/reports"
    store.remains = ("chunks: another transaction holds it",)
    with caplog.at_level(logging.WARNING, "overstory.collector"), served(store=store, intervals=OFTEN):
        until(lambda: "rows can still be read in its files: chunks: another transaction holds it" in caplog.text)


def test_a_store_that_hangs_keeps_nobody_waiting_and_is_logged_once(caplog):
    store, answers = FakeStore(), threading.Event()
    store.before = lambda: assert_soon(answers)
    kept, waiting = post(upload(batch=bytes(16))), post(upload(batch=batch_id()))
    with (
        caplog.at_level(logging.ERROR),
        served(Limits(commit_seconds=0.2), store=store) as (collector, address),
        Wire(address) as first,
        Wire(address) as second,
        Wire(address) as third,
    ):
        first.send(kept)
        until(lambda: collector.committer.reports)
        second.send(waiting)  # in the queue
        for wire in (first, second, third.send(waiting)):
            assert wire.answer()[0] == 503
        assert (collector.state, store.kept) == ("store", {})
        until(lambda: caplog.records)
        (line,) = [record.getMessage() for record in caplog.records]
        assert line.startswith("cannot write to the store: no answer for 0.2 seconds; reports refused with 503")
        answers.set()
        until(lambda: collector.state == "ready")
        assert [json.loads(first.send(kept).answer()[2])["results"][0]["duplicate"] for _ in range(2)] == [True, True]
        assert third.send(waiting).answer()[0] == 200
        assert len(store.kept) == 2


@pytest.mark.parametrize("where", ["compact", "close"])
def test_a_store_that_hangs_does_not_keep_the_collector_from_ending(where, monkeypatch, caplog):
    monkeypatch.setattr("overstory.collector.service.STOP_SECONDS", 0.3)
    store, hung, answers, came_back = Upset(), threading.Event(), threading.Event(), threading.Event()

    def hangs(*_, **__):
        hung.set()
        answers.wait(10)
        came_back.set()
        return Compacted()

    store.url = "postgresql://db/reports"
    setattr(store, where, hangs)
    with caplog.at_level(logging.ERROR, "overstory.collector"):
        with served(store=store, intervals=OFTEN):
            assert where == "close" or hung.wait(30)
        assert not came_back.is_set()
    answers.set()
    assert "postgresql://db/reports: no answer for 0.3 seconds" in caplog.text


def assert_soon(event):
    assert event.wait(30)


def test_an_error_that_the_server_reports_again_and_again_is_one_line():
    written = io.StringIO()
    loggers = [logging.getLogger(), LOG, logging.getLogger("uvicorn.error")]
    before = [(log.level, log.handlers[:], log.filters[:]) for log in loggers]
    try:
        begin_log(LOG, written)
        for _ in range(50):
            loggers[-1].error("Exception in ASGI application\n", exc_info=ZeroDivisionError("a bug"))
    finally:
        for log, (level, handlers, filters) in zip(loggers, before, strict=True):
            log.level, log.handlers[:], log.filters[:] = level, handlers, filters
    assert written.getvalue().count("Exception in ASGI application") == 1
    assert written.getvalue().count("ZeroDivisionError: a bug") == 1


def test_an_error_is_logged_again_after_a_minute():
    now = [0.0]
    errors = SparseLog(LOG, lambda: now[0])
    assert [errors.error("the store took nothing", OSError("disk")) for _ in range(3)] == [True, False, False]
    now[0] = 61.0
    assert errors.error("the store took nothing", OSError("disk"))


def test_a_line_of_the_log_has_time_level_and_message():
    record = logging.makeLogRecord({"msg": "reloaded", "levelname": "INFO", "created": 0.0})
    assert _Line().format(record) == "1970-01-01T00:00:00Z info reloaded"


@pytest.mark.skipif(sys.platform != "linux", reason="the length of the queue is Linux's to say")
def test_senders_that_nobody_accepts_are_counted():
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listening:
        senders = [socket.create_connection(listening.getsockname()) for _ in range(3)]
        assert queued(listening) == 3
        listening.accept()[0].close()
        assert queued(listening) == 2
        for sender in senders:
            sender.close()


def test_ticks_and_upkeep_go_on_where_no_task_ever_wakes_up(monkeypatch):
    """What the loss of a wake-up for want of memory comes to."""
    store, stuck = Upset(), asyncio.Event()

    async def lost(*_):
        await stuck.wait()

    with served(store=store, intervals=OFTEN) as (_, address), Wire(address) as wire:
        monkeypatch.setattr("asyncio.sleep", lost)
        date = wire.send(b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n").answer()[1]["date"]
        until(lambda: wire.send(b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n").answer()[1]["date"] != date, 5)
        store.done = {}
        until(lambda: len(store.done) == 4, 5)
        monkeypatch.undo()  # uvicorn sleeps to let connections end


def test_a_tick_that_fails_is_followed_by_the_next(monkeypatch, caplog):
    with caplog.at_level(logging.ERROR, "overstory.collector"), served() as (_, address), Wire(address) as wire:
        monkeypatch.setattr("uvicorn.server.formatdate", raising(MemoryError()))
        until(lambda: "a periodic check failed: MemoryError" in caplog.text, 5)
        monkeypatch.undo()
        date = wire.send(b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n").answer()[1]["date"]
        until(lambda: wire.send(b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n").answer()[1]["date"] != date, 5)


def test_an_event_loop_that_stops_for_want_of_memory_goes_on():
    class Unnameable:
        def __call__(self):
            raise MemoryError

        __repr__ = __str__ = raising(MemoryError())  # type: ignore[assignment]

    with served() as (collector, address), Wire(address) as wire:
        loop = collector.committer._loop
        loop.call_soon_threadsafe(Unnameable())
        time.sleep(0.2)
        assert wire.send(post(upload())).answer()[0] == 200


def test_while_memory_is_short_reports_wait_and_the_collector_is_not_ready(monkeypatch, caplog):
    at_level = caplog.at_level(logging.WARNING, "overstory.collector")
    with at_level, served() as (collector, address), Wire(address) as wire:
        monkeypatch.setattr("overstory.supervision.upkeep.mmap.mmap", raising(MemoryError()))
        until(lambda: collector.endpoint.reserve.short, 5)
        status, headers, body = wire.send(post(upload())).answer()
        assert (status, json.loads(body)["reason"], headers["retry-after"]) == (503, "fault", "60")
        assert ready(wire)[0] == 503
        until(lambda: "memory is low: reports are refused with 503" in caplog.text, 5)
        monkeypatch.undo()
        until(lambda: wire.send(post(upload())).answer()[0] == 200, 5)
        assert ready(wire)[0] == 200


RESERVE = """
import resource
from pathlib import Path
from overstory.supervision.upkeep import HELD, MARGIN, Reserve

reserve = Reserve()
reserve.look()
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + MARGIN // 2, resource.RLIM_INFINITY))
reserve.look()
assert reserve.short
room = bytearray(HELD // 2)  # there is room for what is under way
reserve.look()
assert reserve.short
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
reserve.look()
assert not reserve.short
"""


@pytest.mark.skipif(sys.platform != "linux", reason="how much address space is taken is read from /proc")
def test_the_reserve_is_given_back_while_memory_is_short_and_taken_again():
    subprocess.run([sys.executable, "-c", RESERVE], check=True, timeout=60)


def _rows(store, table):
    with store._database.snapshot() as connection:
        return len(connection.execute(table.select()).all())


class Clocks:
    def __init__(self):
        self.wall, self.started = 0.0, time.monotonic()

    def now(self):
        return NOW + self.wall + self.even()

    def even(self):
        return time.monotonic() - self.started


@contextmanager
def on_a_store(folder, clocks, **named):
    store = open_store(str(folder / "store.db"), METRICS, create=not (folder / "store.db").exists())
    at_once = dataclasses.replace(OFTEN, within=0.0)
    with served(store=store, intervals=at_once, clock=clocks.now, even=clocks.even, **named) as (collector, address):
        yield collector, address, store


def test_a_clock_that_jumps_ahead_makes_nothing_count_twice_and_deletes_nothing(tmp_path, caplog):
    clocks = Clocks()
    posts = [post(upload("bloom", 2, batch=batch_id())) for _ in range(50)]
    with on_a_store(tmp_path, clocks) as (_, address, store), Wire(address) as wire:
        assert {wire.send(one).answer()[0] for one in posts} == {200}
        until(lambda: not _rows(store, INBOX))
        clocks.wall = 400 * DAY
        until(lambda: "the clock has jumped" in caplog.text)
        time.sleep(0.5)
        clocks.wall = 0.0
        time.sleep(0.3)
        for one in posts:
            status, _, body = wire.send(one).answer()
            assert (status, json.loads(body)["results"][0]["duplicate"]) == (200, True)
        assert store.counts(METRICS["bloom"], TODAY, TODAY)[TODAY].num_reports == 100
        with store._database.snapshot() as connection:
            assert sum(row.num_reports for row in connection.execute(CHUNKS.select())) == 100
    assert sum("the clock has jumped" in record.getMessage() for record in caplog.records) == 1


def test_a_start_with_a_wrong_clock_forgets_nothing_either(tmp_path):
    right, wrong = Clocks(), Clocks()
    wrong.wall = 400 * DAY
    posts = [post(upload("bloom", 2, batch=batch_id())) for _ in range(20)]
    with on_a_store(tmp_path, right) as (_, address, store), Wire(address) as wire:
        assert {wire.send(one).answer()[0] for one in posts} == {200}
        until(lambda: store.last_day() == TODAY)
    with on_a_store(tmp_path, wrong) as (collector, _, _):
        until(lambda: collector.telemetry.upkeep()["compact"] < 0.05)
        time.sleep(0.5)
    with on_a_store(tmp_path, right) as (_, address, store), Wire(address) as wire:
        for one in posts:
            assert json.loads(wire.send(one).answer()[2])["results"][0]["duplicate"] is True
        assert store.counts(METRICS["bloom"], TODAY, TODAY)[TODAY].num_reports == 40


def test_a_clock_that_runs_evenly_forgets_and_retains(tmp_path):
    clocks = Clocks()
    with on_a_store(tmp_path, clocks) as (_, address, store), Wire(address) as wire:
        assert wire.send(post(upload())).answer()[0] == 200
        until(lambda: store.last_day() == TODAY and not _rows(store, INBOX))
        clocks.wall, clocks.started = 0.0, clocks.started - 400 * DAY  # both of them: 400 days have passed
        until(lambda: store.last_day() == TODAY + 400)
        until(lambda: not _rows(store, CHUNKS))
        assert store.summary().batch_ids == 0


def written():
    with Path("/proc/self/io").open() as figures:
        return next(int(line.split()[1]) for line in figures if line.startswith("wchar"))


def trickle(store, database, rounds, within):
    ingest, before = Ingest(METRICS), written()
    for _ in range(rounds):
        for name in ("bloom", "colour"):
            decision = ingest.decide(upload(name), "application/vnd.overstory.reports", NOW)
            store.add(decision.received)
        store.compact(NOW, within=within)
        database.checkpoint()
    return written() - before


def test_a_trickle_of_reports_does_not_write_whole_chunks_again_and_again(tmp_path):
    path = str(tmp_path / "store.db")
    now = 0.0
    with open_store(path, METRICS, create=True) as store:
        store._inbox_ages = InboxAges(lambda: now)
        for name in ("bloom", "colour"):
            decision = Ingest(METRICS).decide(upload(name, 60_000), "application/vnd.overstory.reports", NOW)
            store.add(decision.received)
        assert store.compact(NOW, within=300).reports == 120_000  # many at once are folded at once
        database = connect(path)
        at_once = trickle(store, database, 10, within=0)
        waiting = trickle(store, database, 10, within=300)
        assert at_once > 5_000_000
        assert waiting < at_once / 10
        assert store.counts(METRICS["bloom"], TODAY, TODAY)[TODAY].num_reports == 60_020
        now = 301.0
        assert store.compact(NOW, within=300).reports == 20  # and some minutes later, however few
        assert store.compact(NOW, within=300).reports == 0
        database.close()


def test_postgresql_commits_to_the_disk_whatever_it_was_set_to(postgres_url):
    open_store(postgres_url, create=True).close()
    with psycopg.connect(postgres_url, autocommit=True) as sql:
        name = sql.info.dbname
        sql.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    with open_store(postgres_url, METRICS) as store:
        shown = text("SHOW synchronous_commit")
        assert store._database.write(lambda connection: connection.execute(shown).scalar()) == "on"
        with store._database.snapshot() as connection:
            assert connection.execute(shown).scalar() == "on"
