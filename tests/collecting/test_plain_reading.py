"""Small CSV files are read by Python, others by Arrow: wherever Python's reader answers, both say the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.files.columns import reader
from overstory.files.columns.layout import Form, layout_of
from overstory.files.columns.reader import NO_NUMBERS, blocks
from overstory.protocol.errors import FormatError

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


def by_arrow(path, columns, form, *, numbers):
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


@settings(deadline=None, max_examples=300)
@given(files(), st.sampled_from([(), ("NA", "oak")]), st.booleans())
def test_python_says_what_arrow_says(path, written, missing, strip):
    text, delimiter = written
    path.write_bytes(text.encode())
    form = Form(delimiter, missing, strip)
    layout = layout_of(str(path), form, ["d", "c"])
    plainly = reader.read_plain(str(path), layout, ["d", "c"])
    if plainly is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "read_plain", lambda *_: None)
        texts = by_arrow(path, ["d", "c"], form, numbers=False)
        numbers = by_arrow(path, ["d", "c"], form, numbers=True)
    assert texts == [[None if field in missing else field for field in fields] for fields in plainly]
    found = reader.numbers_of(plainly[0], NO_NUMBERS.union(missing))
    if found is not None:
        assert numbers is not None
        assert np.array_equal(found, numbers[0], equal_nan=True)


def test_blanks_are_the_same_characters():
    pa = pytest.importorskip("pyarrow")
    from pyarrow import compute

    every = [chr(code) for code in range(0x11000) if not 0xD800 <= code < 0xE000]
    trimmed = compute.utf8_trim_whitespace(pa.array(every)).to_pylist()
    assert [text.strip() for text in every] == trimmed


@pytest.mark.parametrize(
    "text",
    ["c,d\n1,2\n", 'c,d\n"a,b",2\r\n"x\ny",3\r\n', "c,d\n\n1,2\n\n", "\ufeffc,d\n1,2", "c,d\n,2\n"],
)
def test_small_files_are_read_plainly(path, text):
    """So that the property above is not true of nothing."""
    path.write_text(text, newline="")
    assert reader.read_plain(str(path), layout_of(str(path), Form()), ["c", "d"]) is not None
    assert reader.numbers_of(["1", None, " 2.5 ", "-3e2", "NA"], NO_NUMBERS) is not None


@pytest.mark.parametrize(
    "text",
    ['c,d\n"",2\n', 'c,d\n1,in"side\n', "c,d\n1\n", "c,d\n1,2\r3,4\n", "c,d\n" + "1,2\n" * 300_000],
    ids=["quoted nothing", "quote inside", "ragged", "lone CR", "large"],
)
def test_what_readers_disagree_about_is_left_to_arrow(path, text):
    path.write_text(text, newline="")
    assert reader.read_plain(str(path), layout_of(str(path), Form()), ["c", "d"]) is None
