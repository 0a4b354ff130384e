"""Batch ids lie in a table for each day: a batch that is sent again meets its own, and a table is dropped whole."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import inspect, select, text

from overstory.collector.store import open_store
from overstory.collector.store.counts import keys_of
from overstory.collector.store.databases import sqlite
from overstory.collector.store.databases.database import IdsOfDay
from overstory.collector.store.metrics import StoredMetric, _write, read_stored_metrics
from overstory.collector.store.schema import (
    ABOUT,
    CHUNKS,
    IDS_DELETED,
    day_of_ids,
    ids_table,
    read_id_days,
)
from overstory.collector.store.upkeep import _delete_key, _note_day
from support.store_samples import DAY, NOW, received, registry, reports, some

PERIOD = 20_000


def days(store):
    with store._database.snapshot_of_ids() as connection:
        found = read_id_days(connection)
        names = set(inspect(connection).get_table_names())
    assert {name for name in names if name.startswith("batch_ids_")} == {ids_table(day).name for day in found}
    return found


@pytest.mark.parametrize(
    ("ends", "day"),
    [((PERIOD + 1) * DAY, PERIOD + 1), (PERIOD * DAY + 3600, PERIOD + 1), (PERIOD * DAY, PERIOD), (1, 1), (0, 0)],
)
def test_a_table_is_of_all_periods_that_are_over_when_its_day_begins(ends, day):
    assert day_of_ids(ends) == day


def test_metrics_share_the_table_of_a_day(store, metrics):
    store.add([some(metrics[name], PERIOD, 1, 1) for name in ("bloom", "colour", "size")])
    store.add([some(metrics["bloom"], PERIOD + 1, 1, 1)])
    until = metrics["bloom"].accept_until(PERIOD)
    assert days(store) == {PERIOD + 1: until, PERIOD + 2: until + DAY}
    assert store.summary().batch_ids == 4


def test_a_batch_that_is_sent_again_after_midnight_is_known(store, metrics):
    batch = some(metrics["bloom"], PERIOD, 5, 1)
    assert store.add([batch]) == [True]
    for day in range(1, 4):
        store.compact(NOW + day * DAY)
        assert store.add([some(metrics["bloom"], PERIOD + day, 1, day), batch]) == [True, False]
    assert store.counts(metrics["bloom"], PERIOD, PERIOD)[PERIOD].num_reports == 5


@pytest.mark.parametrize("graces", [(2, 30), (30, 2)])
def test_a_registry_with_another_grace_finds_the_ids_of_before(store, metrics, graces):
    end = (PERIOD + 1) * DAY
    batch = some(metrics["bloom"], PERIOD, 5, 1)
    assert store.add([batch._replace(forget_after=end + graces[0] * DAY)]) == [True]
    assert store.add([batch._replace(forget_after=end + graces[1] * DAY)]) == [False]
    assert store.compact(end + 30 * DAY - 1).forgotten == 0  # the longer one holds for both
    assert store.add([batch]) == [False]
    assert store.compact(end + 30 * DAY).forgotten == 1
    assert days(store) == {}


def test_dropping_goes_by_the_day_of_each_table(store, metrics):
    metric = metrics["bloom"]
    batches = [some(metric, PERIOD + number, 1, number) for number in range(4)]
    store.add(batches)
    done = store.compact(metric.accept_until(PERIOD + 1))
    assert (done.forgotten, done.remains) == (2, ())
    assert sorted(days(store)) == [PERIOD + 3, PERIOD + 4]
    assert store.last_day() == metric.accept_until(PERIOD + 1) // DAY
    assert store.add(batches[2:]) == [False, False]
    with store._database.snapshot() as connection:
        keys = connection.execute(text("SELECT key FROM about")).scalars().all()
    assert not [key for key in keys if str(PERIOD + 1) in key or str(PERIOD + 2) in key]


def test_a_dropping_that_is_killed_between_slices_is_taken_up_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "AT_ONCE", 10)
    metrics, rng = registry(), random.Random(1)
    metric = metrics["bloom"]
    ids = [rng.randbytes(16) for _ in range(600)]
    path = tmp_path / "store.db"
    with open_store(str(path), metrics, create=True) as store:
        sent = reports(metric, 1, rng)
        store.add([received(metric, PERIOD, sent, batch=one) for one in ids])
        until = metric.accept_until(PERIOD)
        write, left = store._database.write, iter(range(100))

        def killed(work):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return write(work)

        with monkeypatch.context() as patched:
            patched.setattr(store._database, "write", killed)
            with pytest.raises(KeyboardInterrupt):
                store._database.drop_ids(PERIOD + 1, until)
        assert 100 < store.summary().batch_ids < 500
        assert store.add([received(metric, PERIOD, sent, batch=max(ids))]) == [False]
        assert store.compact(until).forgotten > 100
        assert days(store) == {}
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not [one for one in ids if one in content]


def test_first_batches_of_many_days_at_once_are_counted_once(store_url):
    metrics, rng = registry(), random.Random(1)
    metric = metrics["colour"]
    batches = [some(metric, PERIOD + number % 12, 1, number) for number in range(48)]
    with open_store(store_url, metrics, create=True) as one, open_store(store_url, metrics) as other:
        ready = threading.Barrier(4)

        def send(store, order):
            ready.wait()
            return sum(sum(store.add(order[at : at + 6])) for at in range(0, 48, 6))

        with ThreadPoolExecutor(4) as beside:
            sent = [beside.submit(send, store, rng.sample(batches, 48)) for store in (one, other, one, other)]
            assert sum(work.result() for work in sent) == 48
        assert sorted(days(one)) == [PERIOD + 1 + number for number in range(12)]
        assert sum(counts.num_reports for counts in one.counts(metric, 0, PERIOD + 12).values()) == 48


@pytest.fixture
def pair(postgres_url):
    with open_store(postgres_url, registry(), create=True) as one, open_store(postgres_url, registry()) as other:
        yield one, other


def test_a_table_that_somebody_writes_to_is_dropped_later(pair):
    store, other = pair
    metric = registry()["bloom"]
    until = metric.accept_until(PERIOD)
    first, second = (some(metric, PERIOD, 1, number) for number in range(2))
    store.add([first])
    with other._database.engine.begin() as writing:
        other._database.insert_ids(writing, {PERIOD + 1: IdsOfDay(until, [second.batch])})
        done = store.compact(until)
        assert done.forgotten == 0
        assert f"batch_ids_{PERIOD + 1}: it is in use, or another user's" in done.remains
        assert store.last_day() is None
    assert store.add([first, second]) == [False, False]
    assert store.compact(until).forgotten == 2
    assert days(store) == {}


def test_who_waits_for_the_dropping_of_a_table_sees_that_it_is_gone(pair):
    one, other = pair
    first, late = (some(registry()["bloom"], PERIOD, 1, number) for number in range(2))
    one.add([first])
    with ThreadPoolExecutor(2) as beside:
        with one._database.engine.begin() as dropping:
            dropping.execute(text("LOCK TABLE batch_ids IN ACCESS EXCLUSIVE MODE"))
            dropping.execute(text(f"DROP TABLE batch_ids_{PERIOD + 1}"))
            dropping.execute(text("DELETE FROM batch_ids"))
            counting = beside.submit(other.summary)
            until_it_waits(one, counting)
            adding = beside.submit(other.add, [late])
            until_it_waits(one, adding, 2)
        assert counting.result().batch_ids < 2
        assert adding.result() == [True]
        assert sorted(days(one)) == [PERIOD + 1]
        assert one.add([late]) == [False]


def test_a_backup_and_a_summary_hold_a_dropping_back_and_see_every_table(pair):
    store, other = pair
    metric = registry()["bloom"]
    store.add([some(metric, PERIOD, 1, 1)])
    with other._database.snapshot_of_ids() as reading:
        assert store.compact(metric.accept_until(PERIOD)).forgotten == 0
        assert list(read_id_days(reading)) == [PERIOD + 1]
        assert len(reading.execute(select(ids_table(PERIOD + 1))).all()) == 1
    assert store.compact(metric.accept_until(PERIOD)).forgotten == 1


def test_batches_are_counted_once_while_tables_are_dropped(store_url):
    metrics = registry()
    metric = metrics["colour"]
    lasting = [some(metric, PERIOD + 50, 1, number) for number in range(80)]
    with open_store(store_url, metrics, create=True) as one, open_store(store_url, metrics) as other:
        done = threading.Event()

        def forget():
            dropped = day = 0
            while not done.is_set() or day < 3:
                day += 1
                other.add([some(metric, PERIOD + day % 7, 0, day)])
                # One day later each time, so that each time something is forgotten.
                dropped += other.compact(metric.accept_until(PERIOD + 7) + day).forgotten
                other._database.write(
                    lambda connection: connection.execute(text("DELETE FROM about WHERE key = 'forgotten'"))
                )
            return dropped

        def send(seed):
            order = random.Random(seed).sample(lasting, 80)
            return sum(
                one.add([*order[at : at + 4], some(metric, PERIOD + at % 7, 0, at)])[:4].count(True)
                for at in range(0, 80, 4)
            )

        with ThreadPoolExecutor(3) as beside:
            forgetting = beside.submit(forget)
            sent = [beside.submit(send, seed) for seed in range(2)]
            total = sum(work.result() for work in sent)
            done.set()
            assert forgetting.result() > 3
        assert total == 80
        assert one.counts(metric, PERIOD + 50, PERIOD + 50)[PERIOD + 50].num_reports == 80


WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


def until_it_waits(store, work, number=1):
    end = time.monotonic() + 20
    while not work.done() and time.monotonic() < end:
        with store._database.snapshot() as connection:
            if connection.execute(WAITING).scalar_one() >= number:
                return
        time.sleep(0.01)
    raise AssertionError("nobody waited")


# Two collectors that do something for the first time at the same moment: one does it, the other waits and goes on
def test_two_that_start_with_the_same_new_metrics(postgres_url):
    metrics = registry()
    wanted = {(entry.metric, entry.mechanism.digest): entry for entry in map(StoredMetric.of, metrics.values())}
    with open_store(postgres_url, create=True) as one, ThreadPoolExecutor(1) as beside:
        with one._database.engine.begin() as connection:
            _write(one._database, connection, wanted)
            late = beside.submit(open_store, postgres_url, metrics)
            until_it_waits(one, late)
        with late.result() as other, other._database.snapshot() as connection:
            assert set(read_stored_metrics(connection)) == set(wanted)


def test_two_that_forget_for_the_first_time(pair):
    one, other = pair
    with ThreadPoolExecutor(1) as beside:
        with one._database.engine.begin() as connection:
            _note_day(one._database, connection, "1")
            late = beside.submit(other.compact, NOW)
            until_it_waits(one, late)
        assert late.result().forgotten == 0
    with one._database.snapshot() as connection:
        rows = connection.execute(select(ABOUT.c.value).where(ABOUT.c.key == IDS_DELETED)).scalars().all()
    assert rows == [str(int(NOW // DAY))]


def test_two_that_delete_the_same_few_reports(pair):
    one, other = pair
    one.add([some(registry()["bloom"], PERIOD, 9, 1)])
    one.compact(NOW)
    with ThreadPoolExecutor(1) as beside:
        with one._database.engine.begin() as connection:
            (key,) = keys_of(connection, CHUNKS)
            assert _delete_key(connection, key) == [9]
            late = beside.submit(other.retain, NOW + 1000 * DAY)
            until_it_waits(one, late)
        assert late.result().reports == 0
        assert one.periods("bloom") == []
