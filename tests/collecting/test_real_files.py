"""Files as people have them: the shapes of public data sets, other delimiters and encodings, and faults by their line.

The shapes are those of UCI's household power and Adult and of Stack Overflow's survey; the rows are made here.
"""

import gzip

import pytest

from overstory.files.columns import Form
from overstory.protocol.errors import FormatError, ParameterError
from overstory.trial.population import Column, read_population

POWER = "Date;Time;Global_active_power;Voltage\n" + "".join(
    f"16/12/2006;17:{i % 60:02}:00;" + ("?;?\n" if i % 50 == 7 else f"{i % 700 / 100:.3f};{234 + i % 97 / 10:.3f}\n")
    for i in range(3_000)
)
ADULT = "".join(
    f"{20 + i % 60}, {('Private', '?', 'State-gov')[i % 3]}, {i}, {('HS-grad', 'Bachelors')[i % 2]}, <=50K\n"
    for i in range(900)
)
SURVEY = "Respondent,MainBranch,Hobbyist,Age,Comment\n" + "".join(
    f'{i},"I am a developer, by profession",{("Yes", "No", "NA")[i % 3]},{("NA", "30.5", "41", "25")[i % 4]},'
    f'"two\nlines ""quoted"", {i}"\n'
    for i in range(600)
)


def population(path, name, **form):
    return read_population(Column(str(path), name, form=Form(**form)), 1)


def held(found):
    return {label: count for label, count in zip(found.labels, found.counts.tolist(), strict=True) if count}


@pytest.fixture
def written(tmp_path):

    def write(content, name="file.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_household_power_as_downloaded(written):
    found = population(written(POWER, "household_power_consumption.txt"), "Voltage")
    assert found.edges
    assert (len(found), found.missing) == (2_940, 60)
    assert len(population(written(POWER), "Global_active_power")) == 2_940


def test_adult_as_downloaded(written):
    path = written(ADULT, "adult.data")
    assert held(population(path, "4", header=False)) == {"HS-grad": 450, "Bachelors": 450}
    assert held(population(path, "2", header=False, missing=("?",))) == {"Private": 300, "State-gov": 300}
    assert population(path, "2", header=False, missing=("?",)).missing == 300
    with pytest.raises(ParameterError, match=r"there is no column 'education'; there are: .*give --csv no-header"):
        population(path, "education")
    with pytest.raises(ParameterError, match=r"there is no column '6'; there are: '1', '2', '3', '4', '5'$"):
        population(path, "6", header=False)


def test_the_survey_as_downloaded(written):
    path = written(SURVEY, "survey_results_public.csv")
    counted = population(path, "Hobbyist")
    assert held(counted) == {"Yes": 200, "No": 200, "NA": 200}
    assert counted.notes[-1] == "'NA' was counted as a value: if it means no value, give --csv 'missing=NA'"
    left_out = population(path, "Hobbyist", missing=("NA",))
    assert (held(left_out), left_out.missing) == ({"Yes": 200, "No": 200}, 200)
    assert not any("missing=" in note for note in left_out.notes)
    assert held(population(path, "MainBranch")) == {"I am a developer, by profession": 600}
    with pytest.raises(ParameterError, match=r"there is no column 'hobbyst' \(did you mean 'Hobbyist'\?\); there are"):
        population(path, "hobbyst")


def test_nan_is_missing_in_a_column_of_few_numbers(written):
    found = population(written("c\n1\nNaN\n2\ninf\n1\nNA\n-inf\n?\n"), "c")
    assert (held(found), found.missing) == ({"1": 2, "2": 1}, 5)
    found = population(written("c\n7\nNaN\n"), "c")
    assert (held(found), len(found.labels), found.missing) == ({"7": 1}, 2, 1)
    assert held(population(written("c\noak\nNaN\n"), "c")) == {"oak": 1, "NaN": 1}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_sniffed(written, delimiter):
    rows = [["n", "a,b;c" if delimiter in "\t|" else "c d", "x"], ["1", "oak", "p"], ["2", "ash", "q"]]
    path = written("\n".join(delimiter.join(row) for row in rows) + "\n")
    assert held(population(path, rows[0][1])) == {"oak": 1, "ash": 1}
    assert held(population(path, "x", delimiter=delimiter)) == {"p": 1, "q": 1}


def test_the_delimiter_that_gives_the_column_is_the_one(written):
    """A header with more commas than semicolons, which is one of semicolons all the same."""
    path = written("id;size, weight, colour\n1;a\n2;b\n")
    assert held(population(path, "size, weight, colour")) == {"a": 1, "b": 1}


LINES = '{"tree": "oak", "height": 1}\n\n{"tree": null, "height": 2.5}\n{"height": true, "tree": "ash"}\n{"tree": ""}\n'


def test_json_lines(written):
    path = written(LINES, "trees.jsonl")
    found = population(path, "tree")
    assert (held(found), found.missing) == ({"oak": 1, "ash": 1}, 2)
    assert held(population(path, "height")) == {"1": 1, "2.5": 1, "true": 1}
    assert held(population(written(gzip.compress(LINES.encode())), "tree")) == {"oak": 1, "ash": 1}
    with pytest.raises(ParameterError, match=r"there is no column 'tre' \(did you mean 'tree'\?\)"):
        population(path, "tre")
    with pytest.raises(FormatError, match="one JSON list: write an object a line"):
        population(written('[{"tree": "oak"}]'), "tree")
    with pytest.raises(FormatError, match=r"line 2, field tree: expected a text or a number, found a list"):
        population(written('{"tree": "oak"}\n{"tree": ["ash"]}\n'), "tree")
    with pytest.raises(FormatError, match="line 2: this line is no JSON"):
        population(written('{"tree": "oak"}\n{"tree": \n'), "tree")
    with pytest.raises(FormatError, match="line 2: expected an object a line"):
        population(written('{"tree": "oak"}\n7\n'), "tree")


def test_encodings(written):
    path = written("tree;n\nkält;1\n".encode("utf-16"), "excel.csv")
    assert held(population(path, "tree")) == {"kält": 1}
    path = written("tree\ncafé\n".encode("latin-1"))
    assert held(population(path, "tree", encoding="latin-1")) == {"café": 1}
    assert held(population(written(b"\xef\xbb\xbftree\noak\n"), "tree")) == {"oak": 1}
    assert held(population(written(gzip.compress(b"tree\noak\n"), "no-ending"), "tree")) == {"oak": 1}
    with pytest.raises(ParameterError, match="there is no such encoding"):
        Form(encoding="klingon")


def test_blanks_are_kept_or_dropped(written):
    path = written("c,d\n oak ,1\noak,2\n")
    assert held(population(path, "c")) == {" oak ": 1, "oak": 1}
    assert held(population(path, "c", tidy=True)) == {"oak": 2}


FAULTS = {
    "ragged": ("n,c\n1,oak\n2,ash,3\n", {}, "line 3: expected 2 fields, as in the header, found 3"),
    "short": ("n,c\n1,oak\n\n2\n", {}, "line 4: expected 2 fields, as in the header, found 1"),
    "escapes": ("n,c\n\x1b[31moak\x1b[0m,1,2\n", {}, "line 2: expected 2 fields"),
    "quote": ('n,c\n1,oak\n2,"ash\n3,elm\n4,fir\n', {}, "line 3: a quote opens in this record and does not close"),
    "long quote": ('n,c\n1,oak\n2,"ash\n' + "3,elm\n" * 60_000, {}, "line 3: a quote opens in this record"),
    "latin-1": (b"n,c\n1,oak\n2,caf\xe9\n", {}, "line 3: this is not UTF-8 text (found the byte 0xe9): --csv encoding"),
    "latin-1 header": (b"n,c\xe9\n1,oak\n", {}, "line 1: this is not UTF-8 text (found the byte 0xe9)"),
    "xlsx": (b"PK\x03\x04\x14\0\x06\0", {}, "this is a zip archive or an Excel workbook: unpack it, or save the sheet"),
    "xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", {}, "this is an old Excel workbook: save the sheet as CSV"),
    "xz": (b"\xfd7zXZ\0\0", {}, "this is compressed by xz: unpack it (gz is read as it is)"),
    "binary": (b"\x7fELF\0\0\0", {}, "this is no text"),
    "empty": ("", {}, "the file is empty: expected a header that names the columns"),
    "blank": ("\n\n", {}, "the file is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_in_our_words_with_its_line(written, case):
    content, form, says = FAULTS[case]
    path = written(content)
    with pytest.raises(FormatError) as caught:
        population(path, "c", **form)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "Arrow" not in str(caught.value)


def test_a_number_that_is_none_is_named_with_line_and_field(written):
    path = written("n;c\n" + "".join(f"{i};{i / 4}\n" for i in range(5000)) + "5000;1,5\n")
    with pytest.raises(FormatError, match=r"line 5002, field c: the column is to hold numbers, found '1,5'"):
        read_population(Column(str(path), "c", bins=(0.0, 10.0, 5)), 1)


def test_a_quote_inside_a_plain_field_is_text(written):
    assert held(population(written('n,c\n1,5" pipe\n2,oak\n'), "c")) == {'5" pipe': 1, "oak": 1}


@pytest.mark.parametrize("delimiter", [",,", "", '"', "\n"])
def test_a_delimiter_is_one_character(delimiter):
    with pytest.raises(ParameterError, match="give one character"):
        Form(delimiter=delimiter)
