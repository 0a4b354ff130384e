"""Files as people have them: the shapes of public data sets, other delimiters and encodings, and faults by their line.

The shapes are those of UCI's household power and Adult and of Stack Overflow's survey; the rows are made here.
"""

import gzip
import io
import json
import unicodedata

import pandas as pd
import pytest

from overstory.files.columns import Form
from overstory.protocol.errors import FormatError, ParameterError
from overstory.trial.population import read_population
from support.running import within

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
    return read_population(str(path), name, form=Form(**form), seed=1)


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
    path = written("id;size, weight, colour\n1;a\n2;b\n")
    assert held(population(path, "size, weight, colour")) == {"a": 1, "b": 1}


@pytest.mark.parametrize("text", ['{"tree": "oak"}\n', '[{"tree": "oak"}]', ' [\n {"tree": "oak"}]', "{}"])
def test_json_is_refused_with_what_makes_it_csv(written, text):
    with pytest.raises(FormatError, match="this is JSON: make it CSV"):
        population(written(text), "tree")


def test_encodings(written):
    path = written("tree;n\nkält;1\n".encode("utf-16"), "excel.csv")
    assert held(population(path, "tree")) == {"kält": 1}
    path = written("tree\ncafé\n".encode("latin-1"))
    assert held(population(path, "tree", encoding="latin-1")) == {"café": 1}
    assert held(population(written(b"\xef\xbb\xbftree\noak\n"), "tree")) == {"oak": 1}
    assert held(population(written(gzip.compress(b"tree\noak\n"), "no-ending"), "tree")) == {"oak": 1}
    with pytest.raises(ParameterError, match="there is no such encoding"):
        Form(encoding="klingon")


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
        read_population(str(path), "c", bins=(0.0, 10.0, 5))


@pytest.mark.parametrize("delimiter", [",,", "", '"', "\n"])
def test_a_delimiter_is_one_character(delimiter):
    with pytest.raises(ParameterError, match="give one character"):
        Form(delimiter=delimiter)


# Files as newcomers bring them: twenty shapes of public data sets, made here, and what comes of each at the first try
def rows(header, form, number=240):
    return header + "\n" + "".join(form(i) + "\n" for i in range(number))


def parquet(frame):
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()


def day(i, form):
    return (pd.Timestamp("2026-01-05") + pd.Timedelta(days=i)).strftime(form)


def german(number):
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


ANSWERS = ("Yes", "yes ", "No", "YES")
SHOPS = rows("Datum;Umsatz;Filiale", lambda i: f"{day(i, '%d.%m.%Y')};{german(950 + i)};{('Nord', 'Süd')[i % 2]}")
SALARIES = rows("Date,Pay", lambda i: f'{i % 12 + 1}/{i % 28 + 1}/2025,"{1000 + i:,}.50"')
BOOKED = rows("Date,Pay", lambda i: f'0{i % 9 + 1}/0{i % 8 + 1}/2025,"{1000 + i:,}"')
EVENTS = rows("type,created_at", lambda i: "PushEvent," + day(i % 20, f"%Y-%m-%dT10:{i % 60:02}:07Z"))
LOG = rows("time,status", lambda i: day(i % 300, f"%Y-%m-%d 13:{i % 60:02}:12.{i:06}") + f",{(200, 404)[i % 2]}")
TAXI = pd.DataFrame(
    {"pickup": pd.date_range("2026-01-05", periods=240, freq="6h"), "tip": [i % 7 / 2 for i in range(240)]}
)

WENT_IN = {
    "a German shop's turnover": (SHOPS, "Umsatz", {}, "read as numbers with a decimal comma"),
    "its days": (SHOPS, "Datum", {"2026-W02": 7}, "counted by week (2026-W02 is the week of 5 January 2026)"),
    "Swedish statistics, thousands apart by a narrow space": (
        rows("Kommun\tInkomst", lambda i: f"{i}\t1\u202f{i:03},{i % 10}").encode("utf-16"),
        *("Inkomst", {}, "read as numbers with a decimal comma"),
    ),
    "one column with a decimal comma": (rows("wert", lambda i: f"{i % 4},5"), "wert", {"0.5": 60, "3.5": 60}, "comma"),
    "a Swiss budget": (rows("Betrag;x", lambda i: f"{i % 3 + 1}'000.50;"), "Betrag", {"1000.50": 80}, "decimal point"),
    "measurements in Excel's notation": (rows("a;b", lambda i: f"{i % 3},5E+03;-"), "a", {"2.5E+03": 80}, "comma"),
    "a US payroll": (SALARIES, "Pay", {}, "read as numbers with a decimal point"),
    "its days, some of them past the twelfth": (SALARIES, "Date", {"2025-W01": 6}, "counted by week"),
    "events with the time of day": (EVENTS, "created_at", {"2026-01-05": 12}, "counted by day"),
    "a log with microseconds, compressed": (gzip.compress(LOG.encode()), "time", {"2026-W02": 7}, "counted by week"),
    "rides as Parquet": (parquet(TAXI), "pickup", {"2026-W02": 28}, "counted by week"),
    "pandas with its index": (TAXI.head(60).to_csv(), "tip", {"0.0": 9, "3.0": 8}, ""),
    "answers that people typed": (
        rows("id,answer", lambda i: f"{i},{ANSWERS[i % 4]}"),
        *("answer", {"Yes": 60, "yes ": 60, "No": 60, "YES": 60}, "'Yes' and 'YES', 'yes ' and 'YES' look alike"),
    ),
    "names of a Mac and of Windows": (
        rows("ort", lambda i: unicodedata.normalize(("NFC", "NFD")[i % 2], "Jyväskylä")) + "Oulu\n",
        *("ort", {"Oulu": 1}, "look alike and are counted apart; --csv tidy"),
    ),
    "postcodes": (rows("plz", lambda i: f"0{i % 2}067"), "plz", {"00067": 120, "01067": 120}, ""),
    "telephone numbers": (rows("t;x", lambda i: f"0{i % 2}0 123 456;"), "t", {"000 123 456": 120}, ""),
    "versions": (rows("v", lambda i: f"{i % 2}.10.2"), "v", {"0.10.2": 120, "1.10.2": 120}, ""),
    "weeks as they are": (rows("w", lambda i: f"2026-W0{i % 2 + 1}"), "w", {"2026-W01": 120}, ""),
    "days that are none": (rows("d", lambda i: f"3{i % 2}.02.2025"), "d", {"30.02.2025": 120}, ""),
    "a date that is not known": (
        rows("d,x", lambda i: f"{('NA', day(0, '%Y-%m-%d'))[i % 2]},"),
        *("d", {"2026-01-05": 120, "NA": 120}, "'NA' was counted as a value"),
    ),
    "choices in one field": (rows("c", lambda i: ("a", "b", "a;b")[i % 3]), "c", {"a;b": 80}, "--separator ';'"),
}  # fmt: skip
REFUSED = {
    "days before the thirteenth": (BOOKED, "Date", "dates=dmy", {"2025-W01": 16}),
    "the same, by month": (BOOKED, "Date", "dates=mdy", {"2025-W01": 18}),
    "thousands, or thousandths": (BOOKED, "Pay", "decimal=,", {"[1.0, 1.02)": 20}),
}


def tried(folder, content, *options):
    folder.joinpath("file").write_bytes(content if isinstance(content, bytes) else content.encode())
    return within("collect", "file", *options, "--epsilon", 4, "--json", cwd=folder)


@pytest.mark.parametrize("name", WENT_IN)
def test_a_file_goes_in_at_the_first_try(tmp_path, name):
    content, column, held, note = WENT_IN[name]
    done = tried(tmp_path, content, "--column", column)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    truth = {row["value"]: row["truth"] for row in told["estimates"]}
    assert held.items() <= truth.items(), truth
    assert any(note in text for text in told["notes"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_two_meanings_is_refused_with_the_option_that_tells(tmp_path, name):
    content, column, option, held = REFUSED[name]
    refused = tried(tmp_path, content, "--column", column)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert f"--csv {option.partition('=')[0]}=" in refused.stderr
    assert option in refused.stderr
    told = json.loads(tried(tmp_path, content, "--column", column, "--csv", option).stdout)
    assert held.items() <= {row["value"]: row["truth"] for row in told["estimates"]}.items(), told["estimates"]


def test_tidy_counts_as_one_what_differs_in_blanks_and_case(tmp_path):
    content = WENT_IN["answers that people typed"][0]
    told = json.loads(tried(tmp_path, content, "--column", "answer", "--csv", "tidy").stdout)
    assert {row["value"]: row["truth"] for row in told["estimates"]} == {"YES": 180, "No": 60}
    tmp_path.joinpath("listed").write_text("yes\nmaybe\n")
    told = json.loads(tried(tmp_path, content, "--column", "answer", "--candidates", "listed", "--csv", "tidy").stdout)
    assert {row["value"]: row["truth"] for row in told["estimates"]} == {"yes": 180, "maybe": 0, "(not listed)": 60}
    told = json.loads(tried(tmp_path, content, "--column", "answer", "--separator", ";", "--csv", "tidy").stdout)
    assert {row["value"]: row["true_frequency"] for row in told["estimates"]} == {"YES": 0.75, "No": 0.25}


def test_two_columns_are_each_taken_for_what_they_are(tmp_path):
    options = ("--column", "Filiale", "--column", "Datum", "--csv", "dates=month")
    told = json.loads(tried(tmp_path, SHOPS, *options).stdout)
    assert sorted({cell["column"] for cell in told["cells"]}) == [f"2026-0{month}" for month in range(1, 10)]
    assert any(note.startswith("Datum: read as dates and counted by month") for note in told["notes"])
    words = json.loads(tried(tmp_path, SHOPS, "--column", "Datum", "--csv", "words").stdout)
    assert len(words["estimates"]) == 240
    refused = tried(tmp_path, SHOPS, "--column", "Filiale", "--csv", "dates=week")
    assert "--csv dates=week: Filiale holds texts that are no dates" in refused.stderr


def test_times_are_counted_by_day_before_they_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr("overstory.trial.population.MOST_VALUES", 100)
    times = rows("t", lambda i: f"2026-01-{i % 20 + 1:02}T10:00:00.{i:06}", 3_000)
    tmp_path.joinpath("file").write_text(times)
    found = read_population(str(tmp_path / "file"), "t")
    assert found.labels[-1] == "2026-01-20"
    assert found.counts.tolist() == [150] * 20


@pytest.mark.parametrize("command", ["compare", "discover"])
def test_other_commands_read_a_column_so_and_say_it(tmp_path, command):
    tmp_path.joinpath("file").write_text(SHOPS)
    options = {"compare": ("--measure", 2), "discover": ("--bytes", 8, "--csv", "dates=month")}[command]
    done = within(command, "file", "--column", "Datum", "--epsilon", 4, *options, "--json", cwd=tmp_path)
    assert f"overstory {command}: note: Datum: read as dates and counted by" in done.stderr
    assert command == "discover" or json.loads(done.stdout)["domain_size"] == 35
