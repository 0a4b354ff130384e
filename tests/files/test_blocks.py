"""Parquet: counts are those of the reports in any order, and other programs read the blocks."""

import zlib
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import overstory
from overstory.analysis.reports import ReportBatch, SupportCounts, load_kernels
from overstory.files import parquet as blocks
from overstory.files.reports import sum_reports
from overstory.protocol.errors import FormatError

ONE, TWO = {"epsilon": 1.0}, {"epsilon_permanent": 2.0, "epsilon_report": 1.0}
SIZE = {"domain_size": 90}
RAPPOR = {"num_bits": 20, "num_hashes": 2, "num_cohorts": 5, "f": 0.5, "p": 0.25, "q": 0.75}
SEEDED = [
    ("linear-hash", ONE | SIZE),
    ("linear-hash", ONE | {"domain_size": 70_000}),
    ("hadamard", ONE | {"domain_size": 100_000}),
]
BY_SEED = [
    ("blh", ONE | SIZE),
    ("olh", ONE | {"domain_size": 70_000}),
    ("random-matrix", ONE | SIZE),
    ("loloha", TWO | SIZE),
    ("loloha", TWO | SIZE | {"num_seeds": 100}),
]
COUNTED = [
    ("rappor", RAPPOR),
    ("rappor", RAPPOR | {"num_bits": 128}),
    ("basic-rappor", {"domain_size": 9, "f": 0.5, "p": 0.25, "q": 0.75}),
    ("hadamard", ONE | SIZE),
    ("l-grr", TWO | SIZE),
    ("grr", ONE | SIZE),
    ("subset", ONE | SIZE),
    ("projective", ONE | SIZE),
    ("dbitflip", ONE | SIZE),
]


def batches_of(oracle):
    strings = ["a", "b", "c"] if oracle.mechanism.domain_size is None else None
    values = np.arange(700) % (3 if strings else 9)
    return [oracle.simulate(values[:size], seed, candidates=strings) for seed, size in enumerate((700, 1, 300))]


@pytest.fixture
def small(monkeypatch):
    for name, size in {"BLOCK": 50, "SEEDED_BLOCK": 60, "GROUP_BYTES": 1500, "SORTED_BYTES": 2000}.items():
        monkeypatch.setattr(blocks, name, size)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("name", "parameters"), SEEDED + COUNTED + BY_SEED, ids=str)
def test_reports_survive_and_count_alike(tmp_path, name, parameters):
    oracle, path = overstory.oracle(name, **parameters), tmp_path / "r.parquet"
    batches = batches_of(oracle)
    blocks.write_blocks(path, iter(batches), blocks.Label.of(oracle.mechanism))
    assert blocks.read_label(path).mechanism("r").digest == oracle.mechanism.digest
    read = list(blocks.read_parquet(path))
    written, again = (
        [(int(c), *map(int, b)) for batch in given for c, b in zip(batch.cohorts, batch.bits, strict=True)]
        for given in (batches, read)
    )
    assert sorted(written) == sorted(again)
    chosen = None if name in {"dbitflip", "rappor"} or (name, parameters) in BY_SEED else range(9)
    counts = [[oracle.accumulate(batch, chosen) for batch in given] for given in (batches, read)]
    assert sum(counts[0][1:], counts[0][0]) == sum(counts[1][1:], counts[1][0])


@pytest.mark.usefixtures("small")
def test_more_than_may_wait_is_written_in_smaller_blocks(tmp_path, monkeypatch):
    oracle = overstory.oracle("rappor", **RAPPOR | {"num_cohorts": 40})
    held = []
    monkeypatch.setattr(blocks, "HELD_BYTES", 90)
    for batch in blocks.row_groups(batches_of(oracle), blocks.Label.of(oracle.mechanism)):
        held += [len(block.octets) for block in batch]
    assert sum(held) == 1001
    assert len(held) > 40


@pytest.fixture
def rows(tmp_path):
    oracle = overstory.oracle("rappor", **RAPPOR)
    blocks.write_blocks(
        tmp_path / "r.parquet", batches_of(oracle), blocks.Label.of(oracle.mechanism), metric="theme", period=7
    )
    return tmp_path / "r.parquet"


def damage(path, name, change):
    table = parquet.read_table(path)
    values = change(table.column(name).to_pylist())
    index = table.schema.get_field_index(name)
    field = table.schema.field(index).with_nullable(True)
    parquet.write_table(table.set_column(index, field, pa.array(values, field.type)), path)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("cohort", lambda column: [5, *column[1:]], "row 0 was damaged: its CRC-32 differs"),
        ("cohort", lambda column: [None, *column[1:]], "found nulls"),
        ("num_reports", lambda column: [column[0] + 1, *column[1:]], "row 0 has .* bytes, and .* by its number"),
        ("blob", lambda column: [column[0][:-1], *column[1:]], "row 0 has .* bytes, and .* by its number"),
        ("blob", lambda column: [b"\0" * len(column[0]), *column[1:]], "row 0 was damaged: its CRC-32 differs"),
        ("digest", lambda column: [b"\0" * 16, *column[1:]], "a block is of other parameters"),
        ("crc32", lambda column: [column[0] ^ 1, *column[1:]], "row 0 was damaged"),
    ],
)
def test_damage_is_one_error(rows, name, change, says):
    damage(rows, name, change)
    with rows.open("rb") as raw, blocks.opened(raw, "r.parquet") as file, pytest.raises(FormatError, match=says):
        list(blocks.read_row_groups(file, blocks.read_label(rows), "r.parquet"))


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("blob", lambda column: [b"\xff" * len(column[0]), *column[1:]], "bits past its 20"),
        ("cohort", lambda column: [5, *column[1:]], "field cohort: expected 0 .. 4, found 5"),
    ],
)
def test_what_no_report_has_is_refused_also_where_checksums_are_not_compared(rows, monkeypatch, name, change, says):
    damage(rows, name, change)
    monkeypatch.setattr(blocks, "_verify", lambda *_: None)
    with pytest.raises(FormatError, match=says):
        list(blocks.read_parquet(rows))


def test_rows_of_a_group_are_counted_in_any_order(rows):
    load_kernels(compiling=True)
    counts = [sum_of(rows)]
    assert isinstance(next(blocks.read_parquet(rows)), blocks.GroupedBatch)
    table = parquet.read_table(rows)
    parquet.write_table(table.take(list(reversed(range(len(table))))), rows)
    assert not isinstance(next(blocks.read_parquet(rows)), blocks.GroupedBatch)
    assert counts == [sum_of(rows)]


def sum_of(path):
    batches = list(blocks.read_parquet(path))
    counts = [batch.accumulate() for batch in batches]
    assert counts == [ReportBatch(batch.cohorts, batch.bits, 20, 5).accumulate() for batch in batches]
    return sum(counts[1:], counts[0])


def test_polars_counts_without_us(rows):
    """The query of docs/reference/formats.md: a block's bytes are its reports, one after the other."""
    import polars as pl  # not among the lowest versions

    frame = pl.read_parquet(rows)
    assert frame.columns == ["metric", "period", "digest", "cohort", "num_reports", "blob", "crc32"]
    assert frame.select("metric", "period").unique().rows() == [("theme", 7)]
    totals = frame.group_by("cohort").agg(pl.col("num_reports").sum()).sort("cohort")["num_reports"].to_list()
    ones = np.zeros((5, 20), np.int64)
    for cohort, blob, crc in frame.select("cohort", "blob", "crc32").iter_rows():
        assert zlib.crc32(cohort.to_bytes(2, "little") + blob) == crc
        octets = np.frombuffer(blob, np.uint8).reshape(-1, 3)
        ones[cohort] += np.unpackbits(octets, axis=1, bitorder="little")[:, :20].sum(axis=0, dtype=np.int64)
    counts = sum_reports(blocks.read_parquet(rows), 5, 20)
    assert counts.totals.tolist() == totals
    assert np.array_equal(counts.ones, ones)


def test_a_label_that_builds_another_mechanism_is_refused():
    label = blocks.Label.of(overstory.oracle("rappor", **RAPPOR).mechanism)
    assert label.built_from is not None
    wrong = blocks.Label(label.num_bits, label.num_cohorts, label.parameters, label.built_from | {"f": 0.25})
    with pytest.raises(FormatError, match="another rappor than its digest is of"):
        wrong.mechanism("r.parquet")
    with pytest.raises(FormatError, match=r"r\.parquet: the label's parameters make no mechanism"):
        blocks.Label(20, 5, label.parameters, {"epsilon": 1}).mechanism("r.parquet")
    with pytest.raises(FormatError, match="give --params, or --registry and --metric"):
        blocks.Label(20, 5, label.parameters).mechanism("r.parquet")


@pytest.mark.parametrize("sizes", [[1] * 50, [3, 0, 500, 1, 1], [], [0], [400, 400, 1]])
def test_small_batches_are_counted_together_and_no_report_is_lost(sizes, monkeypatch):
    monkeypatch.setattr("overstory.files.reports.joined", partial(blocks.joined, enough=320))
    drawn = np.random.default_rng(5)
    batches = [
        ReportBatch(drawn.integers(0, 3, n).astype(np.uint16), drawn.integers(0, 1 << 12, (n, 1), np.uint64), 12, 3)
        for n in sizes
    ]
    parts = list(blocks.joined(batches, enough=320))
    assert sum(map(len, parts)) == sum(sizes)
    assert all(len(part) >= 40 for part in parts[:-1])
    expected = sum((batch.accumulate() for batch in batches), SupportCounts.empty(3, 12))
    assert sum_reports(batches, 3, 12) == expected
