"""Sums of reports in a store: each report once, whenever it is folded, and no longer than the reports."""

import random
import zlib
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update

from overstory.analysis.alarms.sums import PAIR_REPORTS, ReportSums
from overstory.analysis.reports import SupportCounts
from overstory.collector.store import StoreError, open_store, upkeep
from overstory.collector.store.copies import backup
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.counts import pack_counts, pack_sums, unpack_counts, unpack_sums
from overstory.collector.store.schema import COUNTS
from overstory.protocol.metrics import parse_registry
from support.registry_texts import COLOURS, registry_of
from support.store_samples import ABOUT, NOW, received, registry, reports, summed

PERIOD = 20_000


def test_a_folding_that_is_undone_sums_nothing(store, metrics, monkeypatch):
    metric = metrics["bloom"]
    sent = reports(metric, 9, random.Random(1))
    store.add([received(metric, PERIOD, sent)])
    take, calls = upkeep._take, []

    def overtaken(*args):
        calls.append(args)
        if len(calls) == 1:
            raise upkeep.OvertakenError
        take(*args)

    monkeypatch.setattr(upkeep, "_take", overtaken)
    store.compact(NOW)
    assert len(calls) > 1
    assert store.sums(metric, PERIOD, PERIOD) == {PERIOD: summed(metric, sent)}


def test_another_list_of_candidates_is_summed_again(store_url, tmp_path):
    first = registry(folder=tmp_path)
    sent = reports(first["tree"], 9, random.Random(1))
    with open_store(store_url, first, create=True) as store:
        store.add([received(first["tree"], PERIOD, sent)])
        store.compact(NOW)
    second = registry(candidates=("ash", "oak", "yew"), folder=tmp_path)
    with open_store(store_url, second) as store:
        assert store.sums(second["tree"], PERIOD, PERIOD) == {}  # they are of the list before
        more = reports(second["tree"], 4, random.Random(2))
        store.add([received(second["tree"], PERIOD, more)])
        store.compact(NOW)
        assert store.sums(second["tree"], PERIOD, PERIOD) == {PERIOD: summed(second["tree"], sent + more)}


def test_pairs_are_those_of_the_first_reports(store_url, monkeypatch):
    assert PAIR_REPORTS == 1 << 17
    monkeypatch.setattr("overstory.analysis.alarms.sums.PAIR_REPORTS", 10)
    metrics = parse_registry(registry_of({"sign": {"domain": COLOURS, "oracle": '"hadamard"'}}, **ABOUT))
    metric = metrics["sign"]
    with open_store(store_url, metrics, create=True) as store:
        for seed in range(3):
            store.add([received(metric, PERIOD, reports(metric, 4, random.Random(seed)))])
            store.compact(NOW)
        [sums] = store.sums(metric, PERIOD, PERIOD).values()
    assert (sums.num_reports, sums.pair_reports) == (12, 10)


def test_a_backup_has_them_and_sees_what_does_not_agree(store, metrics, tmp_path):
    metric = metrics["bloom"]
    sent = reports(metric, 9, random.Random(1))
    store.add([received(metric, PERIOD, sent)])
    store.compact(NOW)
    store.backup(tmp_path / "copy.db")
    restore(tmp_path / "copy.db", f"{tmp_path}/restored.db")
    with open_store(f"{tmp_path}/restored.db", metrics) as restored:
        assert restored.sums(metric, PERIOD, PERIOD) == {PERIOD: summed(metric, sent)}
        more = pack_sums(
            summed(metric, [*sent, sent[0]]), restored._metrics[metric.id, metric.mechanism.digest].counts_digest
        )
        restored._database.write(lambda connection: connection.execute(update(COUNTS).values(sums=more)))
        with pytest.raises(StoreError, match="do not agree with its reports"):
            backup.verify(restored._database)
        restored._database.write(lambda connection: connection.execute(update(COUNTS).values(sums=b"x" * 80)))
        with pytest.raises(StoreError, match="stored sums of reports are damaged"):
            backup.verify(restored._database)


def test_a_domain_of_ten_thousand_bits_writes_a_bounded_row(tmp_path):
    domain = {"domain": '{kind = "bins", min = 0, max = 10_000, count = 10_000}', "oracle": '"oue"'}
    metrics = parse_registry(registry_of({"wide": domain | {"parameters": "{epsilon = 1.0}"}}, **ABOUT))
    wide = metrics["wide"]
    with open_store(f"{tmp_path}/wide.db", metrics, create=True) as store:
        store.add([received(wide, PERIOD, reports(wide, 300, random.Random(1)))])
        store.compact(NOW)
        with store._database.snapshot() as connection:
            [size] = [len(row.sums) for row in connection.execute(select(COUNTS))]
    assert size < 300_000


# Counts and sums survive being stored, and no altered byte of them is believed
@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 70),
    most=st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62]),
    seed=st.integers(0, 99),
)
def test_counts_come_back(rows, columns, most, seed):
    rng = np.random.default_rng(seed)
    totals = rng.integers(0, most, rows, endpoint=True)
    totals[0] = most
    counts = SupportCounts(totals, rng.integers(0, totals[:, None], (rows, columns), endpoint=True))
    packed = pack_counts(counts)
    assert unpack_counts(packed) == counts
    assert len(packed) == 16 + rows * (1 + columns) * np.min_scalar_type(most).itemsize


DIGEST = bytes(range(16))
UPPER = np.random.default_rng(1).integers(0, 70_000, 15)
SUMS = ReportSums(9, np.array([8, 0, 3, 1]), 7, UPPER, np.arange(6))
PACKED = {
    "counts": (pack_counts(SupportCounts([300, 5], [[7, 299, 0], [1, 2, 3]])), unpack_counts),
    "sums of reports": (pack_sums(SUMS, DIGEST), lambda raw: unpack_sums(raw, DIGEST)),
}


def test_sums_come_back():
    assert unpack_sums(pack_sums(SUMS, DIGEST), DIGEST) == SUMS
    assert unpack_sums(pack_sums(SUMS, DIGEST), bytes(16)) is None


@pytest.mark.parametrize(("what", "packed", "unpack"), [(what, *each) for what, each in PACKED.items()], ids=PACKED)
def test_what_is_altered_or_cut_short_or_of_a_later_version_is_refused(what, packed, unpack):
    for place, bit in product(range(len(packed)), range(8)):
        altered = bytearray(packed)
        altered[place] ^= 1 << bit
        with pytest.raises(StoreError, match=f"stored {what}"):
            unpack(bytes(altered))
    for length in range(len(packed)):
        with pytest.raises(StoreError, match=f"stored {what} are damaged"):
            unpack(packed[:length])
    others = ("version 2 cannot be read: upgrade overstory", b"\x02" + packed[1:-4]), ("as long", packed[:-4] + b"\0")
    for words, other in others:
        with pytest.raises(StoreError, match=words):
            unpack(other + zlib.crc32(other).to_bytes(4, "little"))
