"""What does not go together is data of a command: each rule is of options that the command has, and is held."""

import argparse
import csv
import gzip
import json
import re
from contextlib import nullcontext

import pytest

from overstory.cli.analysis import commands as analysis
from overstory.cli.command import Form, Forms, Idle, Needs, OneOf, Option, Together
from overstory.cli.registry import commands as registry
from overstory.cli.service import commands as service
from overstory.presentation.render_text import FORMULA
from overstory.protocol.errors import ParameterError
from support.running import within


def each(commands):
    for command in commands:
        yield command
        yield from each(command.actions)


EVERY = list(each(c for module in (analysis, registry, service) for c in module.COMMANDS.values()))
RULED = [pytest.param(command, rule) for command in EVERY for rule in command.rules]


def named(rule):
    if isinstance(rule, Forms):
        return {name for form in rule.forms for name in (*form.chosen, *form.needs, *form.takes)}
    return {*rule.options, *getattr(rule, "others", ())}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("command", "rule"), RULED)
def test_a_rule_is_of_options_that_the_command_has(command, rule):
    assert named(rule) <= {option.shown for option in command.options}


FORMS = Forms(
    Form("in a file", ("FILE",), takes=("--column",)), Form("for needs", needs=("--epsilon",), takes=("--p",))
)


@pytest.mark.parametrize(
    ("rule", "given", "says"),
    [
        (Needs(("--a", "--b"), ("--c",), "it is of c"), ["--b"], "--b has no effect without --c: it is of c"),
        (Needs(("--a",), ("--c", "--d")), ["--a"], "--a has no effect without --c or --d"),
        (Needs(("--a",), ("--c", "--d")), ["--a", "--d"], None),
        (Idle(("--a",), ("--b", "--c")), ["--a", "--c"], "--a has no effect with --c"),
        (Idle(("--a",), ("--b",)), ["--a"], None),
        (OneOf(("--a", "--b")), ["--a", "--b"], "--a and --b exclude each other: give one"),
        (OneOf(("--a", "--b")), [], None),
        (OneOf(("--a", "--b"), why="a or b", must=True), [], "give one of --a, --b: a or b"),
        (Together(("--a", "--b")), ["--b"], "--a missing: --a and --b belong together"),
        (Together(("--a", "--b")), ["--a", "--b"], None),
        (FORMS, ["FILE", "--epsilon"], None),
        (FORMS, ["--epsilon", "--p", "--json"], None),
        (FORMS, ["FILE", "--p"], "--p has no effect in a file"),
        (FORMS, [], "--epsilon missing for needs"),
    ],
)
def test_a_rule_is_held(rule, given, says):
    with nullcontext() if says is None else pytest.raises(ParameterError, match=f"^{re.escape(says)}$"):
        rule.check(given)


def test_a_default_that_is_given_counts_as_left_out():
    option = Option("--method", choices=("gls", "lasso"), default="gls")
    given = [option.is_given(argparse.Namespace(method=text)) for text in ("gls", "lasso", None)]
    assert given == [False, True, False]
    number = Option("--epsilon", type=float)
    assert [number.is_given(argparse.Namespace(epsilon=given)) for given in (None, 0.0)] == [False, True]


def test_every_command_takes_quiet_and_json_where_it_prints_results():
    silent = {"init", "serve", "console", "relay"}
    for command in EVERY:
        if not command.actions:
            own = argparse.ArgumentParser().add_subparsers()
            command.add_to(own)
            help_text = own.choices[command.name].format_help()
            assert "--quiet" in help_text
            assert re.search(r"example:\s+overstory ", help_text), command.name
            assert ("--json" in help_text) == (command.name not in silent), command.name


# ``overstory discover`` end to end: both kinds of values, a dictionary, files, and one clear message for bad input
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


# Values that a spreadsheet runs are made up by devices; `--spreadsheet` writes none, and loses no value
EVIL = ["=cmd|'/C calc'!A0", "@SUM(1)", "\t=1", "+oak", "-ash", "'tis", "\uff1d1", "=1,\n2", "oak", "-2.5", '="a"']
FILES = {"collect": "out/learned.csv", "decode": "out/results.csv", "discover": "found.csv"}
PARAMS = "k,h,m,p,q,f\n32,2,1,0.5,0.75,0\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sheets")
    with (path / "evil.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("word",), *((word,) for word in EVIL for _ in range(300))])
    with (path / "candidates.txt").open("w", encoding="utf-8") as file:
        file.writelines(f"{word}\n" for word in EVIL if "\n" not in word)
    (path / "params.csv").write_text(PARAMS)
    (path / "counts.csv").write_text("500" + ",250" * 32 + "\n")
    made = within("map", "--params", "params.csv", "--candidates", "candidates.txt", "-o", "map.csv", cwd=path)
    assert made.returncode == 0, made.stderr
    return path


LINES = {
    "collect": "collect evil.csv --column word --epsilon 8 -o out",
    "decode": "decode --params params.csv --counts counts.csv --map map.csv -o out",
    "discover": "discover evil.csv --column word --bytes 17 --epsilon 8 --seed 1 -o found.csv",
}


def written(folder, command, *options):
    done = within(*LINES[command].split(), *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    with (folder / FILES[command]).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("command", LINES)
def test_no_cell_is_a_formula_and_every_value_comes_back(folder, command):
    exact, safe = written(folder, command), written(folder, command, "--spreadsheet")
    assert any(cell.startswith("=") for row in exact for cell in row)  # exact, unless it is asked for
    assert not [cell for row in safe for cell in row if cell.startswith(FORMULA) and not is_number(cell)]
    assert [[cell.removeprefix("'") for cell in row] for row in safe] == exact
