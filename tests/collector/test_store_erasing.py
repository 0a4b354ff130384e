"""PostgreSQL's own files after a compaction: no folded report, no transaction that joins one to a batch id."""

import random
import sqlite3
import struct
import threading
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import delete, select

from overstory.cli.main import main
from overstory.collector.ingest import Released
from overstory.collector.store import open_store
from overstory.collector.store.databases import postgres
from overstory.collector.store.databases.postgres import REST, Eraser
from overstory.collector.store.operations import CollectorState
from overstory.collector.store.schema import ABOUT, ids_table, ids_table_name
from support.store_samples import DAY, NOW, received, registry, reports

PERIOD = 20_000
IDS = ids_table_name(PERIOD + 1)
PAGE = 8192
BIRTH = 0
"""Where a tuple's header has the transaction that wrote it."""


@pytest.fixture
def url(postgres_url):
    return postgres_url


def ask(url, *statements):
    with psycopg.connect(url, autocommit=True) as sql:
        for statement in statements:
            answer = sql.execute(statement)
        return answer.fetchall() if answer.description else []


def files(url, table=None):
    folder = Path(ask(url, "CHECKPOINT", "SHOW data_directory")[0][0])
    if table is not None:
        paths = [folder / ask(url, f"SELECT pg_relation_filepath('{table}'::regclass)")[0][0]]
    else:
        number = ask(url, "SELECT oid FROM pg_database WHERE datname = current_database()")[0][0]
        paths = list((folder / "base" / str(number)).iterdir())
    return {path.name: path.read_bytes() for path in paths}


def births(heap):
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


def commits(url, rng, *, folded=True):
    """Add 12 batches of 30 reports one by one, and compact after every fourth; return ids and payloads as they came."""
    ids, payloads = [], []
    with open_store(url, registry(), create=True) as store:
        for number in range(12):
            one = bloom(rng)._replace(batch=rng.randbytes(16))
            ids.append(one.batch)
            payloads.append(one.bits)
            assert store.add([one]) == [True]
            if folded and number % 4 == 3:
                done = store.compact(NOW)
                assert (done.reports, done.remains) == (120, ())
                rested(store)
    return ids, payloads


def bloom(rng, count=30, period=PERIOD):
    metric = registry()["bloom"]
    return received(metric, period, reports(metric, count, rng))


def rested(store):
    store._database.write(
        lambda connection: connection.execute(delete(ABOUT).where(ABOUT.c.key.startswith("rest of ")))
    )


def test_nothing_folded_forgotten_or_past_retention_is_in_the_files(url):
    ids, payloads = commits(url, random.Random(1))
    assert present(url, payloads) == 0
    assert births(files(url, "inbox").popitem()[1]) == []
    heap = births(files(url, IDS).popitem()[1])
    assert (len(heap), len(set(heap))) == (12, 1), "no transaction number is of an arrival"
    for order in ("xmin::text::bigint, ctid", "ctid"):
        rows = ask(url, f"SELECT id FROM {IDS} ORDER BY {order}")
        assert [row[0] for row in rows] == sorted(ids) != ids
    bits = ask(url, "SELECT bits FROM chunks")[0][0][:50]
    assert (present(url, ids), present(url, [bits])) == (12, 1)
    with open_store(url, registry()) as store:
        rested(store)
        done = store.compact(NOW + 400 * DAY)
        assert (done.forgotten, done.remains) == (12, ())
        assert present(url, ids) == 0
        assert store.retain(NOW + 400 * DAY).reports == 360
    assert present(url, [bits]) == 0


def test_payloads_that_were_not_folded_are_seen_in_the_files(url):
    # That the test above looks in the right place, and reads tuples rightly.
    _, payloads = commits(url, random.Random(1), folded=False)
    assert present(url, payloads) == 12
    for table in ("inbox", IDS):
        seen = {int(one) for (one,) in ask(url, f"SELECT xmin FROM {table}")}
        assert set(births(files(url, table).popitem()[1])) == seen
        assert len(seen) == 12
    joined = zip(births(files(url, IDS).popitem()[1]), births(files(url, "inbox").popitem()[1]), strict=True)
    assert all(left == right for left, right in joined)


def present(url, needles):
    content = b"".join(files(url).values())
    return sum(needle in content for needle in needles)


def test_samples_for_the_planner_hold_no_report_and_no_id(url):
    """ANALYZE copied whole payloads into pg_statistic, where they outlived the compaction."""
    rng = random.Random(1)
    ids, payloads = commits(url, rng, folded=False)
    sampled = {f"{table}.{name}" for table, name in ask(url, "ANALYZE", SAMPLED)}
    assert {"inbox.num_reports", "inbox.metric", "tokens.role"} - sampled == {"tokens.role"}  # it is empty
    with open_store(url, registry()) as store:
        assert store.compact(NOW).remains == ()
        bits = ask(url, "SELECT bits FROM chunks")[0][0][:50]
        ask(url, "ANALYZE")
        rested(store)
        store.compact(NOW + 400 * DAY)
        assert store.retain(NOW + 400 * DAY).reports == 360
    assert present(url, [*payloads, *ids, bits]) == 0


SAMPLED = "SELECT tablename, attname FROM pg_stats WHERE schemaname = 'public'"


def test_samples_that_are_taken_stay_in_the_files(url):
    # That the tests above look in the right place.
    ids, payloads = commits(url, random.Random(1), folded=False)
    sampled = [f"ALTER TABLE {table} SET STATISTICS -1" for table in ("inbox ALTER bits", f"{IDS} ALTER id")]
    ask(url, *sampled, "ANALYZE")
    with open_store(url, registry()) as store:
        assert store.compact(NOW).remains == ()
        assert present(url, payloads) == 12
        rested(store)
        store.compact(NOW + 400 * DAY)
    assert present(url, ids) == 12


LOGGING = (
    "log_statement = 'mod'",
    "log_min_duration_statement = '1d'",
    "log_min_duration_sample = '1d'",
    "log_transaction_sample_rate = 0.001",
    "log_parameter_max_length_on_error = 9",
    "auto_explain.log_min_duration = 250",
)


@pytest.mark.parametrize("setting", LOGGING)
def test_a_server_that_logs_values_is_named(url, setting):
    name, silent = urlsplit(url).path.removeprefix("/"), {"auto_explain.log_min_duration": -1}
    silent |= dict.fromkeys(("log_parameter_max_length", "log_parameter_max_length_on_error"), 0)
    with open_store(url, registry(), create=True) as store:
        assert store.compact(NOW).remains == ()
    ask(url, f"ALTER DATABASE {name} SET {setting}")
    with open_store(url, registry()) as store:
        (named,) = store.compact(NOW).remains
    explained = "auto_explain.log_min_duration = -1"
    assert ("set " + (explained if setting.startswith("auto") else "log_parameter_max_length = 0")) in named
    ask(url, *(f"ALTER DATABASE {name} SET {key} = {value}" for key, value in silent.items()))
    with open_store(url, registry()) as store:
        assert store.compact(NOW).remains == ()


LARGE = (("bits", "chunks"), ("counts", "counts"))


def test_a_partly_filled_chunk_and_earlier_counts_are_not_in_the_files(url):
    rng = random.Random(1)
    kept = []
    with open_store(url, registry(), create=True) as store:
        for _ in range(3):
            store.add([bloom(rng, 2000)])
            assert store.compact(NOW).remains == ()
            rested(store)
            kept += [[ask(url, f"SELECT {of} FROM {table}")[0][0][:100]] for of, table in LARGE]
    assert [present(url, one) for one in kept] == [0, 0, 0, 0, 1, 1]


def test_no_number_of_postgresql_shows_the_order_of_chunks(url):
    """Nor of counts: not a transaction's number, not a place in the file, not the number of what lies outside a row."""
    rng = random.Random(1)
    with open_store(url, registry(), create=True) as store:
        for period in rng.sample(range(PERIOD, PERIOD + 12), 12):
            store.add([bloom(rng, 2000, period)])
            store.compact(NOW)
        assert order_of(url) != sorted(order_of(url))
        rested(store)
        store.add([bloom(rng, 2000)])
        assert store.compact(NOW).remains == ()
        own = order_of(url, "id")
        assert [order_of(url, order) for order in OTHER_ORDERS] == [own] * len(OTHER_ORDERS)
        for table in ("chunks", "counts"):
            assert ask(url, f"SELECT count(DISTINCT xmin::text) FROM {table}") == [(1,)]
        assert order_of(url, "ctid", "counts") == list(range(PERIOD, PERIOD + 12))


OTHER_ORDERS = ("ctid", "xmin::text::bigint, ctid", "pg_column_toast_chunk_id(bits)")


def order_of(url, order="ctid", table="chunks"):
    return [period for (period,) in ask(url, f"SELECT period FROM {table} ORDER BY {order}")]


def test_attempts_while_a_transaction_is_open_do_not_pile_up_copies(url):
    rng = random.Random(1)
    sizes = []
    with open_store(url, registry(), create=True) as store, psycopg.connect(url) as reader:
        store.add([bloom(rng, 40_000)])
        store.compact(NOW)
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM about")
        for number in range(5):
            ask(url, "UPDATE about SET value = 'x' WHERE key = 'owed to chunks'")
            rested_with_reasons(url)
            assert "chunks: an open transaction can still see deleted rows" in store.compact(NOW).remains, number
            sizes += ask(url, "SELECT pg_total_relation_size('chunks')")
        reader.rollback()
        rested_with_reasons(url)
        assert store.compact(NOW).remains == ()
    assert len(set(sizes)) == 1


def rested_with_reasons(url):
    ask(
        url,
        "UPDATE about SET value = '0 0 ' || substr(value, 1 + length(split_part(value, ' ', 1)) + 1 "
        "+ length(split_part(value, ' ', 2)) + 1) WHERE key LIKE 'rest of %'",
    )


def test_what_operators_had_deleted_is_not_in_the_files(url):
    rng = random.Random(1)
    release, collector = rng.randbytes(16), CollectorState("5f3a9c0177", "0.2.0", int(NOW), int(NOW), 0)
    refused = {("bloom", PERIOD, "a reason to look for"): 1}
    with open_store(url, registry(), create=True) as store:
        store.compact(NOW)  # a store without marks is rewritten once
        rested(store)
        one = bloom(rng)
        store.add([one._replace(released=Released(release, 0))])
        store.report_state(collector, refused)
        note = store.add_note("Jane Doe broke the build", PERIOD)
        needles = [release, collector.id.encode(), b"a reason to look for", b"Jane Doe"]
        assert [present(url, [needle]) for needle in needles] == [1, 1, 1, 1]
        store.remove_note(note.id)
        store.compact(NOW)
        assert store.retain(NOW + 400 * DAY).remains == ()
    assert [present(url, [needle]) for needle in needles] == [0, 0, 0, 0]


def test_a_table_in_use_is_not_waited_for_and_is_rewritten_later(url):
    rng = random.Random(1)
    first, second = (bloom(rng) for _ in range(2))
    with open_store(url, registry(), create=True) as store, psycopg.connect(url) as reader:
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


def test_a_user_who_does_not_own_the_tables_hears_of_it(url):
    with open_store(url, registry(), create=True) as store:
        store.add([bloom(random.Random(1))])
    name = urlsplit(url).path.removeprefix("/")
    with psycopg.connect(url, autocommit=True) as sql:
        sql.execute(f"CREATE ROLE {name} LOGIN")
        try:
            sql.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}")
            sql.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}")
            with open_store(url.replace("postgres:@", f"{name}:@"), registry()) as store:
                done = store.compact(NOW)
                assert done.reports == 30
                assert [one.split(":")[0] for one in done.remains] == ["inbox", "chunks", "counts", IDS]
                assert all("let the collector connect as the table's owner" in one for one in done.remains)
        finally:
            sql.execute(f"DROP OWNED BY {name}")
            sql.execute(f"DROP ROLE {name}")


def heaps(url):
    tables = [*REST, *([IDS] if ask(url, f"SELECT to_regclass('{IDS}')")[0][0] else [])]
    return {table: next(iter(files(url, table))) for table in tables}


def test_a_table_rests_for_as_long_as_its_rewriting_took(url):
    seconds = iter([10.0, 12.0, 1999.0, 2012.0, 2012.0, 2012.0, 2012.0])
    with open_store(url, registry(), create=True) as store:
        mark(url, owed=["inbox"])
        eraser = Eraser(store._database, lambda _: next(seconds))
        assert eraser.erase(()) == ()  # took two seconds
        rest = ask(url, "SELECT value FROM about WHERE key = 'rest of inbox'")[0][0]
        assert rest == f"12.0 {12.0 + 2.0 * REST['inbox']} "
        before = heaps(url)
        mark(url, owed=["inbox"])
        eraser.erase(())  # at 1999: its turn has not come
        assert heaps(url) == before
        eraser.erase(())  # at 2012
        assert {table for table, name in heaps(url).items() if before[table] != name} == {"inbox"}


def mark(url, owed):
    with psycopg.connect(url) as sql:
        sql.execute("DELETE FROM about WHERE key LIKE 'owed to %'")
        for table in REST:
            sql.execute("INSERT INTO about VALUES (%s, %s)", [f"owed to {table}", "x" if table in owed else ""])


def test_processes_one_after_the_other_rewrite_a_table_once(url):
    commits(url, random.Random(1), folded=False)
    seen = []
    for number in range(4):
        with open_store(url, registry()) as store:  # as the command line does, or a collector that starts again
            rested(store)
            done = store.compact(NOW)
            assert (done.reports, done.remains) == (0 if number else 360, ())
        seen.append(heaps(url))
    assert seen[1:] == seen[:1] * 3


def test_a_backup_holds_no_marks(url, tmp_path):
    commits(url, random.Random(1))
    with open_store(url, registry()) as store:
        store.backup(tmp_path / "backup.db")
    with closing(sqlite3.connect(tmp_path / "backup.db")) as sql:
        keys = [key for (key,) in sql.execute("SELECT key FROM about")]
    assert keys
    assert not [key for key in keys if key.startswith(("owed to ", "rest of "))]


def test_collectors_share_a_tables_rest(url, monkeypatch):
    for table in REST:
        monkeypatch.setitem(REST, table, 10**6)
    monkeypatch.setattr(postgres, "REST_OF_IDS", 10**6)
    rng = random.Random(1)
    first, second = (bloom(rng) for _ in range(2))
    with open_store(url, registry(), create=True) as store, open_store(url, registry()) as other:
        store.add([first])
        store.compact(NOW)
        before = heaps(url)
        store.add([second])
        assert other.compact(NOW).reports == 30
        assert heaps(url) == before
        assert present(url, [second.bits]) == 1
        rested(store)
        store.compact(NOW)  # which deleted nothing itself
        assert present(url, [first.bits, second.bits]) == 0


def test_what_a_process_left_owed_the_next_one_rewrites(url, monkeypatch):
    commits(url, random.Random(1))
    one = bloom(random.Random(2))
    with monkeypatch.context() as patched, open_store(url, registry()) as store:
        patched.setattr(Eraser, "erase", lambda *_: ())  # killed just before it
        store.add([one])
        assert store.compact(NOW).reports == 30
    assert present(url, [one.bits]) == 1
    with open_store(url, registry()) as store:
        rested(store)
        store.compact(NOW)
    assert present(url, [one.bits]) == 0


def test_rows_deleted_while_their_table_is_rewritten_stay_owed(url, monkeypatch):
    commits(url, random.Random(1), folded=False)
    one = bloom(random.Random(2))
    rewrite = Eraser._rewrite
    with open_store(url, registry()) as store, open_store(url, registry()) as other:

        def overtaken(eraser, connection, table):
            why = rewrite(eraser, connection, table)
            if table == "inbox":
                other.add([one])
                assert other.compact(NOW).reports == 30
            return why

        with monkeypatch.context() as patched:
            patched.setattr(Eraser, "_rewrite", overtaken)
            assert store.compact(NOW).reports == 360
        assert present(url, [one.bits]) == 1
        rested(store)
        assert store.compact(NOW).remains == ()
        assert present(url, [one.bits]) == 0


def test_retention_says_what_it_left_readable(url, capsys):
    commits(url, random.Random(1))
    with psycopg.connect(url) as reader:
        bits = reader.execute("SELECT bits FROM chunks").fetchone()[0][:50]  # and leaves its transaction open
        assert main(["store", "compact", url]) == 0
        assert capsys.readouterr().out.endswith(
            "360 reports past retention deleted, and counts of fewer than 10 together\n"
            "still in the database's files: chunks: another transaction holds it\n"
        )
        with open_store(url, registry()) as store:  # and again while the table rests, for who asks later
            assert store.retain(NOW + 400 * DAY).remains == ("chunks: another transaction holds it",)
    assert present(url, [bits]) == 1
    with open_store(url, registry()) as store:
        rested(store)
        assert store.retain(NOW + 400 * DAY).remains == ()
    assert present(url, [bits]) == 0


def test_ids_sent_again_while_they_are_rewritten_are_counted_once(url):
    metrics, rng = registry(), random.Random(1)
    metric = metrics["colour"]
    batches = [received(metric, PERIOD, reports(metric, 1, rng), batch=rng.randbytes(16)) for _ in range(400)]
    with open_store(url, metrics, create=True) as store, open_store(url, metrics) as other:
        adding = [threading.Thread(target=lambda part=part: results.append(store.add(part))) for part in parts(batches)]
        results = []
        done = threading.Event()

        def rewrite(one):
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
            assert set(connection.execute(select(ids_table(PERIOD + 1).c.id)).scalars()) == {
                one.batch for one in batches
            }


def parts(batches):
    rng = random.Random(2)
    cut = []
    for _ in range(4):
        rng.shuffle(batches)
        cut += [batches[at : at + 10] for at in range(0, len(batches), 10)]
    return cut
