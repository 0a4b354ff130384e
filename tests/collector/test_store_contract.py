"""What every store does, whichever database it is in."""

import random
from collections import Counter
from contextlib import ExitStack
from hashlib import blake2b
from itertools import chain, cycle, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import select

from overstory.analysis.alarms.sums import Watch
from overstory.analysis.reports import ReportBatch
from overstory.collector.auth import sha256
from overstory.collector.ingest import Released
from overstory.collector.store import StoreError, open_store
from overstory.collector.store.copies import backup
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.operations import CollectorState
from overstory.collector.store.schema import CHUNKS, METADATA
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.metrics import Period
from support.collector_in_process import raising
from support.store_databases import KINDS, fresh
from support.store_samples import DAY, NOW, Model, as_multiset, counted, received, registry, reports, some, summed

PERIOD = 20_000


ALL = ("bloom", "colour", "size", "tree")


def test_a_batch_whose_columns_are_too_short_takes_nothing_with_it(store, metrics):
    good, bad = some(metrics["bloom"], PERIOD, 3, 1), some(metrics["bloom"], PERIOD, 3, 2)
    with pytest.raises(
        ParameterError, match="bloom: 6 reports of 16 bits and 4 cohorts do not have columns of 12 and 11"
    ):
        store.add([good, bad._replace(bits=bad.bits[:-1])])
    assert store.add([good]) == [True]


def test_other_parameters_keep_their_own_counts(store, store_url, metrics):
    old = metrics["bloom"]
    store.add([some(old, PERIOD, 30, 1)])
    store.compact(NOW)
    store.add([some(old, PERIOD, 2, 2)])
    later = registry()
    object.__setattr__(later["bloom"], "mechanism", old_with_other_noise(old))
    new = later["bloom"]
    with open_store(store_url, later) as reopened:
        reopened.add([some(new, PERIOD, 11, 3)])
        for _ in range(2):
            assert reopened.counts(old, PERIOD, PERIOD)[PERIOD].num_reports == 32
            assert reopened.counts(new, PERIOD, PERIOD)[PERIOD].num_reports == 11
            assert not reopened.compact(NOW).waiting
        assert {(one.counted, one.kept) for one in reopened.summary().metrics} == {(32, 32), (11, 11)}


def old_with_other_noise(metric):
    return mechanism("rappor", **(dict(metric.mechanism.parameters) | {"f": 0.75}))


def test_reports_of_a_mechanism_that_nobody_named_wait_and_are_counted_later(store_url, metrics):
    metric = metrics["colour"]
    with open_store(store_url, create=True) as without:
        without.add([some(metric, PERIOD, 9, 1)])
        assert [line.split(",")[0] for line in without.compact(NOW).waiting] == ["colour"]
        assert without.counts(metric, PERIOD, PERIOD)[PERIOD].num_reports == 9
    with open_store(store_url, metrics) as named:
        assert named.compact(NOW).reports == 9
    with open_store(store_url) as again:  # what a mechanism is was kept in the store
        again.add([some(metric, PERIOD, 1, 2)])
        assert again.compact(NOW).reports == 1
        assert again.counts(metric, PERIOD, PERIOD)[PERIOD].num_reports == 10


def test_a_report_that_cannot_be_counted_holds_up_nothing_else(store, metrics):
    impossible = some(metrics["colour"], PERIOD, 1, 1)._replace(bits=b"\x03")
    store.add([impossible, some(metrics["bloom"], PERIOD, 4, 2)])
    done = store.compact(NOW)
    assert done.reports == 4
    assert done.waiting == ["colour, 2024-10-04: a report of grr is a number below 3, not 3"]


def test_chunks_are_merged_until_they_are_full(store, metrics, monkeypatch):
    monkeypatch.setattr("overstory.collector.store.counts.CHUNK_BYTES", 40)  # ten reports of bloom
    metric, sizes = metrics["bloom"], []
    for seed in range(6):
        store.add([some(metric, PERIOD, 7, seed)])
        store.compact(NOW)
        sizes.append(chunk_sizes(store))
    assert sizes == [[7], [4, 10], [1, 10, 10], [8, 10, 10], [5, 10, 10, 10], [2, 10, 10, 10, 10]]


def chunk_sizes(store):
    with store._database.snapshot() as connection:
        return sorted(connection.execute(select(CHUNKS.c.num_reports)).scalars())


def test_a_large_inbox_is_folded_in_pieces(store, metrics, monkeypatch):
    monkeypatch.setattr("overstory.collector.store.upkeep.FOLD_BYTES", 100)
    monkeypatch.setattr("overstory.collector.store.upkeep.FOLD_ROWS", 3)
    metric, rng, sent = metrics["bloom"], random.Random(7), []
    for size in (1, 1, 1, 1, 60, 20, 3):
        sent += (new := reports(metric, size, rng))
        store.add([received(metric, PERIOD, new)])
    assert store.compact(NOW).rows == 7
    assert store.counts(metric, PERIOD, PERIOD) == {PERIOD: counted(metric, sent)}


def test_retention_deletes_reports_and_keeps_counts(store, metrics):
    metric = metrics["bloom"]
    store.add([some(metric, period, 200, period) for period in (PERIOD, PERIOD + 1)])
    store.compact(NOW)
    before = store.counts(metric, 0, 1 << 20)
    end = metric.period.start(PERIOD + 1) + metric.retention_days * DAY
    assert store.retain(end - 1).reports == 0
    assert store.retain(end).reports == 200
    assert store.counts(metric, 0, 1 << 20) == before
    assert sum(len(batch) for batch in store.reports(metric, 0, 1 << 20)) == 200
    store.add([some(metric, PERIOD, 5, 99)])  # a late batch
    store.compact(NOW)
    assert store.counts(metric, PERIOD, PERIOD)[PERIOD].num_reports == 205


def test_the_registry_at_hand_says_how_long_reports_are_kept(store, store_url, metrics):
    store.add([some(metrics["colour"], PERIOD, 10, 1)])
    store.compact(NOW)
    with open_store(store_url, registry(retention=1)) as stricter:
        assert stricter.retain(metrics["colour"].period.start(PERIOD + 2)).reports == 10
    with open_store(store_url) as later:
        later.add([some(metrics["colour"], PERIOD, 3, 2)])
        later.compact(NOW)
        assert later.retain(metrics["colour"].period.start(PERIOD + 2)).reports == 3


def test_a_large_table_of_ids_is_gone_through_in_slices(store, metrics, monkeypatch):
    monkeypatch.setattr("overstory.collector.store.databases.sqlite.AT_ONCE", 10)
    metric, rng = metrics["bloom"], random.Random(3)
    edges = [bytes([first]) + rest * 15 for rest in (b"\0", b"\xff") for first in range(256)]
    sent = reports(metric, 1, rng)
    store.add([received(metric, PERIOD, sent, batch=batch, forget_after=DAY) for batch in edges])
    kept = received(metric, PERIOD + 1, sent, batch=rng.randbytes(16), forget_after=3 * DAY)
    store.add([kept])
    assert store.compact(2 * DAY).forgotten == 512
    assert store.add([kept]) == [False]


def test_new_candidates_are_counted_in_the_reports_that_are_kept(store_url, tmp_path):
    first, second = registry(folder=tmp_path), registry(candidates=("yew", "oak", "elm"), folder=tmp_path)
    metric, rng = first["tree"], random.Random(8)
    old, new = reports(metric, 30, rng), reports(metric, 20, rng)
    with open_store(store_url, first, create=True) as store:
        store.add([received(metric, PERIOD, old)])
        store.compact(NOW)
    asked = second["tree"]
    with open_store(store_url, second) as store:
        assert store.counts(asked, PERIOD, PERIOD) == {PERIOD: counted(asked, old)}
        store.add([received(asked, PERIOD, new)])
        assert store.counts(asked, PERIOD, PERIOD) == {PERIOD: counted(asked, old + new)}
        assert not store.compact(NOW).waiting
        assert store.counts(asked, PERIOD, PERIOD) == {PERIOD: counted(asked, old + new)}
        store.retain(NOW + 1000 * DAY)
        assert store.counts(asked, PERIOD, PERIOD) == {PERIOD: counted(asked, old + new)}
        with pytest.raises(StoreError, match="tree, 2024-10-04: its reports were counted for another list"):
            store.counts(metric, PERIOD, PERIOD)


def test_periods_of_another_length_need_another_metric(store, store_url, metrics):
    weekly = registry()
    object.__setattr__(weekly["bloom"], "period", Period.parse("week"))
    with pytest.raises(
        StoreError, match="bloom was collected by day and the registry says week: give the metric a new id"
    ):
        open_store(store_url, weekly)


def test_a_backup_and_what_is_restored_from_it_are_the_store(store, metrics, tmp_path, fresh_url):
    sent = [some(metrics[name], PERIOD, 10, seed) for seed, name in enumerate(ALL)]
    sent[0] = sent[0]._replace(group="1.0")
    store.add(sent[:3])
    store.compact(NOW)
    store.add([*sent[3:], some(metrics["size"], PERIOD, 2, 9)._replace(released=Released(bytes(16), 1))])
    store.report_state(CollectorState("5f3a9c01", "0.2.0", 1, 2, 17), {(None, 1, "bits"): 3, ("bloom", 1, "bits"): 2})
    store.add_note("Version 3 is out", PERIOD, "release")
    token = store.add_token("write", "trees")

    def content(of):
        counted = [of.counts(metrics[name], 0, 1 << 20, groups=groups) for name in ALL for groups in (None, ["1.0"])]
        about = of.refusals(), of.collectors(), of.notes(), of.releases("size", PERIOD, PERIOD), of.groups("bloom")
        return [*counted, *about, of.find_token(sha256(token))]

    held = content(store)
    assert all(held[-6:])
    assert store.backup(tmp_path / "backup.db") == 42
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.db", "backup.db.sha256"]
    late = some(metrics["bloom"], PERIOD, 10, 9)
    store.add([late])
    assert restore(tmp_path / "backup.db", fresh_url) == 42
    with pytest.raises(StoreError, match="there is a store already: name a new file, or an empty database"):
        restore(tmp_path / "backup.db", fresh_url)
    for url in (str(tmp_path / "backup.db"), fresh_url):
        with open_store(url) as copy:
            assert content(copy) == held
            assert copy.add([*sent, late]) == [False] * 4 + [True]
            assert copy.compact(NOW).reports == 22
            assert copy.summary().metrics[0].kept == 20


def test_a_restore_that_breaks_off_leaves_no_store(store, metrics, tmp_path, fresh_url, monkeypatch):
    store.add([some(metrics["bloom"], PERIOD, 10, 1)])
    store.backup(tmp_path / "backup.db")
    whole = backup._copy_table

    def breaks(reading, writing, table):
        whole(reading, writing, table)
        if table is METADATA.sorted_tables[-1]:
            raise StoreError("the disk is full")

    monkeypatch.setattr(backup, "_copy_table", breaks)
    with pytest.raises(StoreError, match="the disk is full"):
        restore(tmp_path / "backup.db", fresh_url)
    with pytest.raises(StoreError, match="this database is empty"):
        open_store(fresh_url)
    monkeypatch.undo()
    assert restore(tmp_path / "backup.db", fresh_url) == 10


@pytest.fixture(params=KINDS)
def fresh_url(request, server_folder):
    with fresh(request.param, server_folder) as url:
        yield url


def test_a_backup_overwrites_nothing(store, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match="this file exists: give the backup another name"):
        store.backup(tmp_path / "letter.txt")
    with pytest.raises(StoreError, match="there is no folder"):
        store.backup(tmp_path / "no" / "backup.db")


def test_a_backup_that_cannot_be_written_names_its_own_file(store, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "mkdir", raising(PermissionError()))  # as in a folder that is not ours
    with pytest.raises(StoreError, match="no file can be made in"):
        store.backup(tmp_path / "backup.db")


def test_tokens_are_found_by_hash_expire_and_are_revoked(store):
    plain = store.add_token("write", "trees", expires=2_000_000_000)
    store.add_token("admin", "reader")
    assert [(token.role, token.application, token.expires) for token in store.tokens()] == [
        ("admin", "reader", None),
        ("write", "trees", 2_000_000_000),
    ]
    found = store.find_token(sha256(plain))
    assert found.usable(1_999_999_999)
    assert not found.usable(2_000_000_000)
    assert found.created % DAY == 0
    store.revoke_token(found.id)
    revoked = store.find_token(sha256(plain))
    assert not revoked.usable(revoked.revoked)
    store.revoke_token(found.id)
    assert store.find_token(sha256(plain)) == revoked
    assert store.find_token(sha256("guess")) is None


def test_tokens_that_are_none(store):
    with pytest.raises(ParameterError, match="write, viewer, analyst, admin, relay or monitor, not 'root'"):
        store.add_token("root", "trees")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="name of the application"):
        store.add_token("write", " ")
    for name in ("12", "\udcff", "ü", ""):
        with pytest.raises(ParameterError, match=f"there is no token {name}: overstory store tokens shows the ids"):
            store.revoke_token(name)


# A store against lists in memory: whatever is done to it, in whatever order, it says what they say
METRICS = ("bloom", "colour", "size", "tree")
PERIODS = (20_000, 20_001)
GROUPS = ("", "1.0")
BATCHES = st.lists(
    st.tuples(
        *(st.sampled_from(values) for values in (METRICS, PERIODS, GROUPS)), st.integers(0, 5), st.integers(1, 30)
    ),
    min_size=1,
    max_size=6,
)


class StoreMachine(RuleBasedStateMachine):
    def __init__(self, kind, folder):
        super().__init__()
        self.stack = ExitStack()
        self.url = self.stack.enter_context(fresh(kind, folder))
        self.metrics, self.model = registry(folder=folder), Model()
        self.store = open_store(self.url, self.metrics, create=True)
        self.looks = cycle(product([None, GROUPS[1:]], [PERIODS, PERIODS[1:] * 2], [None, PERIODS[:1]]))

    @rule(batches=BATCHES, folds=st.booleans())
    def add(self, batches, folds):
        given, expected = [], []
        for name, period, group, size, number in batches:
            # A batch's content follows from its id, as a sender's does: what is sent again is the same.
            batch = blake2b(repr((name, period, group, size, number)).encode(), digest_size=16).digest()
            sent = reports(self.metrics[name], size, random.Random(batch))
            given.append(received(self.metrics[name], period, sent, batch=batch)._replace(group=group))
            expected.append(self.model.add((name, period, group), batch, sent))
        assert self.store.add(given) == expected
        if folds:
            self.compact()

    def compact(self):
        done = self.store.compact(NOW)
        assert not done.waiting
        assert done.forgotten == 0
        assert done.reports == self.model.compact(self.metrics)
        assert done.rows == 0 or self.store.compact(NOW).rows == 0
        assert self.store.retain(NOW).reports == 0

    @rule()
    def retain_nothing(self):
        assert self.store.retain(NOW + 1000 * DAY).reports == self.model.retain(self.metrics)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = open_store(self.url)

    @invariant()
    def agrees(self):
        groups, (first, last), among = next(self.looks)
        chosen = {period for period in PERIODS if first <= period <= last}
        for metric in map(self.metrics.__getitem__, METRICS):
            counts, stored = self.model.counts(metric, groups), self.model.stored(metric, groups)
            expected = {period: counts[period] for period in chosen.intersection(counts, among or chosen)}
            assert self.store.counts(metric, first, last, among, groups) == expected
            is_watched = Watch.of(metric.mechanism) is not None
            sums = {period: summed(metric, stored[period]) for period in chosen.intersection(stored) if is_watched}
            assert self.store.sums(metric, first, last, groups) == sums
            found = [row for batch in self.store.reports(metric, first, last, groups) for row in as_multiset(batch)]
            of_chosen = chain.from_iterable(stored.get(period, ()) for period in chosen)
            assert sorted(found) == as_multiset(ReportBatch.of(metric.mechanism, list(of_chosen)))
            keys = self.model.keys(metric.id)
            assert self.store.periods(metric.id) == sorted({period for _, period, _ in keys})
            assert self.store.groups(metric.id) == sorted({group for *_, group in keys})
            came = Counter[tuple[int, bytes]]()
            for key in self.model.keys(metric.id, groups):
                waiting = self.model.waiting.get(key, ())
                came[key[1], metric.mechanism.digest] += self.model.ever.get(key, 0) + len(waiting)
            assert self.store.tally(metric.id, *PERIODS, groups) == came

    @invariant()
    def adds_up(self):
        summary = self.store.summary()
        assert summary.batch_ids == len(self.model.ids)
        parts = self.model.ever.values(), map(len, self.model.kept.values()), map(len, self.model.waiting.values())
        sizes = [(one.counted, one.kept, one.waiting) for one in summary.metrics]
        assert [sum(of) for of in parts] == [sum(of) for of in zip(*sizes, strict=True)] or not sizes

    def teardown(self):
        self.store.close()
        self.stack.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_is_what_lists_in_memory_are(kind, server_folder):
    few = settings(
        max_examples=12,
        stateful_step_count=12,
        phases=[phase for phase in Phase if phase is not Phase.shrink],  # which takes minutes
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: StoreMachine(kind, server_folder), settings=few)


def test_a_batch_counts_once_whatever_group_a_second_copy_names(store, metrics):
    metric = metrics["colour"]
    batch = received(metric, PERIOD, reports(metric, 3, random.Random(1)))
    assert store.add([batch._replace(group="1.0"), batch._replace(group="1.1")]) == [True, False]
    assert store.groups("colour") == ["1.0"]
