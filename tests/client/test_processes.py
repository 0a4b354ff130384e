"""Several processes, threads and forks on one state; and processes that are killed at any point."""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter

import pytest

from overstory.client import Outcome
from overstory.client.randomizer import randomizer_of
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import RowState
from overstory.client.state.secret_file import read_secret
from overstory.client.state.state import State
from overstory.protocol.wire.upload import decode_batch, decode_uploads
from support.devices import NOON, REGISTRY, Clock, device, queue_report, rows_of, tamper
from support.processes import in_child, in_threads, output_of, start
from support.rounds import rounds

posix = pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGKILL")

ONCE = """
import sys, pathlib
from support.devices import Clock, device
sys.stdin.readline()
client = device(pathlib.Path(sys.argv[1]), choice=None)
outcome = "unavailable"
for _ in range(30):  # on a busy machine the others may take longer than `record` waits for them
    client._begun().retry_at = 0.0
    outcome = client.record("colour", "red")
    if outcome != "unavailable":
        break
print(outcome, client.record("engine", "example.org"), flush=True)
print(client.flush(timeout=30).problem)
"""
FLUSH = "print(client.flush(timeout=30).problem)"


def consented(folder):
    device(folder).close()


def test_many_processes_on_an_empty_folder_make_one_secret_and_one_report_of_each_period(tmp_path):
    consented(tmp_path)
    processes = [start(ONCE, tmp_path) for _ in range(8)]
    for process in processes:  # all are up: now they begin at once
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        outcomes, problem = output_of(process).splitlines()
        assert set(outcomes.split()) <= {"recorded", "already"}
        assert problem == "None"
    assert_whole(tmp_path, Counter({"colour": 1, "engine": 1}))


def assert_whole(folder, expected=None):
    """Everything that must hold of a state, whoever wrote it and whatever became of them."""
    paths = StatePaths(folder / "state")
    secret = State(paths).begin()
    with State(paths).snapshot() as rows:
        found, responses = rows.outbox.rows(), rows.responses()
        claims = {name: rows.claims(name) for name in REGISTRY}
        assert rows.fingerprint == secret.fingerprint == read_secret(paths.secret).fingerprint
    assert len({(row.metric, row.period) for row in found}) == len(found)
    assert len({row.batch for row in found}) == len(found)
    if len(found) < 400:  # nothing is forgotten yet
        assert {(row.metric, row.period) for row in found} == {(n, p) for n in claims for p in claims[n].reported}
        assert sum(response.reports for response in responses) == len(found)
    for row in found:
        assert row.period in claims[row.metric].reported or row.period < claims[row.metric].first
        (upload,) = decode_uploads(row.body, 1)
        assert (upload.metric, upload.period) == (row.metric, row.period)
        settled = row.state in (RowState.SENT, RowState.DROPPED)
        assert (upload.batch, row.batch) == ((bytes(16), b"erased %d" % row.id) if settled else (row.batch,) * 2)
        (_,) = decode_batch(upload.reports)
    assert expected is None or Counter(row.metric for row in found) == expected
    return secret, responses


def test_threads_of_one_client_make_one_report_of_each_period(tmp_path, clock, client):
    barrier, outcomes, lock = threading.Barrier(8), [], threading.Lock()

    def work():
        barrier.wait()
        mine = []
        for hour in range(20):
            mine += [client.record("engine", "example.org"), client.record("colour", "red")]
            if hour % 5 == 0:
                assert client.flush().problem is None
            clock.now = max(clock.now, NOON + hour * 3600)
        with lock:
            outcomes.extend(mine)

    in_threads(8, work)
    client.flush()
    assert set(outcomes) == {Outcome.RECORDED, Outcome.ALREADY}
    assert len(rows_of(client)) == outcomes.count(Outcome.RECORDED)
    assert_whole(tmp_path)


def test_the_first_record_of_many_threads_opens_one_session(tmp_path, monkeypatch):
    client, opened = device(tmp_path), []
    begin = State.begin
    monkeypatch.setattr(State, "begin", lambda state: opened.append(state) or begin(state))
    in_threads(8, lambda: client.record("colour", "red"))
    assert len(opened) == 1
    assert client.flush().written == {"queued": 1}


def test_the_background_thread_starts_with_the_first_record_and_flushes(tmp_path):
    before = threading.active_count()
    client = device(tmp_path, background=True, interval=0.02)
    assert threading.active_count() == before
    client.record("colour", "red")
    until = time.monotonic() + 10
    while client.status().outbox.get("waiting") != 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert client.status().outbox["waiting"] == 1
    client.close()
    assert threading.active_count() == before


def test_what_was_recorded_is_written_when_the_program_ends(tmp_path):
    consented(tmp_path)
    script = ONCE.replace(FLUSH, "print(None)")
    assert output_of(start(script, tmp_path)).splitlines()[1] == "None"
    assert_whole(tmp_path, Counter({"colour": 1, "engine": 1}))


def test_the_end_of_a_program_waits_for_nobody_longer_than_it_may(tmp_path):
    consented(tmp_path)
    device(tmp_path, clock=Clock(NOON - 10 * 86_400)).record("colour", "red")
    State(StatePaths(tmp_path / "state")).begin()
    script = ONCE.replace(
        FLUSH,
        "import time, atexit, sqlite3\n"
        "holder = sqlite3.connect(client.paths.database, isolation_level=None)\n"
        "holder.execute('BEGIN EXCLUSIVE')\n"
        "began = time.monotonic()\n"
        "client._at_exit()\n"
        "print(time.monotonic() - began)\n"
        "holder.close()",
    )
    assert 0.9 < float(output_of(start(script, tmp_path)).splitlines()[1]) < 5


@posix
def test_a_child_does_not_write_its_parents_queue(tmp_path, client):
    client.record("colour", "red")

    def child():
        assert client.status().pending == 0
        assert client.flush().written == {}
        assert client.record("colour", "red") is Outcome.ALREADY  # the parent's, which it will write
        assert client.record("engine", "x") is Outcome.RECORDED
        assert client.flush().written == {"queued": 1}

    in_child(child)
    assert client.flush().written == {"queued": 1}
    assert_whole(tmp_path, Counter({"colour": 1, "engine": 1}))


@posix
def test_a_child_of_a_client_that_has_not_recorded_yet_begins_on_its_own(tmp_path, client):
    in_child(lambda: (client.record("colour", "red"), client.close()))
    assert client.record("engine", "x") is Outcome.RECORDED
    assert client.flush().written == {"queued": 1}
    assert_whole(tmp_path, Counter({"colour": 1, "engine": 1}))


@posix
def test_forks_in_the_middle_of_other_threads_work_neither_hang_nor_double_anything(tmp_path, clock):
    client = device(tmp_path, clock=clock, background=True, interval=0.05)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            clock.now += 3600
            queue_report(client, "engine", "x")
            time.sleep(0.05)  # neither SQLite's waiting nor a lock's is fair: leave the others a gap

    def child():
        signal.alarm(60)  # a deadlock ends here
        clock.now += 1000 * 3600 + os.getpid() * 3600
        assert client.record("engine", "x") is Outcome.RECORDED
        until = time.monotonic() + 30
        while client.status().pending and time.monotonic() < until:
            assert client.flush().problem is None  # or its own background thread was first
        with State(client.paths, timeout=30).snapshot() as rows:
            assert REGISTRY["engine"].period.number(clock.now) in rows.claims("engine").reported

    client.record("colour", "red")
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            in_child(child)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    client.close()
    batches = [row.batch for row in rows_of(client)]
    assert len(set(batches)) == len(batches)


@posix
def test_a_child_forked_in_the_middle_of_a_transaction_touches_no_database(tmp_path, monkeypatch):
    monkeypatch.setattr("overstory.client.state.state.PATIENCE", 0.05)
    client = device(tmp_path)
    client.record("colour", "red")
    inside, done = threading.Event(), threading.Event()

    def hold():
        with State(client.paths).transaction():
            inside.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()

    def child():
        assert client.record("engine", "x") is Outcome.UNAVAILABLE
        assert "forked in the middle" in client.status().problem

    in_child(child)
    done.set()
    thread.join()
    assert client.flush().written == {"queued": 1}


def test_a_fork_that_python_did_not_see_is_noticed(client):
    client.record("colour", "red")
    client._process = -1
    assert client.record("engine", "x") is Outcome.RECORDED
    assert client.flush().written == {"queued": 1}  # not the parent's


WORKS = """
import pathlib, sys
from support.devices import Clock, device
clock = Clock(float(sys.argv[2]))
client = device(pathlib.Path(sys.argv[1]), clock=clock, choice=None)
print("up", flush=True)
for number in range(3_000):
    clock.now += 3600
    client.record("engine", f"value-{number % 7}")
    client.record("colour", ("red", "green", "blue")[number % 3])
    if number % 3 == 0:
        client.flush()
    if number == 0:
        print("on", flush=True)
"""


def killed(folder, rounds, seed):
    draw = random.Random(seed)
    consented(folder)
    known, sent, first = {}, {}, None
    for number in range(rounds):
        process = start(WORKS, folder, NOON + number * 3_000 * 3600)
        process.stdout.readline()
        if number % 4:  # in every fourth round, somewhere in the beginning
            process.stdout.readline()
        time.sleep(draw.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.communicate()
        secret, responses = assert_whole(folder) if (folder / "state" / "state.db").exists() else (None, [])
        if secret is None:
            continue
        first = first or secret.key("engine")
        assert secret.key("engine") == first
        for response in responses:
            key = response.metric, response.tag
            assert known.setdefault(key, response.permanent) == response.permanent
        with State(StatePaths(folder / "state")).transaction() as rows:
            # What a sender does: the bytes of a period are sent, under one id for ever.
            for row in rows.outbox.rows(state=RowState.WAITING):
                assert sent.setdefault((row.metric, row.period), row.body) == row.body
    expected = randomizer_of(REGISTRY["engine"], first)
    found = {response for (metric, _), response in known.items() if metric == "engine"}
    assert found <= {expected.permanent(f"value-{n}") for n in range(7)}
    assert sent
    return len(known), len(sent)


@posix
@pytest.mark.parametrize(("kills", "least"), [(6, 0), pytest.param(rounds(60), 5, marks=pytest.mark.slow)])
def test_a_killed_device_keeps_its_permanent_responses_and_its_ids(tmp_path, kills, least):
    values, periods = killed(tmp_path, kills, seed=kills)
    assert values > least  # of ten; a busy machine does not get far in a tenth of a second
    assert periods > (kills / 2 if least else 0)


@posix
def test_the_check_after_a_kill_notices_a_report_under_two_ids(tmp_path, client):
    queue_report(client)
    columns = "metric, account, period, body, due, attempts, state"
    tamper(client.paths, f"INSERT INTO outbox (batch, {columns}) SELECT randomblob(16), {columns} FROM outbox")
    with pytest.raises(AssertionError):
        assert_whole(tmp_path)
