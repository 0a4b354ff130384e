"""PostgreSQL's own files after a compaction: no folded report, no transaction that joins one to a batch id."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import select
from store_databases import fresh
from store_samples import DAY, NOW, received, registry, reports

from overstory.collector.store import open_store
from overstory.collector.store.erasing import REST, Eraser
from overstory.collector.store.schema import BATCH_IDS

PERIOD = 20_000
PAGE = 8192
BIRTH = 0
"""Where a tuple's header has the transaction that wrote it."""


@pytest.fixture
def url(shared_folder: Path) -> Iterator[str]:
    with fresh("postgresql", shared_folder) as one:
        yield one


def files(url: str, table: str | None = None) -> dict[str, bytes]:
    """Return the database's files, all of them or one table's heap, as they are on the disk."""
    with psycopg.connect(url, autocommit=True) as sql:
        sql.execute("CHECKPOINT")
        folder = Path(sql.execute("SHOW data_directory").fetchone()[0])
        if table is not None:
            paths = [folder / sql.execute("SELECT pg_relation_filepath(%s::regclass)", [table]).fetchone()[0]]
        else:
            number = sql.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()[0]
            paths = list((folder / "base" / str(number)).iterdir())
        return {path.name: path.read_bytes() for path in paths}


def births(heap: bytes) -> list[int]:
    """Return the transactions that wrote the tuples on a heap's pages, those of dead tuples too.

    Line pointers of dead tuples are followed as long as they are there; so a test looks for payloads, too.
    """
    numbers = []
    for start in range(0, len(heap), PAGE):
        page = heap[start : start + PAGE]
        lower, upper = struct.unpack_from("<HH", page, 12)
        for at in range(24, lower, 4):
            (pointer,) = struct.unpack_from("<I", page, at)
            offset, flags = pointer & 0x7FFF, pointer >> 15 & 3
            if flags == 1 and offset >= upper:
                numbers.append(struct.unpack_from("<I", page, offset + BIRTH)[0])
    return numbers


def commits(url: str, rng: random.Random, *, folded: bool = True) -> tuple[list[bytes], list[bytes]]:
    """Add 12 batches of 30 reports one by one, and compact after every fourth; return ids and payloads as they came."""
    metrics = registry()
    ids, payloads = [], []
    with open_store(url, metrics, create=True) as store:
        for number in range(12):
            one = received(metrics["bloom"], PERIOD, reports(metrics["bloom"], 30, rng), batch=rng.randbytes(16))
            ids.append(one.batch)
            payloads.append(one.bits)
            assert store.add([one]) == [True]
            if folded and number % 4 == 3:
                done = store.compact(NOW)
                assert (done.reports, done.remains) == (120, ())
                rested(store)
    return ids, payloads


def rested(store: Any) -> None:
    """Let all tables have rested since they were last rewritten."""
    store._database._eraser._rest_until.clear()


def test_nothing_folded_is_in_the_files(url: str) -> None:
    _, payloads = commits(url, random.Random(1))
    assert present(url, payloads) == 0
    assert births(files(url, "inbox").popitem()[1]) == []


def test_payloads_that_were_not_folded_are_seen_in_the_files(url: str) -> None:
    # That the test above looks in the right place, and reads tuples rightly.
    _, payloads = commits(url, random.Random(1), folded=False)
    assert present(url, payloads) == 12
    with psycopg.connect(url) as sql:
        for table in ("inbox", "batch_ids"):
            seen = {int(one) for (one,) in sql.execute(f"SELECT xmin FROM {table}").fetchall()}
            assert set(births(files(url, table).popitem()[1])) == seen
            assert len(seen) == 12
    joined = zip(births(files(url, "batch_ids").popitem()[1]), births(files(url, "inbox").popitem()[1]), strict=True)
    assert all(left == right for left, right in joined)


def present(url: str, needles: list[bytes]) -> int:
    content = b"".join(files(url).values())
    return sum(needle in content for needle in needles)


def test_a_partly_filled_chunk_and_earlier_counts_are_not_in_the_files(url: str) -> None:
    metrics, rng = registry(), random.Random(1)
    kept = []
    with open_store(url, metrics, create=True) as store:
        for _ in range(3):
            store.add([received(metrics["bloom"], PERIOD, reports(metrics["bloom"], 2000, rng))])
            assert store.compact(NOW).remains == ()
            rested(store)
            with psycopg.connect(url) as sql:
                kept.append([sql.execute("SELECT bits FROM chunks").fetchone()[0][:100]])
                kept.append([sql.execute("SELECT counts FROM counts").fetchone()[0][:100]])
    assert [present(url, one) for one in kept] == [0, 0, 0, 0, 1, 1]


def test_no_transaction_number_is_of_an_arrival(url: str) -> None:
    ids, _ = commits(url, random.Random(1))
    heap = births(files(url, "batch_ids").popitem()[1])
    assert len(heap) == 12
    assert len(set(heap)) == 1
    with psycopg.connect(url) as sql:
        for order in ("xmin::text::bigint, ctid", "ctid"):
            rows = sql.execute(f"SELECT id FROM batch_ids ORDER BY {order}").fetchall()
            assert [row[0] for row in rows] == sorted(ids) != ids


def test_forgotten_ids_are_not_in_the_files(url: str) -> None:
    ids, _ = commits(url, random.Random(1))
    assert present(url, ids) == 12
    with open_store(url, registry()) as store:
        done = store.compact(NOW + 400 * DAY)
    assert (done.forgotten, done.remains) == (12, ())
    assert present(url, ids) == 0


def test_reports_past_retention_are_not_in_the_files(url: str) -> None:
    commits(url, random.Random(1))
    with psycopg.connect(url) as sql:
        bits = sql.execute("SELECT bits FROM chunks").fetchone()[0]
    assert present(url, [bits[:50]]) == 1
    with open_store(url, registry()) as store:
        assert store.retain(NOW + 400 * DAY).reports == 360
    assert present(url, [bits[:50]]) == 0


def test_a_table_in_use_is_not_waited_for_and_is_rewritten_later(url: str) -> None:
    metrics, rng = registry(), random.Random(1)
    first, second = (received(metrics["bloom"], PERIOD, reports(metrics["bloom"], 30, rng)) for _ in range(2))
    with open_store(url, metrics, create=True) as store, psycopg.connect(url) as reader:
        store.add([first])
        reader.execute("LOCK TABLE inbox IN ACCESS SHARE MODE")
        began = time.monotonic()
        assert store.compact(NOW).remains[0] == "inbox: another transaction holds it"
        assert time.monotonic() - began < 5
        store.add([second])  # who adds reports is not kept waiting
        assert present(url, [first.bits]) == 1
        reader.rollback()
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM about")
        rested(store)
        assert store.compact(NOW).remains[0] == "inbox: an open transaction can still see deleted rows"
        assert reader.execute("SELECT count(*) FROM inbox").fetchone() == (1,)  # that transaction loses nothing
        reader.rollback()
        rested(store)
        assert store.compact(NOW).remains == ()
    assert present(url, [first.bits, second.bits]) == 0


def test_a_user_who_does_not_own_the_tables_hears_of_it(url: str) -> None:
    metrics = registry()
    with open_store(url, metrics, create=True) as store:
        store.add([received(metrics["bloom"], PERIOD, reports(metrics["bloom"], 30, random.Random(1)))])
    name = urlsplit(url).path.removeprefix("/")
    with psycopg.connect(url, autocommit=True) as sql:
        sql.execute(f"CREATE ROLE {name} LOGIN")
        try:
            sql.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}")
            sql.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}")
            with open_store(url.replace("postgres:@", f"{name}:@"), metrics) as store:
                done = store.compact(NOW)
                assert done.reports == 30
                assert [one.split(":")[0] for one in done.remains] == ["inbox", "batch_ids", "chunks", "counts"]
                assert all("let the collector connect as the table's owner" in one for one in done.remains)
        finally:
            sql.execute(f"DROP OWNED BY {name}")
            sql.execute(f"DROP ROLE {name}")


def test_a_table_rests_for_as_long_as_its_rewriting_took(url: str) -> None:
    seconds = iter([0.0, 0.0, 2.0, 1999.0, 2003.0, 2003.0, 2003.0])
    with open_store(url, registry(), create=True) as store:
        eraser = Eraser(store._database, lambda: next(seconds))
        eraser._owed.intersection_update({"inbox"})
        assert eraser.erase(()) == ()  # took two seconds
        assert eraser._rest_until == {"inbox": 2.0 + 2.0 * REST["inbox"]}
        before = files(url, "inbox").keys()
        eraser.erase({"inbox"})  # at 1999: its turn has not come
        assert files(url, "inbox").keys() == before
        eraser.erase(())  # at 2003
        assert files(url, "inbox").keys() != before


def test_ids_sent_again_while_they_are_rewritten_are_counted_once(url: str) -> None:
    metrics, rng = registry(), random.Random(1)
    metric = metrics["colour"]
    batches = [received(metric, PERIOD, reports(metric, 1, rng), batch=rng.randbytes(16)) for _ in range(400)]
    with open_store(url, metrics, create=True) as store, open_store(url, metrics) as other:
        adding = [threading.Thread(target=lambda part=part: results.append(store.add(part))) for part in parts(batches)]
        results: list[list[bool]] = []
        done = threading.Event()

        def rewrite(one: Any) -> None:
            while not done.is_set():
                rested(one)
                one.compact(NOW)

        upkeep = [threading.Thread(target=rewrite, args=(one,)) for one in (store, other)]
        for thread in upkeep + adding:
            thread.start()
        for thread in adding:
            thread.join()
        done.set()
        for thread in upkeep:
            thread.join()
        assert sum(map(sum, results)) == 400
        store.compact(NOW)
        assert store.counts(metric, PERIOD, PERIOD)[PERIOD].num_reports == 400
        with store._database.snapshot() as connection:
            assert set(connection.execute(select(BATCH_IDS.c.id)).scalars()) == {one.batch for one in batches}


def parts(batches: list[Any]) -> list[list[Any]]:
    """Every batch four times, in calls of ten."""
    rng = random.Random(2)
    cut = []
    for _ in range(4):
        rng.shuffle(batches)
        cut += [batches[at : at + 10] for at in range(0, len(batches), 10)]
    return cut
