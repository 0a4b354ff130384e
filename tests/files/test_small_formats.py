"""params, values, counts, maps, candidates: round trips, what is tolerated, and one clear error for each fault."""

import codecs
import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.reports import SupportCounts
from overstory.files import io as reader
from overstory.files import rappor
from overstory.files.io import blocks
from overstory.protocol.errors import FormatError
from overstory.protocol.kinds.bits import Bloom
from support.samples import CANDIDATES, COUNTS, PARAMETERS, values_csv

GOOD_PARAMS = "k,h,m,p,q,f\n12,2,3,0.25,0.75,0.5\n"
# No lone surrogates: they are no text, and UTF-8 has none.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def written(tmp_path, text, name="file.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def same_map(one, other):
    return list(one.candidates) == list(other.candidates) and np.array_equal(one.positions, other.positions)


def as_read(found):
    """Return a map as Google's reader has it: a candidate without a letter is "Empty", the first of equals counts."""
    names = [name or "Empty" for name in found.candidates]
    kept = [i for i, name in enumerate(names) if name not in names[:i]]
    return CandidateMap([names[i] for i in kept], found.positions[:, kept], found.num_bits)


Dress = Callable[[bytes], bytes]
DRESSES = {
    "as is": lambda text: text,
    "CRLF": lambda text: text.replace(b"\n", b"\r\n"),
    "BOM": lambda text: codecs.BOM_UTF8 + text,
    "gz": gzip.compress,
    "gz of BOM and CRLF": lambda text: gzip.compress(codecs.BOM_UTF8 + text.replace(b"\n", b"\r\n")),
    "no last line end": lambda text: text.removesuffix(b"\n"),
    "blank lines": lambda text: text.replace(b"\n", b"\n\n"),
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES.keys())
def test_a_file_is_read_in_every_dress_that_an_editor_or_a_tool_may_give_it(tmp_path, dress):
    assert rappor.read_params(written(tmp_path, dress(GOOD_PARAMS.encode()))) == PARAMETERS
    values = written(tmp_path, dress('client,cohort,value\nann,1,"a, b"\nbob,0,é\n'.encode()))
    assert list(rappor.read_values(values, 3)) == [rappor.Holding("ann", 1, "a, b"), rappor.Holding("bob", 0, "é")]
    rappor.write_counts(tmp_path / "c", COUNTS)
    assert rappor.read_counts(written(tmp_path, dress((tmp_path / "c").read_bytes())), 3, 12) == COUNTS
    flat = rappor.hash_candidates(["ash", "a,b", "é"], PARAMETERS.mechanism().encoding)
    rappor.write_map(tmp_path / "m", flat)
    found = written(tmp_path, dress((tmp_path / "m").read_bytes()))
    assert same_map(rappor.read_map(found, num_bits=12, num_hashes=2, num_cohorts=3), flat)
    names = written(tmp_path, dress(b'plain\n"kept as it is"\na,b\nplain\n'), "names.txt")
    assert rappor.read_candidates(names) == ["plain", '"kept as it is"', "a,b"]


def test_params_survive(tmp_path):
    odd = rappor.RapporParameters(k=128, h=2, m=16, p=0.1 + 0.2, q=1e-3, f=1 / 3)
    rappor.write_params(tmp_path / "p.csv", odd)
    assert rappor.read_params(tmp_path / "p.csv") == odd
    assert rappor.read_params(written(tmp_path, "note,f,q,p,m,h,k\nx,0.5,0.75,0.25,3,2,12\n")) == PARAMETERS


HOLDINGS = st.lists(st.builds(rappor.Holding, TEXT, st.integers(0, 2), TEXT), max_size=8)


@given(HOLDINGS)
@settings(max_examples=60)
def test_values_survive(tmp_path_factory, holdings):
    path = tmp_path_factory.mktemp("values") / "values.csv.gz"
    cohorts = {one.client: one.cohort for one in holdings}  # a client has one
    holdings = [one._replace(cohort=cohorts[one.client]) for one in holdings]
    path.write_bytes(gzip.compress(values_csv(holdings).encode()))
    assert list(rappor.read_values(path, 3)) == holdings


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("ann,3,x", "line 3, field cohort: expected a whole number from 0 to 2, found '3'"),
        ("first,1,x", "line 3, field cohort: client 'first' is in cohort 1 here and in 0 above: give it one cohort"),
        ("ann,-1,x", "line 3, field cohort: expected a whole number from 0 to 2, found '-1'"),
        ("ann,1_0,x", "line 3, field cohort: expected a whole number from 0 to 2, found '1_0'"),
        (f"ann,{'9' * 5000},x", "line 3, field cohort: expected a whole number from 0 to 2, found '999"),
        ("ann,0", "line 3: expected 3 fields, as in the header, found 2"),
        ("ann,0,x,y", "line 3: expected 3 fields, as in the header, found 4"),
        ('ann,0,"x"y', "line 3: this is no CSV record"),
        ("ann,0,x\ry", "line 3: this is no CSV record"),
        ('ann,0,"two\nlines"\nbob,9,x', "line 5, field cohort: expected a whole number"),
        (b"ann,0,\xff", "line 3, field value: expected UTF-8 text"),
        (b"\xc3\x28,0,x", "line 3, field client: expected UTF-8 text"),
        ("ann,0," + "x" * 200_000, "line 3: this is no CSV record (field larger than field limit"),
    ],
)
def test_a_bad_value_line_is_named(tmp_path, row, says):
    raw = row if isinstance(row, bytes) else row.encode()
    path = written(tmp_path, b"client,cohort,value\nfirst,0,a\n" + raw + b"\nlast,2,b\n")
    with pytest.raises(FormatError) as caught:
        list(rappor.read_values(path, 3))
    assert says in str(caught.value)


@given(st.integers(1, 4), st.integers(1, 9), st.data())
@settings(max_examples=40)
def test_counts_survive(tmp_path_factory, cohorts, bits, data):
    totals = data.draw(st.lists(st.integers(0, 1 << 61), min_size=cohorts, max_size=cohorts))
    ones = [[data.draw(st.integers(0, total)) for _ in range(bits)] for total in totals]
    path = tmp_path_factory.mktemp("counts") / "counts.csv"
    rappor.write_counts(path, SupportCounts(totals, ones))
    assert rappor.read_counts(path, cohorts, bits) == SupportCounts(totals, ones)


def test_a_map_is_written_as_google_writes_it(tmp_path):
    """v1 sets bits 8 and 10 in cohort 0 (tests/vectors); a collision is written twice."""
    bloom = Bloom(16, 2, 65, "google-rappor-python")
    rappor.write_map(tmp_path / "map.csv", rappor.hash_candidates(["v1"], bloom))
    cells = (tmp_path / "map.csv").read_text().rstrip("\n").split(",")
    assert cells[:3] == ["v1", "9", "11"]
    assert cells[-2:] == [str(64 * 16 + 5 + 1)] * 2
    assert len(cells) == 1 + 65 * 2


@given(st.lists(TEXT, min_size=1, max_size=6), st.integers(2, 300), st.integers(1, 3), st.integers(1, 3), st.data())
@settings(max_examples=60)
def test_maps_survive(tmp_path_factory, names, bits, hashes, cohorts, data):
    shape = (cohorts, len(names), hashes)
    seed = data.draw(st.integers(0, 1 << 30))
    found = CandidateMap(names, np.random.default_rng(seed).integers(0, bits, shape), bits)
    path = tmp_path_factory.mktemp("map") / "map.csv"
    rappor.write_map(path, found)
    assert same_map(rappor.read_map(path, num_bits=bits, num_hashes=hashes, num_cohorts=cohorts), as_read(found))


def test_a_map_of_very_many_rows_is_written_the_same(tmp_path, monkeypatch):
    rappor.write_map(tmp_path / "table.csv", CANDIDATES)
    monkeypatch.setattr(rappor, "TABLE_CELLS", 1)
    monkeypatch.setattr(rappor, "CHUNK", 2)
    rappor.write_map(tmp_path / "unique.csv", CANDIDATES)
    assert (tmp_path / "unique.csv").read_bytes() == (tmp_path / "table.csv").read_bytes()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty: expected a row per candidate"),
        ("ash,1,2,5,6,9\n", "line 1, field cohort 0: expected 1 to 2 integers from 1 to 12, found 5"),
        ("ash,1,2,13,14,25,26,27\n", "line 1: expected a candidate and m * h = 3 * 2 = 6 integers (fewer"),
        ("ash,1,13\n", "line 1: expected a candidate and m * h = 3 * 2 = 6 integers (fewer where two hashes meet), fo"),
        ("ash,1,2,13,14,25,26\nelm,0,2,13,14,25,26\n", "line 2, field cohort 0 hash 0: expected a whole number from 1"),
        ("ash,1,13,13,14,25,26\n", "field cohort 0 hash 1: expected a whole number from 1 to 12, found '13'"),
        ("ash,1,2,13,14,25,37\n", "field cohort 2 hash 1: expected a whole number from 25 to 36, found '37'"),
        ("ash,1,2,13,14,25,0x1a\n", "found '0x1a'"),
        ("ash,1,2,13,14,15\n", "line 1, field cohort 1: expected 1 to 2 integers from 13 to 24, found 3"),
        ("ash,1,2,25,26,13\n", "field cohort 2: expected a whole number from 25 to 36, found '13'"),
        ("ash,1,2,3,25,26,\n", "field cohort 0: expected 1 to 2 integers from 1 to 12, found 3"),
    ],
)
@pytest.mark.parametrize("long", [False, True])
def test_maps_that_are_none(tmp_path, monkeypatch, text, says, long):
    if long:
        monkeypatch.setattr(rappor, "SMALLEST", 1)  # as if the file were large
    with pytest.raises(FormatError) as caught:
        rappor.read_map(written(tmp_path, text), num_bits=12, num_hashes=2, num_cohorts=3)
    assert says in str(caught.value)


def test_a_large_map_is_read_the_same_in_both_ways(tmp_path, monkeypatch):
    path = tmp_path / "map.csv"
    rappor.write_map(path, CANDIDATES)
    shape = {"num_bits": 12, "num_hashes": 2, "num_cohorts": 3}
    exact = rappor.read_map(path, **shape)
    monkeypatch.setattr(rappor, "SMALLEST", 1)
    assert reader.read_block(path.read_bytes(), [str(i) for i in range(7)], {}) is not None
    assert same_map(rappor.read_map(path, **shape), exact)
    assert same_map(exact, as_read(CANDIDATES))


def test_a_large_map_is_read_without_pandas(tmp_path):
    """Arrow's `to_numpy` loads it wherever it is installed, which took longer than to decode 10,000 candidates."""
    path = tmp_path / "map.csv"
    rappor.write_map(path, CANDIDATES)
    program = (
        "import sys; from overstory.files import rappor; rappor.SMALLEST = 1; "
        f"rappor.read_map({str(path)!r}, num_bits=12, num_hashes=2, num_cohorts=3); "
        "print({'pyarrow.csv', 'pandas'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown == "{'pyarrow.csv'}\n"


def test_few_and_many_candidates_are_hashed_alike():
    bloom = Bloom(128, 2, 16)
    names = [f"candidate {i}" for i in range(2000)]
    many, few = rappor.hash_candidates(names, bloom), rappor.hash_candidates(names[:1000], bloom)
    assert np.array_equal(many.positions[:, :1000], few.positions)


def test_a_csv_of_candidates_may_quote_them(tmp_path):
    assert rappor.read_candidates(written(tmp_path, '"a, b"\n"two\nlines"\nplain\n')) == ["a, b", "two\nlines", "plain"]
    with pytest.raises(FormatError, match="line 2: expected one candidate, found 2 fields"):
        rappor.read_candidates(written(tmp_path, "plain\na,b\n"))


NONE = {
    "params": (
        rappor.read_params,
        [
            ("", "the file is empty: expected a header with k,h,m,p,q,f"),
            ("\n\n", "the file is empty"),
            ("12,2,3,.25,.75,.5\n", "line 1: expected a header with k,h,m,p,q,f; k, h, m, p, q, f not found"),
            ("k,h,m,p,q\n12,2,3,.2,.7\n", "line 1: expected a header with k,h,m,p,q,f; f not found in 'k,h,m,p,q'"),
            ("k,k,h,m,p,q,f\n1,1,2,3,.2,.7,.5\n", "names k twice"),
            ("k,h,m,p,q,f\n", "expected one row under the header, found 0"),
            (GOOD_PARAMS + "12,2,3,0.25,0.75,0.5\n", "expected one row under the header, found 2"),
            ("k,h,m,p,q,f\n12,2,3,.2,.7\n", "line 2: expected 6 fields, as in the header, found 5"),
            (
                "k,h,m,p,q,f\n12.5,2,3,.2,.7,.5\n",
                "line 2, field k: expected a whole number from 1 to 65536, found '12.5'",
            ),
            ("k,h,m,p,q,f\n12,2,0,.2,.7,.5\n", "field m: expected a whole number from 1"),
            ("k,h,m,p,q,f\n12,2,3,nan,.7,.5\n", "field p: expected a number such as 0.5, found 'nan'"),
            ("k,h,m,p,q,f\n12,2,3,50%,.7,.5\n", "field p: expected a number such as 0.5, found '50%'"),
            ("k,h,m,p,q,f\n12,2,3,1.5,.7,.5\n", "line 2: p = 1.5 is not a probability"),
            ("k,h,m,p,q,f\n12,2,3,.5,.5,.5\n", "line 2: p = q"),
            ("k,h,m,p,q,f\n12,2,3,.2,.7,1\n", "line 2: f = 1"),
            ("k,h,m,p,q,f\n12,12,3,.2,.7,.5\n", "line 2: num_hashes"),
            (
                GOOD_PARAMS.encode("utf-16"),
                "this is UTF-16 text: save it as UTF-8, or convert it (iconv -f utf-16 -t utf-8)",
            ),
            (b"PK\x03\x04\x14\x00", "this is a zip archive or an Excel workbook: unpack it, or save the sheet as CSV"),
        ],
    ),
    "counts": (
        lambda path: rappor.read_counts(path, 2, 2),
        [
            ("", "the file is empty: expected 2 rows, one per cohort (m)"),
            ("5,1,2\n", "expected 2 rows, one per cohort (m), or a multiple of that, found 1"),
            ("5,1,2\n" * 3, "expected 2 rows, one per cohort (m), or a multiple of that, found 3"),
            ("5,1,2\n5,1\n", "line 2: expected 3 fields, the cohort's reports and 2 bit counts (k), found 2"),
            ("5,1,2\n5,1,2,3\n", "line 2: expected 3 fields"),
            ("5,1,2\n5,1,6\n", "line 2, field bit1: the bit is set 6 times in 5 reports: expected at most 5"),
            ("5,1,2\n5,1,-1\n", "line 2, field bit1: expected a whole number from 0"),
            ("5,1,2\n5,1.0,1\n", "line 2, field bit0: expected a whole number from 0"),
            ("5,1,2\nx,1,1\n", "line 2, field total: expected a whole number from 0"),
            ("total,bit0,bit1\n5,1,2\n", "line 1, field total: expected a whole number"),
            (f"5,1,2\n{1 << 63},1,1\n", "line 2, field total: expected a whole number"),
        ],
    ),
    "candidates": (
        rappor.read_candidates,
        [("", "the file is empty"), (b"ok\n\xff\n", "line 2, field candidate: expect")],
    ),
}


@pytest.mark.parametrize(("kind", "text", "says"), [(kind, *row) for kind, (_, rows) in NONE.items() for row in rows])
def test_a_file_that_is_none_is_named_with_its_fault(tmp_path, kind, text, says):
    path = written(tmp_path, text, f"{kind}.{'txt' if kind == 'candidates' else 'csv'}")
    with pytest.raises(FormatError) as caught:
        NONE[kind][0](path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)


def test_a_record_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr("overstory.files.io.LONGEST_RECORD", 1000)
    path = written(tmp_path, "client,cohort,value\nann,0,x\n" + "x" * 5000)
    with path.open("rb") as stream, pytest.raises(FormatError, match="line 3: this line is longer than 1000 bytes"):
        list(blocks(stream, str(path), 100))


def test_a_quote_without_end_does_not_hold_the_whole_file(tmp_path, monkeypatch):
    """Past the longest record a line end is a line end, whatever the quotes say."""
    monkeypatch.setattr("overstory.files.io.LONGEST_RECORD", 1000)
    path = written(tmp_path, 'ann,0,"x\n' + "bob,1,y\n" * 1000)
    with path.open("rb") as stream:
        cut = list(blocks(stream, str(path), 100))
    assert max(len(block.raw) for block in cut) < 1200
    assert b"".join(block.raw for block in cut) == path.read_bytes()
    lines = [block.raw.count(b"\n") for block in cut]
    assert [block.first_line for block in cut] == [1 + sum(lines[:i]) for i in range(len(lines))]


@pytest.mark.parametrize("name", ["found.csv", "found.csv.gz"])
@given(candidates=st.lists(TEXT.filter(bool), min_size=1, unique=True))
@example(
    candidates=["a,b", 'say "hi"', '"quoted"', " two spaces  ", "\ttab", "two\nlines", "one\rreturn", " ", "'", "=1+1"]
)
@example(candidates=["\ufeffmarked", "plain"])
def test_candidates_written_as_csv_are_read_again(name, candidates):
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        rappor.write_candidates(path, candidates)
        assert rappor.read_candidates(path) == candidates


@pytest.mark.parametrize("name", ["found.txt", "found", "found.txt.gz"])
def test_candidates_are_written_one_a_line_elsewhere(tmp_path, name):
    candidates = ["a,b", 'say "hi"', '"quoted"', " two spaces  "]
    rappor.write_candidates(tmp_path / name, candidates)
    assert rappor.read_candidates(tmp_path / name) == candidates
