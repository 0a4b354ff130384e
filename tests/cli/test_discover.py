"""``overstory discover`` end to end: both kinds of values, a dictionary, files, and one clear message for bad input."""

import csv
import gzip
import json

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


def found_in(files, *arguments):
    """What is found, and the values that are detected."""
    done = discover(files, *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    return found, {row["value"] for row in found["estimates"] if row["detected"]}


@pytest.mark.parametrize("name", ["values.csv", "values.csv.gz", "values.parquet"])
def test_text_is_found_and_integers_of_64_bits_lose_no_digit(files, name):
    found, detected = found_in(files, name, "--column", "tree", "--bytes", 9)
    assert detected == set(TREES)
    assert all(row["low"] < 2400 < row["high"] for row in found["estimates"] if row["detected"])
    assert len(detected) < len(found["estimates"])  # JSON also has what the last level kept and was not detected
    assert found["reports"] == 12_000
    assert found["epsilon_report"] <= 4
    assert found["plan"]["levels"][-1] == 80
    found, _ = found_in(files, name, "--column", "number")
    assert {int(row["value"]) for row in found["estimates"][:3]} == {1 << 60, (1 << 60) + 1, (1 << 60) + 2}


def test_texts_by_a_model(files):
    (files / "trees.txt").write_text("alder\nash\nasp\nelm\noak\noaken\nlime\nfig\ncafé\n", encoding="utf-8")
    given = ["values.csv", "--column", "tree", "--model", "trees.txt"]
    found, detected = found_in(files, *given)
    assert detected == set(TREES)
    assert (found["plan"]["order"], found["plan"]["width"], len(found["plan"]["model"])) == (2, 96, 32)
    text = discover(files, *given)
    assert text.returncode == 0
    assert "of the users hold a value that has no code here" in text.stdout  # rare7: no line has r in "rar", nor 7


def test_a_dictionary_comes_first(files):
    found, _ = found_in(files, "values.csv", "--column", "tree", "--bytes", 9, "--known", "known.txt")
    sources = {row["value"]: row["source"] for row in found["estimates"]}
    assert sources["oak"] == "dictionary"
    assert {sources[tree] for tree in TREES[1:]} == {"search"}
    assert 0.15 < found["known_frequency"] < 0.25


def test_nothing_is_found_among_few(files):
    done = discover(files, "bad.csv", "--column", "client", "--bytes", 2)
    assert done.returncode == 0
    assert "nothing was detected" in done.stdout
    assert "too few reports" in done.stdout
    done = discover(files, "empty.csv", "--column", "number")
    assert "there are no reports" in done.stdout


def test_the_file_is_written_and_every_detected_value_is_printed(files):
    rows = 400 * [f"v{i:02}" for i in range(12)]
    (files / "twelve.csv").write_text("c\n" + "\n".join(rows) + "\n")
    asked = ("twelve.csv", "--column", "c", "--bytes", 3)
    done = discover(files, *asked, "-o", "out.csv", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    detected = [
        row["value"] for row in json.loads(discover(files, *asked, "--json").stdout)["estimates"] if row["detected"]
    ]
    assert len(detected) > 10  # more than are drawn of what was not detected
    assert all(value in done.stdout for value in detected)
    assert (files / "out.csv").read_text(encoding="utf-8").startswith("string,estimate,")


def test_what_is_detected_beside_an_interval_that_holds_0_is_said_to_be_unsure(tmp_path):
    """M12: "-7 to 304 ... p 2.0e-09 detected" read as a fault."""
    words = ["metsä"] * 446 + ["järvi"] * 310 + ["koti"] * 220 + ["talo"] * 150 + ["puu"] * 120 + ["saari"] * 230
    (tmp_path / "words.csv").write_text("word\n" + "\n".join(words) + "\n")
    unsure = 0
    for seed in range(4):
        asked = ("--column", "word", "--epsilon", 4, "--bytes", 8, "--seed", seed)
        told = json.loads(within("discover", "words.csv", *asked, "--json", cwd=tmp_path).stdout)
        shown = within("discover", "words.csv", *asked, cwd=tmp_path).stdout
        expected = sum(row["low"] <= 0 for row in told["estimates"] if row["detected"])
        assert shown.count("detected, how often is unsure") == expected
        unsure += expected
    assert unsure > 0


def test_a_column_may_have_a_long_name(tmp_path):
    name = "élan-" * 20
    (tmp_path / "long.csv").write_text(f"{name}\n" + "7\n" * 500, encoding="utf-8")
    line = ("discover", "long.csv", "--column", name, "--bits", 8, "--epsilon", 4, "--seed", 1, "--json")
    done = within(*line, cwd=tmp_path)
    assert [row["value"] for row in json.loads(done.stdout)["estimates"] if row["detected"]] == ["7"]
