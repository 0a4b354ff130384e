"""The state on disk: begun once, found again, and nothing lost or altered goes unnoticed."""

import os
import shutil
import sqlite3
import stat
import sys
import time
from contextlib import closing, suppress
from datetime import date

import pytest
from test_retired_keys import every_cut

from overstory.client import Outcome
from overstory.client.consent import choose
from overstory.client.outcomes import Fault, StateError
from overstory.client.state import rows as rows_module
from overstory.client.state.files import StatePaths, create, locked, write_atomically
from overstory.client.state.rows import NOTHING, VERSION, RowState
from overstory.client.state.secret_file import DeviceSecret, _checksum, read_secret, write_secret
from overstory.client.state.state import State, erase
from support.devices import DAY, NOON, REGISTRY, Clock, device, queue_report, rows_of, tamper
from support.processes import NOBODY, in_child, in_threads, start

posix = pytest.mark.skipif(sys.platform == "win32", reason="file modes and limits of POSIX")
LEFT = {"lock", "application.json"}
"""What erasing leaves: what processes lock, and what the program says of itself."""


@pytest.fixture
def begun(paths):
    return State(paths).begin()


def fault_of(paths):
    with pytest.raises(StateError) as caught:
        State(paths).begin()
    return caught.value.fault


def test_a_state_is_begun_once_and_found_again(paths, begun):
    assert State(paths).begin().reveal() == begun.reveal()
    assert sorted(path.name for path in paths.folder.iterdir()) == ["lock", "secret", "state.db"]


@posix
def test_the_files_are_for_their_owner_alone(tmp_path, paths):
    before = os.umask(0)
    try:
        device(tmp_path).record("colour", "red")
    finally:
        os.umask(before)
    assert stat.S_IMODE(paths.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths.folder.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "lost", [("secret",), ("database",), ("secret", "database"), ("database", "lock")], ids=" and ".join
)
def test_a_lost_secret_is_noticed_and_not_replaced(paths, begun, lost):
    """The lock's content says that the state had begun; a database that is gone is noticed without it, too."""
    for name in lost:
        getattr(paths, name).unlink()
    assert fault_of(paths) is Fault.LOST
    assert not any(getattr(paths, name).exists() for name in lost if name != "lock")


def test_every_altered_byte_of_the_secret_is_noticed(paths, begun):
    whole = paths.secret.read_bytes()
    for at in range(len(whole)):
        paths.secret.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert fault_of(paths) is Fault.DAMAGED
    for wrong in (b"", whole[:-1], whole + b"\0"):
        paths.secret.write_bytes(wrong)
        assert fault_of(paths) is Fault.DAMAGED
    paths.secret.write_bytes(whole)
    assert State(paths).begin().reveal() == begun.reveal()


def of_another_device(paths):
    other = StatePaths(paths.folder.parent / "other")
    State(other).begin()
    shutil.copy(other.secret, paths.secret)


def of_another_beginning(paths):
    """It does not stand in for the secret that is lost."""
    paths.secret.unlink()
    write_secret(paths.unconfirmed, DeviceSecret.fresh())


def of_another_version(paths):
    body = bytearray(read_secret(paths.secret).reveal())
    body[4] += 1
    paths.secret.write_bytes(body + _checksum(body))


def without(key):
    return lambda paths: tamper(paths, "DELETE FROM about WHERE key = ?", key)


WRITTEN_BY_ANOTHER = "secret has version 2, .* use the one that wrote it"
SPOILED = {
    "a secret of another device": (of_another_device, Fault.ALTERED, "not the secret that the reports so far"),
    "a secret of another beginning": (of_another_beginning, Fault.LOST, "secret was there and is lost"),
    "a secret of another version": (of_another_version, Fault.OTHER_VERSION, WRITTEN_BY_ANOTHER),
    "a database that is none": (lambda paths: paths.database.write_bytes(b"none" * 500), Fault.DAMAGED, "damaged"),
    "half a database": (lambda paths: os.truncate(paths.database, 5000), Fault.DAMAGED, "damaged"),
    "an empty database": (lambda paths: os.truncate(paths.database, 0), Fault.LOST, "state.db was there and is lost"),
    "no fingerprint": (without("fingerprint"), Fault.DAMAGED, "which secret it belongs to"),
    "no version": (without("schema"), Fault.DAMAGED, "which version it has"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_was_spoiled_is_refused_by_name(paths, begun, name):
    spoil, fault, says = SPOILED[name]
    spoil(paths)
    with pytest.raises(StateError, match=says) as refused:
        State(paths).begin()
    assert refused.value.fault is fault


def test_damage_in_the_middle_never_raises_into_the_program(tmp_path, paths, clock):
    with device(tmp_path, clock=clock) as client:
        for _ in range(30):
            client.record("engine", "x")
            clock.now += 3600
    whole = paths.database.read_bytes()
    for page in range(0, len(whole), 4096):
        paths.database.write_bytes(whole[:page] + b"\xa5" * 4096 + whole[page + 4096 :])
        clock.now += 3600
        client = device(tmp_path, clock=clock, choice=None)
        outcome = client.record("engine", "x")
        flushed = client.flush()
        assert outcome is Outcome.UNAVAILABLE or flushed.problem or flushed.written == {"queued": 1}
        assert outcome is not Outcome.UNAVAILABLE or client.status().problem
        client.close()


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_state_of_another_version_is_refused_and_left_as_it_is(paths, begun, version):
    tamper(paths, "UPDATE about SET value = ? WHERE key = 'schema'", version)
    held = paths.database.read_bytes()
    assert fault_of(paths) is Fault.OTHER_VERSION
    for opened in (State(paths).snapshot, State(paths).transaction):
        with pytest.raises(StateError, match=f"state.db has version {version}, .* use the one that wrote it"), opened():
            pass
    assert paths.database.read_bytes() == held


def test_a_beginning_cut_off_anywhere_is_completed_or_undone(tmp_path, monkeypatch):
    """A secret that the database knows is kept; one that it does not know yet is another one's after all."""
    kept = set()

    def check(paths):
        written = read_secret(paths.unconfirmed)
        if State(paths).exists:
            with State(paths).snapshot():  # as when a person chooses, before anything is recorded again
                pass
        secret = State(paths).begin()
        assert read_secret(paths.secret).reveal() == secret.reveal()
        assert not paths.unconfirmed.exists()
        with State(paths).snapshot() as rows:
            assert rows.fingerprint == secret.fingerprint
        if written is not None:
            kept.add(written.reveal() == secret.reveal())

    def make(number):
        return StatePaths(tmp_path / str(number))

    assert every_cut(monkeypatch, make, lambda paths: State(paths).begin(), check) > 10
    assert kept == {True, False}


def test_erasing_makes_room_for_another_device(tmp_path, paths):
    device(tmp_path).record("colour", "red")
    before = State(paths).begin().reveal()
    erase(paths)
    assert {path.name for path in paths.folder.iterdir()} == LEFT
    assert State(paths).begin().reveal() != before
    erase(StatePaths(tmp_path / "never-there"))
    assert not (tmp_path / "never-there").exists()


def test_a_transaction_that_raises_leaves_nothing(paths, begun):
    state = State(paths)

    def broken():
        with state.transaction() as rows:
            rows.claim(REGISTRY["colour"], 1, kept=False)
            rows.count("x")
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    with state.transaction() as rows:
        assert rows.counts() == {}
        assert rows.claim(REGISTRY["colour"], 1, kept=False)


def test_a_state_that_was_forgotten_and_begun_again_is_not_written_with_the_old_secret(tmp_path, paths, clock, client):
    queue_report(client)
    clock.tomorrow()
    client.record("colour", "red")
    erase(paths)
    again = device(tmp_path, clock=clock)
    queue_report(again, "engine", "x")
    assert "forgotten" in client.flush().problem
    with State(paths).snapshot() as rows:
        assert [row.metric for row in rows.outbox.rows()] == ["engine"]
    assert client.record("colour", "red") is Outcome.RECORDED  # with the new secret
    assert client.flush().written == {"queued": 1}


def test_forgetting_while_a_program_runs_leaves_nothing_of_it(paths, client):
    client.record("colour", "red")
    erase(paths)
    assert client.record("engine", "x") is Outcome.NOT_ASKED
    assert client.flush().problem
    client.close()
    assert {path.name for path in paths.folder.iterdir()} == LEFT


@posix
def test_what_a_killed_choice_left_is_forgotten_too(tmp_path, paths):
    device(tmp_path)

    def killed():
        os.replace = lambda *_: os._exit(0)
        choose(paths, REGISTRY, "off", date(2026, 11, 22))

    in_child(killed)
    assert sorted(path.suffix for path in paths.folder.iterdir()) == [".json", ".json", ".new"]
    erase(paths)
    assert {path.name for path in paths.folder.iterdir()} == LEFT


def test_a_home_that_is_no_folder_disturbs_nobody(tmp_path):
    (tmp_path / "file").write_text("in the way")
    client = device(tmp_path, choice=None)
    client.paths = client._sources._paths = StatePaths(tmp_path / "file" / "state")
    assert client.record("colour", "red") is Outcome.NOT_ASKED
    assert client.flush().problem is None
    assert client.status().problem is None


@posix
def test_a_read_only_folder_disturbs_nobody_and_can_be_read(tmp_path, paths, clock):
    with device(tmp_path, clock=clock) as first:
        first.record("colour", "red")
    tmp_path.chmod(0o755)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(path.stat().st_mode | 0o044 | (0o011 if path.is_dir() else 0))
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    for path in (paths.folder, *paths.folder.iterdir()):
        path.chmod(0o500 if path.is_dir() else 0o400)
        if os.getuid() == 0:
            os.chown(path, NOBODY, -1)

    def as_another():
        client = device(tmp_path, clock=clock, choice=None)
        clock.tomorrow()
        assert client.record("colour", "red") is Outcome.UNAVAILABLE
        assert client.record("colour", "red") is Outcome.UNAVAILABLE
        status = client.status()
        assert "cannot be written" in status.problem
        assert status.outbox["waiting"] == 1
        assert client.flush().problem is None
        client.close()

    in_child(as_another, as_nobody=True)


@posix
def test_a_full_disk_disturbs_nobody_and_nothing_is_lost_when_there_is_room_again(tmp_path, paths):
    """The limit on the size of files stands in for the disk: SQLite's write fails in the middle of a transaction."""

    def limited():
        import resource

        clock = Clock()
        client = device(tmp_path, clock=clock, spread=0)
        assert queue_report(client, "engine", "x").problem is None
        size = paths.database.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        for _ in range(200):
            clock.now += 3600
            assert client.record("engine", "x") is Outcome.RECORDED
        assert "room" in client.flush().problem
        assert "room" in client.status().problem
        assert client.status().pending == 200
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert client.flush().written == {"queued": 200}
        assert client.status().problem is None
        with State(paths).snapshot() as rows:
            assert len({row.batch for row in rows.outbox.rows()}) == 201
            assert sum(response.reports for response in rows.responses()) == 201

    in_child(limited)


def test_a_full_database_is_told(paths, monkeypatch, client):
    queue_report(client)
    real = sqlite3.connect

    def small(*arguments, **settings):
        connection = real(*arguments, **settings)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    clock = client._clock
    for _ in range(200):
        clock.now += 3600
        client.record("engine", "x" * 100)
    assert "no room" in client.flush().problem
    assert client.status().pending == 200


@posix
def test_a_disk_full_from_the_start_leaves_no_half_a_secret(tmp_path, paths):
    def limited():
        import resource

        client = device(tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
        assert client.record("colour", "red") is Outcome.UNAVAILABLE
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert client.record("colour", "red") is Outcome.UNAVAILABLE  # it is tried again after a while
        client._session.retry_at = 0.0
        assert client.record("colour", "red") is Outcome.RECORDED

    in_child(limited)


def test_a_state_that_another_process_holds_is_busy_for_a_while_only(paths, client):
    client.record("colour", "red")
    holder = sqlite3.connect(paths.database, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert "held it for too long" in client.flush(timeout=0.05).problem
    holder.close()
    assert client.flush().written == {"queued": 1}


def test_a_clock_that_goes_back_reports_no_period_twice(clock, client):
    outcomes = []
    for days in (0, 1, -1, 1, -3, 2, 1, 1):
        clock.tomorrow(days)
        outcomes.append(str(client.record("colour", "red")))
    said = "recorded recorded already already recorded already already recorded"
    assert outcomes == said.split()
    client.flush()
    periods = [row.period for row in rows_of(client)]
    assert len(periods) == len(set(periods)) == 4


def reported_five_times(folder, clock, days):
    client = device(folder, clock=clock)
    for _ in range(5):
        queue_report(client)
        clock.tomorrow(days)
    clock.tomorrow(-5 * days)
    return client


def test_periods_that_are_remembered_no_longer_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "PERIODS_KEPT", 3)
    clock = Clock()
    client = reported_five_times(tmp_path, clock, 200)
    assert client.record("colour", "red") is Outcome.PAST
    assert device(tmp_path, clock=clock).record("colour", "red") is Outcome.PAST
    with State(client.paths).transaction() as rows:
        assert not rows.claim(REGISTRY["colour"], int(clock.now // DAY), kept=False)
    clock.tomorrow(400)
    assert client.record("colour", "red") is Outcome.ALREADY


def test_no_period_of_the_last_year_is_forgotten(tmp_path, monkeypatch):
    """The next registry may count what a year's reports tell."""
    monkeypatch.setattr(rows_module, "PERIODS_KEPT", 3)
    clock = Clock()
    client = reported_five_times(tmp_path, clock, 1)
    assert client.record("colour", "red") is Outcome.ALREADY
    with State(client.paths).snapshot() as rows:
        assert [number for _, _, number in rows.reports_since(clock.now)] == [5]


def test_a_row_from_a_clock_that_ran_ahead_is_due_now(paths, begun):
    with State(paths).transaction() as rows:
        for batch, due in ((b"a" * 16, NOON + 100 * DAY), (b"b" * 16, NOON + DAY)):
            rows.outbox.add(batch, "colour", 1, b"body", account=bytes(16), due=due, state=RowState.WAITING)
        assert [row.batch for row in rows.outbox.take_due(NOON, 10, 60)] == [b"a" * 16]
        assert rows.outbox.take_due(NOON, 10, 60) == []  # leased
        assert {row.due for row in rows.outbox.rows()} == {NOON + 60, NOON + DAY}


def test_a_permanent_response_that_differs_from_the_reported_one_becomes_nothing(tmp_path, paths, clock, client):
    queue_report(client)
    tamper(paths, "UPDATE responses SET permanent = ?", b"\x7f")
    clock.tomorrow()
    again = device(tmp_path, clock=clock, choice=None)
    assert again.record("colour", "red") is Outcome.UNAVAILABLE
    assert "differs from the one reported before" in again._session.last_error.args[0]
    assert client.record("colour", "red") is Outcome.RECORDED  # it has not read the state since
    assert client.flush().written == {"queued": 1}
    assert again.flush().written == {"already": 1}
    with State(paths).snapshot() as rows:
        assert len(rows.outbox.rows()) == 2
        assert {response.tag: response.reports for response in rows.responses("colour")}[NOTHING] == 1


def test_a_state_that_a_killed_process_left_half_written_is_read(tmp_path):
    """A journal that has to be rolled back: who may only read cannot, and a gateway that starts again reads first."""
    state = State(StatePaths(tmp_path / "state"))
    state.begin()
    with state.transaction() as rows:
        rows.count("before")
    half = tmp_path / "half"
    with closing(sqlite3.connect(state.paths.database, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN IMMEDIATE")
        writer.executemany("INSERT INTO counts VALUES (?, 1)", ((f"half {n}",) for n in range(20_000)))
        shutil.copytree(tmp_path / "state", half)
        writer.execute("ROLLBACK")
    killed = State(StatePaths(half))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        sqlite3.connect(f"file:{killed.paths.database}?mode=ro", uri=True).execute("SELECT * FROM counts").fetchall()
    with killed.snapshot() as rows:
        assert rows.counts() == {"before": 1}


def test_a_commit_waits_for_the_folder_too(paths, begun):
    """A journal that is back after a power loss would undo the commit (finding T27): 3 is EXTRA."""
    with State(paths).transaction() as rows:
        assert rows._connection.execute("PRAGMA synchronous").fetchone() == (3,)


HOLDS = """
import sys, pathlib
from overstory.client.state.files import locked
with locked(pathlib.Path(sys.argv[1]), 5):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("killed", [False, True])
def test_a_process_keeps_others_out_until_it_lets_go_or_dies(tmp_path, killed):
    path = tmp_path / "lock"
    holder = start(HOLDS, path)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StateError, match="held this lock") as caught, locked(path, 0.05):
        pass
    assert caught.value.fault is Fault.BUSY
    if killed:
        holder.kill()
    else:
        holder.stdin.write("\n")
        holder.stdin.flush()
    with locked(path, 30):
        holder.communicate()


def test_threads_of_one_process_exclude_each_other(tmp_path):
    path, inside, most = tmp_path / "lock", [], []

    def work():
        for _ in range(20):
            with locked(path, 60):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    in_threads(4, work)
    assert len(most) == 80
    assert max(most) == 1


def test_a_lock_is_let_go_when_the_block_raises_and_the_content_of_its_file_stays(tmp_path):
    for content in (b"", b"kept"):
        with suppress(KeyError), locked(tmp_path / "lock", 0) as handle:
            assert os.read(handle, 10) == content
            os.write(handle, b"kept")
            raise KeyError


def test_a_new_file_is_never_half_there(tmp_path, monkeypatch):
    def cut(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", cut)
        for write in (create, write_atomically):
            with pytest.raises(OSError, match="No space"):
                write(tmp_path / "file", b"content")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", cut)
        with pytest.raises(OSError, match="No space"):
            write_atomically(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []
    create(tmp_path / "file", b"content")
    with pytest.raises(FileExistsError):
        create(tmp_path / "file", b"other")
    write_atomically(tmp_path / "file", b"other")
    assert (tmp_path / "file").read_bytes() == b"other"


def test_a_secret_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "secret").mkdir()
    with pytest.raises(StateError) as caught:
        read_secret(tmp_path / "secret")
    assert caught.value.fault is Fault.UNREADABLE
