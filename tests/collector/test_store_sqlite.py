"""What is special to the embedded store: writers take turns, and its log is copied while they write."""

import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext

import pytest

from overstory.collector.store import StoreError, open_store
from overstory.collector.store.databases import sqlite
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.databases.sqlite import FairLock
from support.processes import output_of, start
from support.store_samples import NOW, registry, some

PERIOD = 20_000
WRITERS = 4


def busy_writers(path):
    metric = registry(folder=path.parent)["bloom"]
    with open_store(str(path)) as store, ThreadPoolExecutor(WRITERS) as threads:
        for _ in threads.map(lambda seed: store.add([some(metric, PERIOD, 50, seed)]), range(200)):
            pass


def test_writers_of_one_process_take_turns_and_none_has_to_ask_again(tmp_path, monkeypatch):
    open_store(str(tmp_path / "store.db"), create=True).close()
    monkeypatch.setattr(sqlite, "PATIENCE", 0.0)  # who finds the database busy fails at once
    busy_writers(tmp_path / "store.db")
    monkeypatch.setattr(sqlite, "FairLock", nullcontext)
    with pytest.raises(StoreError, match="held the database for too long"):  # as it would be if they did not
        busy_writers(tmp_path / "store.db")


def test_what_was_checkpointed_is_in_the_file_itself(tmp_path):
    metric = registry(folder=tmp_path)["bloom"]
    with open_store(str(tmp_path / "store.db"), create=True) as store:
        store.add([some(metric, PERIOD, 50, 1)])
        database = connect(str(tmp_path / "store.db"))
        assert in_the_file_alone(tmp_path) == 0
        database.checkpoint()
        assert in_the_file_alone(tmp_path) == 50
        database.close()


@pytest.mark.parametrize("checkpointing", [True, False])
def test_a_log_that_is_checkpointed_stays_short_however_much_is_written(tmp_path, checkpointing):
    metric = registry(folder=tmp_path)["bloom"]
    batch = some(metric, PERIOD, 50_000, 1)
    over = threading.Event()
    with open_store(str(tmp_path / "store.db"), create=True) as store, ThreadPoolExecutor(1) as thread:

        def checkpoint():
            while checkpointing and not over.wait(0.001):
                store.checkpoint()

        done = thread.submit(checkpoint)
        longest = 0
        for number in range(400):  # 200 kilobytes each
            store.add([batch._replace(batch=number.to_bytes(16, "big"))])
            longest = max(longest, (tmp_path / "store.db-wal").stat().st_size)
        over.set()
        done.result(60)
    assert (longest < 20 << 20) == checkpointing, longest


def test_a_compaction_checkpoints_what_it_wrote(tmp_path):
    metrics = registry(folder=tmp_path)
    with open_store(str(tmp_path / "store.db"), metrics, create=True) as store:
        store.add([some(metrics["bloom"], PERIOD, 50, 1)])
        assert store.compact(NOW).reports == 50
        assert in_the_file_alone(tmp_path, "chunks") == 50


LOADS = """
import sys
from support.store_samples import registry
from overstory.collector.store import open_store
with open_store(sys.argv[1], registry(), create=True) as store:
    print("numba" in sys.modules)
    store.warm_up()
    print("numba" in sys.modules)
"""


def test_counting_is_loaded_before_it_is_needed(tmp_path):
    assert output_of(start(LOADS, tmp_path / "warm.db")).split() == ["False", "True"]


def in_the_file_alone(folder, table="inbox"):
    shutil.copyfile(folder / "store.db", folder / "alone.db")
    with closing(sqlite3.connect(folder / "alone.db")) as alone:
        if not alone.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            return 0
        return alone.execute(f"SELECT coalesce(sum(num_reports), 0) FROM {table}").fetchone()[0]


def test_who_waits_is_served_before_who_comes_again():
    lock, served = FairLock(), []

    def wait():
        with lock:
            served.append("waiting")

    thread = threading.Thread(target=wait)
    with lock:
        thread.start()
        while not lock._turnstile.locked():
            time.sleep(0.001)
    with lock:
        served.append("again")
    thread.join()
    assert served == ["waiting", "again"]
