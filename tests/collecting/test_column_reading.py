"""The streaming reader and the histograms: whatever the file's form and however it is cut, the same counts."""

import csv
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from overstory.files import columns as reader
from overstory.files.columns import Form, blocks, layout_of
from overstory.protocol.domains.numbers import Bins
from overstory.protocol.errors import FormatError, ParameterError
from overstory.trial.population import (
    MANY_NUMBERS,
    NOT_LISTED,
    TooManyValuesError,
    all_numbers,
    chosen_bins,
    count_bins,
    count_values,
    read_population,
    round_bins,
    symbols,
)

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6)
ROWS = st.lists(st.one_of(st.none(), TEXT), min_size=1, max_size=40)
BLOCK = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("columns")


def write_csv(path, rows):
    """Nulls as nothing between the commas, texts in quotes: also those with nothing in them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("n,c\n")
        for i, row in enumerate(rows):
            file.write(f"{i}," + ("" if row is None else '"' + row.replace('"', '""') + '"') + "\n")


def write_parquet(path, rows, kind=None):
    kind = kind or pa.string()
    parquet.write_table(pa.table({"n": pa.array(range(len(rows))), "c": pa.array(rows, kind)}), path)


def told(population):
    return {label: count for label, count in zip(population.labels, population.counts.tolist(), strict=True) if count}


@settings(max_examples=40)
@given(rows=ROWS, block=st.integers(40, 400))
def test_csv_and_parquet_give_the_histogram_however_they_are_cut(folder, rows, block):
    truth = Counter(row for row in rows if row is not None)
    write_csv(folder / "t.csv", rows)
    write_parquet(folder / "t.parquet", rows)
    for name in ("t.csv", "t.parquet"):
        path = str(folder / name)
        if not truth:
            with pytest.raises(ParameterError, match="holds nothing to collect"):
                count_values(path, "c", block=block)
            continue
        population = count_values(path, "c", block=block)
        assert told(population) == truth
        assert population.missing == rows.count(None)
        assert len(population) == truth.total()
        if len(truth) > 1:
            assert population.labels == tuple(sorted(truth))


@settings(max_examples=40)
@given(rows=ROWS.filter(lambda rows: any(row is not None for row in rows)), most=st.integers(2, 12))
def test_no_more_values_than_allowed(folder, rows, most):
    write_csv(folder / "m.csv", rows)
    distinct = {row for row in rows if row is not None}
    path = str(folder / "m.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("overstory.trial.population.MOST_VALUES", most)
        if len(distinct) > most:
            with pytest.raises(TooManyValuesError, match=f"more than {most} distinct values.*--bins.*--candidates"):
                count_values(path, "c")
        else:
            assert set(told(count_values(path, "c"))) == distinct


@settings(max_examples=40)
@given(rows=ROWS, listed=st.lists(TEXT.filter(bool), min_size=1, max_size=5, unique=True))
def test_what_is_not_listed_counts_as_one(folder, rows, listed):
    write_csv(folder / "l.csv", rows)
    there = [row for row in rows if row is not None]
    if not there:
        return
    population = count_values(str(folder / "l.csv"), "c", candidates=listed, block=BLOCK)
    assert population.labels == (*listed, NOT_LISTED)
    assert population.counts.tolist() == [
        *(there.count(one) for one in listed),
        sum(row not in listed for row in there),
    ]


@settings(max_examples=40)
@given(
    numbers=st.lists(st.one_of(st.none(), st.floats(width=32)), min_size=1, max_size=60),
    count=st.integers(2, 9),
    block=st.integers(40, 400),
)
def test_numbers_fall_into_the_bins_of_the_domain(folder, numbers, count, block):
    domain = Bins(-1, 2, count)
    there = [number for number in numbers if number is not None and np.isfinite(number)]
    truth = Counter(domain.symbol(number) for number in there)
    write_parquet(folder / "n.parquet", numbers, pa.float64())
    with (folder / "n.csv").open("w") as file:
        file.write("n,c\n" + "".join(f"{i},{'' if x is None else repr(x)}\n" for i, x in enumerate(numbers)))
    for name in ("n.parquet", "n.csv"):
        path = str(folder / name)
        if not there:
            with pytest.raises(ParameterError, match="holds nothing"):
                count_bins(path, "c", domain, block=block)
            continue
        population = count_bins(path, "c", domain, block=block)
        assert population.counts.tolist() == [truth[i] for i in range(count)]
        assert population.missing == len(numbers) - len(there)
        outside = sum(not -1 <= number <= 2 for number in there)
        assert any(note.startswith(f"{outside:,} numbers lie outside") for note in population.notes) == bool(outside)


def test_a_sample_does_not_hang_on_the_blocks(folder):
    numbers = np.random.default_rng(3).normal(10, 2, 5_000).round(4)
    (folder / "s.csv").write_text("c\n" + "\n".join(map(str, numbers)) + "\n")
    path = str(folder / "s.csv")
    found = {chosen_bins(path, "c", np.random.default_rng(1), block=block) for block in (100, 5_000, 1 << 22)}
    assert found == {Bins(5.0, 15.0, 20)}


@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), count=st.integers(2, 100), shift=st.floats(0, 1))
def test_round_bins_cover_their_range(low, width, count, shift):
    high = low + width
    bins = round_bins(low, high, count)
    slack = 1e-9 * max(abs(low), abs(high))
    assert bins.minimum <= low + slack
    assert bins.maximum >= high - slack
    assert 2 <= bins.count <= count + 2
    inside = low + shift * width
    if bins.minimum <= inside <= bins.maximum:
        assert symbols(bins, np.array([inside])).tolist() == [bins.symbol(inside)]


@pytest.mark.parametrize(
    ("values", "kind", "labels"),
    [
        ([1, 2, 1], pa.int32(), {"1": 2, "2": 1}),
        ([True, False, None], pa.bool_(), {"true": 1, "false": 1}),
        (["x", "y", "x"], pa.dictionary(pa.int8(), pa.string()), {"x": 2, "y": 1}),
        ([0, 1, 0], pa.date32(), {"1970-01-01": 2, "1970-01-02": 1}),
    ],
)
def test_other_kinds_are_read_as_text(folder, values, kind, labels):
    write_parquet(folder / "k.parquet", values, kind)
    assert told(count_values(str(folder / "k.parquet"), "c")) == labels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n,c\n", "holds nothing to collect: no rows"),
        ("n,c\n1,\n2,\n", "2 rows, all without a value"),
        ("n,b\n1,2\n", "there is no column 'c'; there are: 'n', 'b'"),
        ("c,c\n1,2\n", "2 columns are called 'c'"),
    ],
)
def test_what_is_wrong_is_said(folder, text, words):
    (folder / "w.csv").write_text(text)
    with pytest.raises(ParameterError, match=words):
        count_values(str(folder / "w.csv"), "c")


def test_text_among_numbers_and_lists_and_broken_files(folder):
    (folder / "w.csv").write_text("c\n1\nNA\none\n")
    with pytest.raises(FormatError, match=r"is to hold numbers.*'one'"):
        count_bins(str(folder / "w.csv"), "c", Bins(0, 1, 2))
    write_parquet(folder / "list.parquet", [[1], [2]], pa.list_(pa.int8()))
    with pytest.raises(FormatError, match="text or numbers is expected"):
        count_values(str(folder / "list.parquet"), "c")
    whole = (folder / "list.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[:-20])
    with pytest.raises(FormatError, match="no sound CSV or Parquet"):
        count_values(str(folder / "cut.parquet"), "c")
    write_parquet(folder / "bytes.parquet", [b"a", b"\xff"], pa.binary())
    with pytest.raises(FormatError, match="UTF"):
        count_values(str(folder / "bytes.parquet"), "c")


def test_many_numbers_become_bins_and_many_words_do_not(folder, monkeypatch):
    few, many = MANY_NUMBERS, MANY_NUMBERS + 1
    (folder / "few.csv").write_text("c\n" + "\n".join(map(str, range(few))))
    (folder / "many.csv").write_text("c\n" + "\n".join(map(str, range(many))))
    (folder / "words.csv").write_text("c\n" + "\n".join(f"w{i}" for i in range(many)))
    assert len(read_population(str(folder / "few.csv"), "c").labels) == few
    assert read_population(str(folder / "many.csv"), "c").edges
    assert not read_population(str(folder / "words.csv"), "c").edges
    monkeypatch.setattr("overstory.trial.population.MOST_VALUES", 10)
    assert read_population(str(folder / "many.csv"), "c").edges
    with pytest.raises(TooManyValuesError):
        read_population(str(folder / "words.csv"), "c")


def test_people_are_drawn_from_the_rows(folder):
    write_csv(folder / "p.csv", ["a"] * 3 + ["b"])
    population = read_population(str(folder / "p.csv"), "c", people=40_000, seed=1)
    assert len(population) == 40_000
    assert abs(population.shares[0] - 0.75) < 5 * (0.75 * 0.25 / 40_000) ** 0.5
    assert population.notes[-1] == "40,000 people were drawn from your 4 rows, with replacement"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bins": (0, 1, 2), "candidates": "d"}, "give one of"),
        ({"people": 0}, "--people 0: give a whole number from 1 to 10,000,000,000$"),
        ({"people": 10**20}, "from 1 to 10,000,000,000"),
    ],
)
def test_a_column_is_asked_for_in_one_way(given, words):
    with pytest.raises(ParameterError, match=words):
        read_population("f", "c", **given)


def test_postcodes_are_no_numbers():
    assert not all_numbers(["00501", "10001"])
    assert not all_numbers(["1_000"])
    assert all_numbers(["0", "0.5", "-3", "1e5"])


def test_progress_never_passes_the_size(folder):
    rows = [str(i % 7) for i in range(20_000)]
    with (folder / "b.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("c",), *((row,) for row in rows)])
    read = []
    cut = list(blocks(str(folder / "b.csv"), ["c"], advance=read.append, block=4096))
    assert len(cut) > 5
    assert sum(len(block[0]) for block in cut) == len(rows)
    assert 0 < sum(read) <= (folder / "b.csv").stat().st_size


# Small CSV files are read by Python, others by Arrow: wherever Python's reader answers, both say the same
TEXTS = (
    "oak",
    "a b",
    "",
    '""',
    '"x,y"',
    '"a;b"',
    '"two\nlines"',
    '"say ""hi"""',
    'in"side',
    " oak ",
    "\u2003wide\u3000",
)
NUMBERS = ("NA", "1", "-2.5", "1e3", "+1", ".5", "5.", "inf", "nan", "1_0", "0x1", "é", "\x1c", "?", "#N/A", "١")
PIECES = st.sampled_from([*TEXTS, *NUMBERS])
ENDS = st.sampled_from(["\n", "\r\n"])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("plain") / "small.csv"


@st.composite
def files(draw):
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    rows = draw(st.lists(st.lists(PIECES, min_size=2, max_size=2), max_size=8))
    end = draw(ENDS)
    lines = [delimiter.join(row) for row in rows]
    blank = draw(st.integers(0, len(lines)))
    lines[blank:blank] = [""] * draw(st.integers(0, 1))
    text = end.join([delimiter.join(("c", "d")), *lines]) + draw(st.sampled_from(["", end]))
    return draw(st.sampled_from(["", "\ufeff"])) + text, delimiter


def read_by(path, columns, form, *, numbers):
    try:
        read = list(blocks(str(path), columns, form=form, numbers=numbers))
    except FormatError:
        return None
    return [np.concatenate([block[i] for block in read]) if numbers and i == 0 else listed(read, i) for i in range(2)]


def listed(read, i):
    known = {}
    numbers = np.concatenate([block[i].numbered(known) for block in read]) if read else []
    names = [*known, None]
    return [names[number] for number in numbers]


@settings(max_examples=300)
@given(files(), st.sampled_from([(), ("NA", "oak")]), st.booleans())
def test_python_says_what_arrow_says(path, written, missing, strip):
    text, delimiter = written
    path.write_bytes(text.encode())
    form = Form(delimiter, missing, tidy=strip)
    layout = layout_of(str(path), form, ["d", "c"])
    plainly = reader.read_plain(str(path), layout, ["d", "c"])
    if plainly is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "read_plain", lambda *_: None)
        texts = read_by(path, ["d", "c"], form, numbers=False)
        numbers = read_by(path, ["d", "c"], form, numbers=True)
    assert texts == [[None if field in missing else field for field in fields] for fields in plainly]
    found = read_by(path, ["d", "c"], form, numbers=True)  # without Arrow
    assert (found is None) == (numbers is None)
    assert found is None or np.array_equal(found[0], numbers[0], equal_nan=True)


def test_blanks_are_the_same_characters():
    pa = pytest.importorskip("pyarrow")
    from pyarrow import compute

    every = [chr(code) for code in range(0x11000) if not 0xD800 <= code < 0xE000]
    trimmed = compute.utf8_trim_whitespace(pa.array(every)).to_pylist()
    assert [text.strip() for text in every] == trimmed


PLAIN = ["c,d\n1,2\n", 'c,d\n"a,b",2\r\n"x\ny",3\r\n', "c,d\n\n1,2\n\n", "\ufeffc,d\n1,2", "c,d\n,2\n"]
DISPUTED = {
    "quoted nothing": 'c,d\n"",2\n',
    "quote inside": 'c,d\n1,in"side\n',
    "ragged": "c,d\n1\n",
    "lone CR": "c,d\n1,2\r3,4\n",
    "large": "c,d\n" + "1,2\n" * 300_000,
}


@pytest.mark.parametrize("text", [*PLAIN, *DISPUTED.values()], ids=[*map(repr, PLAIN), *DISPUTED])
def test_small_files_are_read_plainly_and_what_readers_disagree_about_is_left_to_arrow(path, text):
    path.write_text(text, newline="")
    assert (reader.read_plain(str(path), layout_of(str(path), Form()), ["c", "d"]) is None) == (text not in PLAIN)
