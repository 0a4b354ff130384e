"""Backups: what an ended process leaves, one bit turned, and PostgreSQL's own tools."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from sqlalchemy import select

from overstory.collector.store import StoreError, open_store
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.databases.sqlite import interruptible
from overstory.collector.store.schema import METADATA, ids_table, read_id_days
from support.store_databases import fresh, server
from support.store_samples import NOW, registry, some

BEFORE = "import time\nfrom pathlib import Path\n"
BACKUP = BEFORE + (
    "from overstory.collector.store.copies import backup\nfrom overstory.cli.main import main\n"
    "backup.verify = lambda copy: Path('written').touch() or time.sleep(60)\n"
    "raise SystemExit(main())\n"
)
"""`overstory`, with a backup that stops when the copy is written, before it is verified."""

STAGED = BEFORE + (
    "from overstory.engines.folders import Folder\nfrom overstory.cli.service import store\n"
    "from overstory.cli.main import main\n"
    "def wait(args):\n"
    "    with Folder('memory://bucket').staged('part') as part:\n"
    "        part.write_bytes(b'reports')\n"
    "        Path('written').touch()\n"
    "        time.sleep(60)\n"
    "store.export = wait\n"
    "raise SystemExit(main())\n"
)


def end(folder, code, arguments, number):
    environ = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=folder, env=environ)
    try:
        written = folder / "written"
        for _ in range(600):
            if written.exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        written.unlink()
        process.send_signal(number)
        return process.wait(30)
    finally:
        process.kill()


@pytest.fixture
def folder(tmp_path):
    metrics = registry()
    with open_store(str(tmp_path / "reports.db"), metrics, create=True) as store:
        store.add([some(metrics["bloom"], 20_000, 5, 1)])
    return tmp_path


def hidden(folder):
    return [one.name for one in folder.iterdir() if one.name.startswith((".", "overstory-"))]


COMMAND = ["store", "backup", "reports.db", "monday.db"]


def test_a_backup_that_is_terminated_leaves_nothing(folder):
    before = {path.name for path in folder.iterdir()}
    assert end(folder, BACKUP, COMMAND, signal.SIGTERM) == 143
    assert {path.name for path in folder.iterdir()} == before


def test_what_a_killed_backup_left_is_named_by_the_next_one(folder):
    assert end(folder, BACKUP, COMMAND, signal.SIGKILL) == -signal.SIGKILL
    assert not (folder / "monday.db").exists()
    with open_store(str(folder / "reports.db")) as store:
        with pytest.raises(StoreError, match=r"monday.db.part: another backup is being written there, or one was kill"):
            store.backup(folder / "monday.db")
        shutil.rmtree(folder / "monday.db.part")
        assert store.backup(folder / "monday.db") == 5
    subprocess.run(["sha256sum", "--check", "monday.db.sha256"], cwd=folder, check=True, capture_output=True)
    assert restore(folder / "monday.db", str(folder / "restored.db")) == 5


def test_an_export_to_an_object_store_that_is_terminated_leaves_nothing(folder):
    pytest.importorskip("fsspec")
    arguments = ["export", "--store", "reports.db", "--registry", "metrics.toml", "memory://bucket"]
    assert end(folder, STAGED, arguments, signal.SIGTERM) == 143
    assert hidden(folder) == []


def test_a_statement_without_end_ends_by_a_signal():
    """Python would handle the signal after the statement: a copy of a large store takes minutes."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with closing(sqlite3.connect(":memory:")) as raw:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt), interruptible(raw):
                raw.execute("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# One bit turned in a backup: it is refused, or nothing of what is restored differs
PERIOD = 20_000


@pytest.fixture
def backup(tmp_path):
    metrics = registry(folder=tmp_path)
    with open_store(str(tmp_path / "store.db"), metrics, create=True) as store:
        for number, name in enumerate(("bloom", "colour", "size", "tree") * 2):
            store.add([some(metrics[name], PERIOD, 6_000, number)])
            if number == 3:
                store.compact(NOW)
        store.add_token("write", "app")
        assert store.backup(tmp_path / "backup.db") == 48_000
    return tmp_path / "backup.db"


def content(path):
    database = connect(str(path))
    try:
        with database.snapshot() as connection:
            return {
                table.name: sorted(
                    tuple(
                        value
                        for name, value in row._mapping.items()
                        if name != "id" or table.name.startswith("batch_ids")
                    )
                    for row in connection.execute(select(table))
                )
                for table in (*METADATA.sorted_tables, *map(ids_table, read_id_days(connection)))
            }
    finally:
        database.close()


def test_a_turned_bit_is_never_restored(backup):
    whole, sound, rng = backup.read_bytes(), content(backup), random.Random(19)
    for _ in range(25):
        spoiled = bytearray(whole)
        spoiled[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        backup.write_bytes(spoiled)
        with pytest.raises(StoreError):
            restore(backup, str(backup.with_name("refused.db")))
    backup.write_bytes(whole)
    assert restore(backup, str(backup.with_name("restored.db"))) == 48_000
    assert content(backup.with_name("restored.db")) == sound


def test_a_backup_that_was_used_as_a_store_is_backed_up_again(backup, tmp_path):
    metric = registry(folder=tmp_path)["bloom"]
    with open_store(str(backup)) as store:
        store.add([some(metric, PERIOD, 5, 99)])
        store.backup(tmp_path / "second.db")
        with pytest.raises(StoreError, match="or was used as a store since"):  # though its log has what was added
            restore(backup, str(tmp_path / "refused.db"))
    with pytest.raises(StoreError, match="or was used as a store since"):
        restore(backup, str(tmp_path / "refused.db"))
    assert restore(tmp_path / "second.db", str(tmp_path / "restored.db")) == 48_005


# PostgreSQL's own backup tools work on a store
def test_a_dump_restored_into_an_empty_database_is_the_store(server_folder, tmp_path):
    metrics = registry()
    metric = metrics["bloom"]
    with fresh("postgresql", server_folder) as url, fresh("postgresql", server_folder) as other:
        tools, dump = server(server_folder).bin_path, tmp_path / "reports.dump"
        first, second, late = (some(metric, PERIOD, 20, seed) for seed in range(3))
        with open_store(url, metrics, create=True) as store:
            store.add([first])
            store.compact(NOW)
            store.add([second])
            counts = store.counts(metric, 0, PERIOD)
        subprocess.run([tools / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
        subprocess.run([tools / "pg_restore", f"--dbname={other}", dump], check=True)
        with open_store(other) as restored:
            assert restored.counts(metric, 0, PERIOD) == counts
            assert restored.add([first, second, late]) == [False, False, True]
            assert restored.compact(NOW).reports == 40
            assert restored.counts(metric, 0, PERIOD)[PERIOD].num_reports == 60
