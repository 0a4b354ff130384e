"""Files as newcomers bring them: twenty shapes of public data sets, made here, and what comes of each at the first try.

No option says how a file is written, unless the first try was refused by a sentence that names it.
"""

import gzip
import io
import json
import unicodedata

import pandas as pd
import pytest

from overstory.trial.population import Column, read_population
from support.running import within


def rows(header, form, number=240):
    """Return a file's text: its header, and lines made of their numbers."""
    return header + "\n" + "".join(form(i) + "\n" for i in range(number))


def parquet(frame):
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()


def day(i, form):
    return (pd.Timestamp("2026-01-05") + pd.Timedelta(days=i)).strftime(form)


def german(number):
    """Return a number of two digits after the comma, thousands apart by points."""
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


ANSWERS = ("Yes", "yes ", "No", "YES")
SHOPS = rows("Datum;Umsatz;Filiale", lambda i: f"{day(i, '%d.%m.%Y')};{german(950 + i)};{('Nord', 'Süd')[i % 2]}")
SALARIES = rows("Date,Pay", lambda i: f'{i % 12 + 1}/{i % 28 + 1}/2025,"{1000 + i:,}.50"')
BOOKED = rows("Date,Pay", lambda i: f'0{i % 9 + 1}/0{i % 8 + 1}/2025,"{1000 + i:,}"')
EVENTS = rows(
    "", lambda i: json.dumps({"type": "PushEvent", "created_at": day(i % 20, f"%Y-%m-%dT10:{i % 60:02}:07Z")})
)
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
    "events as JSON lines": (EVENTS, "created_at", {"2026-01-05": 12}, "counted by day"),
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
    assert bool(told["quantiles"]) == (not held)  # the others are numbers, in bins
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
    devices = "--column", "answer", "--device-column", "id", "--csv", "tidy"
    told = json.loads(tried(tmp_path, content, *devices).stdout)
    assert {row["value"]: row["truth"] for row in told["estimates"]} == {"YES": 180, "No": 60}
    told = json.loads(tried(tmp_path, content, "--column", "answer", "--separator", ";", "--csv", "tidy").stdout)
    assert {row["value"]: row["true_share"] for row in told["estimates"]} == {"YES": 0.75, "No": 0.25}


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
    times = rows("t", lambda i: f"2026-01-{i % 20 + 1:02}T10:00:00.{i:06}", 3_000)
    tmp_path.joinpath("file").write_text(times)
    monkeypatch.setattr("overstory.trial.population.MOST_VALUES", 100)
    found = read_population(Column(str(tmp_path / "file"), "t"))
    assert found.labels[-1] == "2026-01-20"
    assert found.counts.tolist() == [150] * 20


@pytest.mark.parametrize("command", ["compare", "discover"])
def test_other_commands_read_a_column_so_and_say_it(tmp_path, command):
    tmp_path.joinpath("file").write_text(SHOPS)
    options = {"compare": ("--measure", 2), "discover": ("--bytes", 8, "--csv", "dates=month")}[command]
    done = within(command, "file", "--column", "Datum", "--epsilon", 4, *options, "--json", cwd=tmp_path)
    assert f"overstory {command}: note: Datum: read as dates and counted by" in done.stderr
    assert command == "discover" or json.loads(done.stdout)["domain_size"] == 35
    numbers = within("compare", "file", "--column", "Umsatz", "--numeric", 0, 2000, "--epsilon", 1, cwd=tmp_path)
    assert "note: Umsatz: read as numbers with a decimal comma" in numbers.stderr
