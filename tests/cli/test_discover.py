"""``overstory discover`` end to end: both kinds of values, a dictionary, files, and one clear message for bad input."""

import csv
import gzip
import json
import re
import subprocess
import sys

import pytest

from support.running import within

TREES = ["oak", "ash", "elm", "café"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("discover")
    rows = [(f"c{i}", TREES[i % 4] if i % 5 else f"rare{i}", (1 << 60) + i % 3) for i in range(12_000)]
    with (folder / "values.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("client", "tree", "number"), *rows])
    with gzip.open(folder / "values.csv.gz", "wb") as file:
        file.write((folder / "values.csv").read_bytes())
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"tree": [row[1] for row in rows], "number": pa.array([row[2] for row in rows], pa.uint64())}
    parquet.write_table(pa.table(columns), folder / "values.parquet")
    (folder / "known.txt").write_text("oak\nyew\n")
    (folder / "bad.csv").write_text("client,number\na,12\nb,twelve\n")
    (folder / "long.csv").write_text("tree\noak\n" + "y" * 40 + "\n")
    (folder / "empty.csv").write_text("client,number\na,\n")
    return folder


def discover(files, *arguments):
    return within("discover", *arguments, "--epsilon", 4, "--seed", 1, cwd=files)


@pytest.mark.parametrize("name", ["values.csv", "values.csv.gz", "values.parquet"])
def test_text(files, name):
    done = discover(files, name, "--column", "tree", "--bytes", 9, "--correction", "bonferroni", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    detected = [row for row in found["estimates"] if row["detected"]]
    assert {row["value"] for row in detected} == set(TREES)
    assert all(row["low"] < 2400 < row["high"] for row in detected)
    assert len(detected) < len(found["estimates"])  # JSON also has what the last level kept and was not detected
    assert found["reports"] == 12_000
    assert found["epsilon_report"] <= 4
    assert found["plan"]["levels"][-1] == 80


def test_texts_of_an_alphabet(files):
    """What is not of its characters is counted, not refused: every fifth is "rare", a digit, and some are "café"."""
    given = ["values.csv", "--column", "tree", "--correction", "bonferroni", "--json"]
    done = discover(files, *given, "--alphabet", "achklmos", "--bytes", 5)
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert {row["value"] for row in found["estimates"] if row["detected"]} == {"oak", "ash"}  # elm has an e
    assert found["elsewhere_frequency"] == pytest.approx(0.6, abs=5 * found["elsewhere_standard_error"])
    assert found["plan"]["alphabet"] == "achklmos"
    assert found["plan"]["levels"][-1] == 20
    assert any("hold a value that has no code here" in note for note in found["notes"])


def test_texts_by_a_model(files):
    (files / "trees.txt").write_text("alder\nash\nasp\nelm\noak\noaken\nlime\nfig\ncafé\n", encoding="utf-8")
    given = ["values.csv", "--column", "tree", "--correction", "bonferroni"]
    done = discover(files, *given, "--model", "trees.txt", "--order", 1, "--width", 32, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert {row["value"] for row in found["estimates"] if row["detected"]} == set(TREES)
    assert (found["plan"]["order"], found["plan"]["width"]) == (1, 32)
    assert len(found["plan"]["model"]) == 32
    text = discover(files, *given, "--model", "trees.txt", "--width", 32)
    assert text.returncode == 0
    assert "of the users hold a value that has no code here" in text.stdout  # rare7: no line has r in "rar", nor 7


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--order", 1], "--order and --width are of a model: give --model FILE, or leave them out"),
        (["--width", 64, "--alphabet", "ab"], "--order and --width are of a model"),
        (["--bits", 8, "--alphabet", "ab"], "--alphabet does not go with --bits: give one"),
        (["--model", "known.txt", "--alphabet", "ab"], "--alphabet does not go with --model: give one"),
        (["--model", "known.txt", "--bytes", 8], "not allowed with argument"),
        (["--model", "known.txt", "--order", 9], "--order"),
        (["--model", "known.txt", "--width", 4], "--width"),
        (["--model", "none.txt"], "none.txt"),
        (["--alphabet", ""], "--alphabet is empty"),
        (["--alphabet", "aa"], "'a' is in it twice"),
        (["--alphabet", "abc", "--bytes", 65], "give a whole number from 1 to 64"),
        (["--alphabet", "abc", "--known", "known.txt"], "known.txt"),
    ],
)
def test_codes_that_cannot_be_are_refused_in_one_line(files, arguments, says):
    done = discover(files, "values.csv", "--column", "tree", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["values.csv", "values.parquet"])
def test_integers_of_64_bits_lose_no_digit(files, name):
    done = discover(
        files, name, "--column", "number", "--correction", "bonferroni", "--json", "--step", 8, "--beam", 16
    )
    found = json.loads(done.stdout)
    assert {int(row["value"]) for row in found["estimates"][:3]} == {1 << 60, (1 << 60) + 1, (1 << 60) + 2}


def test_a_dictionary_comes_first(files):
    done = discover(files, "values.csv", "--column", "tree", "--bytes", 9, "--known", "known.txt", "--json")
    found = json.loads(done.stdout)
    sources = {row["value"]: row["source"] for row in found["estimates"]}
    assert sources["oak"] == "dictionary"
    assert {sources[tree] for tree in TREES[1:]} == {"search"}
    assert 0.15 < found["known_frequency"] < 0.25


def test_a_person_reads_a_table_and_sentences(files):
    done = discover(files, "values.csv", "--column", "tree", "--bytes", 9, "--correction", "bonferroni")
    words = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert "café" in words
    assert "4 values detected in 12,000 reports" in words
    assert "each device answered one of" in words
    thresholds = r"found about half the time from a share of (\d\.\d{3})%, nine times in ten from (\d\.\d{3})%"
    ((half, nine),) = re.findall(thresholds, words)  # as collect and the plans say it
    assert 0 < float(half) < float(nine) < 100 * 2400 / 12_000


def test_nothing_is_found_among_few(files):
    done = discover(files, "bad.csv", "--column", "client", "--bytes", 2, "--correction", "bonferroni")
    assert done.returncode == 0
    assert "nothing was detected" in done.stdout
    assert "too few reports" in done.stdout
    done = discover(files, "empty.csv", "--column", "number")
    assert "there are no reports" in done.stdout


def test_files_are_written(files):
    done = discover(
        files, "values.csv", "--column", "tree", "--bytes", 9, "--csv", "out.csv", "--plot", "out.svg", "--quiet"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "oak" in done.stdout  # A18: --quiet dropped the table as well
    assert (files / "out.csv").read_text(encoding="utf-8").startswith("string,estimate,")
    assert "<svg" in (files / "out.svg").read_text()


def test_every_detected_value_is_in_the_picture_with_its_interval(files):
    """A13: the picture was that of the search alone: no value and no interval."""
    rows = 400 * [f"v{i:02}" for i in range(12)]
    (files / "twelve.csv").write_text("c\n" + "\n".join(rows) + "\n")
    done = discover(files, "twelve.csv", "--column", "c", "--bytes", 3, "--plot", "twelve.svg", "--json")
    detected = [row["value"] for row in json.loads(done.stdout)["estimates"] if row["detected"]]
    assert len(detected) > 10  # more than are drawn of what was not detected
    drawn = (files / "twelve.svg").read_text()
    assert [value for value in detected if f"<!-- {value} -->" not in drawn] == []
    assert "95% interval of these reports" in drawn


@pytest.mark.parametrize("kind", ["reports", "population"])
def test_intervals_are_of_the_kind_that_is_asked_for(files, kind):
    """`decode` had --interval, and `discover` had none."""
    asked = ("values.csv", "--column", "tree", "--bytes", 9, "--correction", "bonferroni", "--interval", kind)
    told = json.loads(discover(files, *asked, "--json").stdout)
    assert {told["interval"], *(row["interval"] for row in told["estimates"])} == {kind}
    row = told["estimates"][0]
    share, devices = row["frequency"], told["reports"]
    plain = json.loads(discover(files, *asked[:-2], "--json").stdout)["estimates"][0]
    people = share * (1 - share) / devices if kind == "population" else 0.0
    assert row["frequency_standard_error"] ** 2 == pytest.approx(plain["frequency_standard_error"] ** 2 + people)
    assert (
        f"intervals: of {'all devices like these' if kind == 'population' else 'these reports'}"
        in discover(files, *asked).stdout
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.csv", "--column", "tree"], "nowhere.csv: no such file"),
        (["values.csv", "--column", "leaf"], "there is no column 'leaf'"),
        (["values.parquet", "--column", "leaf"], "there is no column 'leaf'"),
        (["bad.csv", "--column", "number"], "bad.csv, line 3, field number: 'twelve' is no whole number"),
        (["values.csv", "--column", "tree", "--bytes", "2"], "line 2, field tree: values are longer than --bytes 2: "),
        (["values.csv", "--column", "tree", "--bytes", "2"], "give --bytes 9 (the longest value, 'rare10000', has 9"),
        (["values.parquet", "--column", "tree", "--bytes", "2"], "field tree: values are longer than --bytes 2: give"),
        (["values.csv", "--column", "tree"], "field tree: the column holds text: give --bytes 9 (the longest value"),
        (["long.csv", "--column", "tree"], "has 40 bytes in UTF-8, and at most 32 can be searched for; shorten the"),
        (["values.csv", "--column", "tree", "--bytes", "99"], "max_bytes = 99"),
        (["values.csv", "--column", "number", "--bits", "65"], "bits = 65"),
        (["values.csv", "--column", "number", "--bits", "8", "--bytes", "8"], "not allowed with"),
        (["values.csv", "--column", "number", "--beam", "0"], "beam = 0"),
        (["values.csv", "--column", "number", "--step", "0"], "step = 0"),
        (["values.csv", "--column", "number", "--alpha", "5"], "alpha is a fraction"),
        (["values.csv", "--column", "number", "--known", "known.txt"], "known.txt: 'oak' is no whole number"),
        (["values.csv", "--column", "number", "--plot", "x.gif"], "end the name in .svg, .pdf or .png"),
    ],
)
def test_bad_input_is_one_message_and_status_2(files, arguments, says):
    done = discover(files, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_it_reads_what_collect_reads(tmp_path):
    """A10: semicolons, blanks, marks for none, Latin-1, JSON lines, standard input: `there is no column` was said."""
    rows = ["café", "café", "?", "ash"] * 500
    (tmp_path / "excel.csv").write_bytes(b"id;tree\n" + "".join(f"1;{row} \n" for row in rows).encode("latin-1"))
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"tree": row}) + "\n" for row in rows))
    options = ["--column", "tree", "--bytes", 5, "--missing", "?", "--strip", "--encoding"]
    asked = ["--epsilon", 4, "--seed", 1, "--json"]
    excel = within("discover", "excel.csv", *options, "latin-1", *asked, cwd=tmp_path)
    lines = within("discover", "lines.jsonl", *options, "utf-8", *asked, cwd=tmp_path)
    assert (excel.returncode, excel.stderr) == (0, "")
    assert excel.stdout == lines.stdout
    found = json.loads(excel.stdout)
    assert {row["value"] for row in found["estimates"] if row["detected"]} == {"café", "ash"}
    assert found["reports"] == 1_500
    piped = subprocess.run(
        [sys.executable, "-m", "overstory", "discover", "-", *map(str, options), "latin-1", *map(str, asked)],
        input=(tmp_path / "excel.csv").read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert piped.stdout.decode() == excel.stdout


def test_a_column_may_have_a_long_name(tmp_path):
    name = "élan-" * 20
    (tmp_path / "long.csv").write_text(f"{name}\n" + "7\n" * 500, encoding="utf-8")
    line = ("discover", "long.csv", "--column", name, "--bits", 8, "--epsilon", 4, "--seed", 1, "--json")
    done = within(*line, cwd=tmp_path)
    assert [row["value"] for row in json.loads(done.stdout)["estimates"] if row["detected"]] == ["7"]


def test_an_epsilon_that_is_none_is_refused(files):
    done = within("discover", "values.csv", "--column", "number", "--epsilon", -1, cwd=files)
    assert done.returncode == 2
    assert "give a number above 0" in done.stderr


def test_a_seed_below_0_is_refused(files):
    done = within("discover", "values.csv", "--column", "number", "--epsilon", 4, "--seed", -1, cwd=files)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--seed -1: give a whole number, 0 or more" in done.stderr
