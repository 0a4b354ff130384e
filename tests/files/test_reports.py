"""reports.csv and Parquet: round trips, both readers of CSV agree, every fault has one clear error."""

import gzip
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from overstory.files import reports as module
from overstory.files.parquet import Label, read_label, read_parquet, write_blocks
from overstory.files.rappor import RapporParameters
from overstory.files.reports import read_reports, read_reports_csv, sum_reports
from overstory.protocol.errors import FormatError
from support.samples import MECHANISM, PARAMETERS, ROWS, batch, reports_csv, rows_of

LABEL = Label(12, 3, MECHANISM.canonical())


def read(path):
    return rows_of(read_reports_csv(path, 12, 3))


def both_ways(path, monkeypatch):
    """Read exactly, then with the fast reader wherever it dares."""
    exact = read(path)
    monkeypatch.setattr(module, "SMALLEST", 1)
    quick = read(path)
    monkeypatch.undo()
    assert quick == exact
    return exact


@pytest.fixture
def csv_path(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_text(reports_csv())
    return path


def test_the_fast_reader_is_really_used(csv_path, monkeypatch):
    monkeypatch.setattr(module, "SMALLEST", 1)
    monkeypatch.setattr(module, "records", lambda *_: pytest.fail("the exact reader was asked"))
    assert read(csv_path) == ROWS


@pytest.mark.parametrize(
    "text",
    [
        reports_csv().replace("\n", "\r\n"),
        "\ufeff" + reports_csv(),
        "irr,cohort\n" + "".join(f"{bits:012b},{cohort}\n" for cohort, bits in ROWS),
        'note,irr,"cohort"\n' + "".join(f'"a, ""b""\nc","{bits:012b}",{cohort}\n' for cohort, bits in ROWS),
        reports_csv().replace("\n", "\n\n").rstrip("\n"),
        reports_csv().replace(",0,", ",00,"),
        reports_csv().replace("c1", '"c,1"'),
    ],
    ids=["CRLF", "BOM", "other columns", "quoted", "blank lines", "leading zeros", "comma in a name"],
)
def test_other_dresses(tmp_path, monkeypatch, text):
    path = tmp_path / "reports.csv"
    path.write_bytes(text.encode())
    assert both_ways(path, monkeypatch) == ROWS
    path.write_bytes(gzip.compress(text.encode()))
    assert both_ways(path, monkeypatch) == ROWS


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("c,0,,,01010101010", "line 3, field irr: expected 12 characters 0 or 1, found 11"),
        ("c,0,,,0101010101012", "line 3, field irr: expected 12 characters 0 or 1, found 13"),
        ("c,0,,,010101010x01", "line 3, field irr: expected 12 characters 0 or 1, found 'x' among them"),
        ("c,0,,,٠١0101010101", "line 3, field irr: expected 12 characters 0 or 1, found '\\u0660' among them"),
        ("c,3,,,010101010101", "line 3, field cohort: expected a whole number from 0 to 2, found '3'"),
        ("c,-1,,,010101010101", "line 3, field cohort: expected a whole number from 0 to 2, found '-1'"),
        ("c,1.0,,,010101010101", "line 3, field cohort: expected a whole number from 0 to 2, found '1.0'"),
        ("c,0x1,,,010101010101", "line 3, field cohort: expected a whole number from 0 to 2, found '0x1'"),
        ("c,,,,010101010101", "line 3, field cohort: expected a whole number from 0 to 2, found ''"),
        ("c,1,,010101010101", "line 3: expected 5 fields, as in the header, found 4"),
        ("c,1,,,,010101010101", "line 3: expected 5 fields, as in the header, found 6"),
        ('c,1,,,"010101010101"x', "line 3: this is no CSV record"),
        ("c,1,,\r,010101010101", "line 3: this is no CSV record"),
        ('"c,1,,,010101010101', "line 3: this is no CSV record"),
    ],
)
def test_a_bad_line_is_named(csv_path, monkeypatch, line, says):
    lines = csv_path.read_text().splitlines(keepends=True)
    csv_path.write_bytes("".join([*lines[:2], line + "\n", *lines[2:]]).encode())
    for smallest in (module.SMALLEST, 1):
        monkeypatch.setattr(module, "SMALLEST", smallest)
        with pytest.raises(FormatError) as caught:
            read(csv_path)
        assert str(caught.value).startswith(f"{csv_path}, {says}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty: expected a header with cohort,irr"),
        ("c0,0,,,000000000101\n", "line 1: expected a header with cohort,irr; cohort, irr not found"),
        ("client,cohort,bloom,prr\n", "line 1: expected a header with cohort,irr; irr not found"),
        ("cohort,irr,irr\n", "line 1: the header names irr twice"),
    ],
)
def test_headers_that_are_none(tmp_path, text, says):
    path = tmp_path / "reports.csv"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read(path)
    assert says in str(caught.value)


REPORTS = st.integers(1, 200).flatmap(
    lambda k: st.tuples(
        st.just(k), st.lists(st.tuples(st.integers(0, 4), st.integers(0, (1 << k) - 1)), min_size=1, max_size=30)
    )
)


@given(REPORTS)
@settings(max_examples=50)
def test_reports_of_any_width_survive_every_format(tmp_path_factory, reports):
    num_bits, rows = reports
    folder = tmp_path_factory.mktemp("reports")
    (folder / "r.csv").write_text(reports_csv(rows, num_bits))
    assert rows_of(read_reports_csv(folder / "r.csv", num_bits, 5)) == rows
    one = batch(rows, num_bits, 5)
    label = Label(num_bits, 5, {"name": "any"})
    write_blocks(folder / "r.parquet", [one, one], label)
    assert sorted(rows_of(read_parquet(folder / "r.parquet"))) == sorted(rows * 2)
    assert read_label(folder / "r.parquet") == label


@given(REPORTS)
@settings(max_examples=50)
def test_packed_text_is_the_integer(reports):
    num_bits, rows = reports
    column = pa.array([f"{bits:0{num_bits}b}".encode() for _, bits in [(0, 0), *rows, (0, 0)]], pa.binary())
    words = module.packed_text(column.slice(1, len(rows)), num_bits)
    found = [int.from_bytes(one.astype("<u8").tobytes(), "little") for one in words]
    assert found == [bits for _, bits in rows]


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.parquet", "no-extension"])
def test_any_format_is_known_by_its_first_bytes(tmp_path, name):
    path = tmp_path / name
    if name.endswith("parquet"):
        write_blocks(path, [batch()], LABEL)
    else:
        path.write_text(reports_csv())
    counts = sum_reports(read_reports(path, PARAMETERS), 3, 12)
    assert counts.totals.tolist() == [2, 1, 1]
    assert counts.ones.tolist() == [[1, *[0] * 1, 1, *[0] * 8, 1], [0] * 12, [1] * 12]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (RapporParameters(12, 2, 3, 0.25, 0.75, 0.25), "other parameters"),
        (RapporParameters(12, 3, 3, 0.25, 0.75, 0.5), "other parameters"),
        (RapporParameters(13, 2, 3, 0.25, 0.75, 0.5), "expected reports of 13 bits in 3 cohorts"),
        (RapporParameters(12, 2, 4, 0.25, 0.75, 0.5), "found 12 bits in 3 cohorts"),
        (replace(PARAMETERS, hash_family="google-rappor-python"), "another hash family"),
        (replace(PARAMETERS, hash_key="key"), "another hash key"),
    ],
)
def test_a_label_of_other_parameters_is_refused(tmp_path, other, says):
    path = tmp_path / "r.parquet"
    write_blocks(path, [batch()], LABEL)
    assert sorted(rows_of(read_reports(path, PARAMETERS))) == sorted(ROWS)
    with pytest.raises(FormatError) as caught:
        list(read_reports(path, other))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("label", "columns", "says"),
    [
        (LABEL.to_json(), {"cohort": pa.array([0, 2], pa.int64())}, "expected one column cohort"),
        (LABEL.to_json(), {"blob": pa.array([b"\1\0", b"\0\1"], pa.binary(2))}, "expected one column blob"),
        *((label, {}, "holds no label") for label in (b"{", b"[]", b"\xff")),
        (LABEL.to_json().replace(b'"num_bits":12', b'"num_bits":0'), {}, "altered"),
        (LABEL.to_json().replace(b"rappor", b"RAPPOR"), {}, "altered"),
        (Label(1, (1 << 31) + 1, {"name": "any"}).to_json(), {}, "altered"),
        (None, {}, "no key overstory"),
    ],
)
def test_parquet_that_holds_no_reports_of_ours(tmp_path, label, columns, says):
    """Two reports whose file has another label, none, or other columns."""
    path = tmp_path / "r.parquet"
    write_blocks(path, [batch([(0, 1), (2, 256)])], LABEL)
    assert rows_of(read_parquet(path)) == [(0, 1), (2, 256)]
    table = parquet.read_table(path)
    for name, column in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    parquet.write_table(table.replace_schema_metadata({} if label is None else {b"overstory": label}), path)
    with pytest.raises(FormatError, match=says):
        list(read_parquet(path))


MEMORY = """
import resource, sys
from overstory.files.rappor import RapporParameters
from overstory.files.reports import read_reports, sum_reports

parameters = RapporParameters(k=12, h=2, m=3, p=0.25, q=0.75, f=0.5)
for path in sys.argv[1:]:
    counts = sum_reports(read_reports(path, parameters), 3, 12)
    print(counts.num_reports, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    """Peak memory of a process, after a file of 38 MB (twice, to warm up) and after one of 152 MB."""
    lines = {"small.csv": 2_000_000, "large.csv": 8_000_000}
    for name, count in lines.items():
        with (tmp_path / name).open("wb") as file:
            file.write(b"client,cohort,bloom,prr,irr\n")
            for _ in range(count // 100_000):
                file.write(b"c,1,,,010101010101\n" * 100_000)
    order = ["small.csv", "small.csv", "large.csv"]
    command = [sys.executable, "-c", MEMORY, *(str(tmp_path / name) for name in order)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found = [tuple(map(int, line.split())) for line in ran.stdout.splitlines()]
    assert [count for count, _ in found] == [lines[name] for name in order]
    grown = (found[2][1] - found[1][1]) / 1024
    assert grown < 60, f"the peak grew by {grown:.0f} MB"


@pytest.mark.parametrize("smallest", [1, 1 << 30])
def test_any_cut_into_blocks_reads_the_same(csv_path, monkeypatch, smallest):
    text = 'cohort,note,irr\n0,"a\n""b""\n",000000000101\n2,,111111111111\n\n1,"x, y",000000000000\r\n0,,100000000000'
    csv_path.write_bytes(text.encode())
    monkeypatch.setattr(module, "SMALLEST", smallest)
    from overstory.files.io import blocks

    for size in range(1, len(text) + 2):
        monkeypatch.setattr(module, "blocks", lambda stream, source, size=size: blocks(stream, source, size))
        assert read(csv_path) == ROWS
