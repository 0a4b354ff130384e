"""`overstory collect`: the table, the page, JSON, and what is said of bad input."""

import csv
import json
import re

import numpy as np
import pytest

from overstory.presentation.charts import numbers as charts
from support.running import within

STATES = ["Ohio"] * 500 + ["Utah"] * 300 + ["<b>$x$</b>"] * 195 + [""] * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collect")
    rng = np.random.default_rng(1)
    with (folder / "s.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("who", "state", "kwh"))
        for i, state in enumerate(STATES * 20):
            rows.writerow((i // 4, state, round(rng.gamma(2.0), 3)))
    (folder / "listed.txt").write_text("Ohio\nIowa\n")
    return folder


def said(folder, *arguments):
    done = within("collect", "s.csv", *arguments, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_page_fetches_nothing_and_escapes_values(folder):
    told = said(folder, "--column", "state", "--oracle", "hadamard", "-o", "page")
    page = (folder / told["page"]).read_text()
    assert "default-src 'none'" in page
    assert "<b>$x" not in page
    assert "&lt;b&gt;$x$&lt;/b&gt;" in page
    assert "prefers-color-scheme: dark" in page
    assert not re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", re.sub(r"xlink:href=\"#[^\"]*\"", "", page))
    assert "best" in page
    assert "<code>overstory collect s.csv --column state --oracle hadamard --json" in page
    assert json.loads((folder / "page" / "collect.json").read_text())["oracle"] == "hadamard"
    with (folder / "page" / "learned.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 3


def test_table_page_picture_and_files_show_one_interval(folder, monkeypatch):
    drawn = []
    dots = charts.Dots
    monkeypatch.setattr(charts, "Dots", lambda **given: drawn.append(given) or dots(**given))
    arguments = ("collect", "s.csv", "--column", "state", "--people", 3, "--seed", 2, "-o", "three")
    shown = within(*arguments, cwd=folder).stdout
    known = json.loads((folder / "three" / "collect.json").read_text())["estimates"]
    with (folder / "three" / "learned.csv").open(newline="") as file:
        lines = {line["string"]: line for line in csv.DictReader(file)}
    page = (folder / "three" / "collect.html").read_text()
    (picture,) = drawn
    assert any(not 0 <= row["raw_count"] <= 3 for row in known)  # the case in point
    for i, row in enumerate(known):
        low, high, share = (100 * row[key] for key in ("frequency_low", "frequency_high", "frequency"))
        assert 0 <= low <= share <= high <= 100
        assert f"{low:.2f}% to {high:.2f}%" in shown
        assert f"<td>{low:.2f}% to {high:.2f}%</td>" in page
        assert f"<td>{row['raw_count']:,.0f}</td>" in page
        line = lines[row["value"]]
        assert [float(line["prop_low_95"]), float(line["prop_high_95"])] == pytest.approx([low / 100, high / 100])
        numbers = [100 * picture[key][i] for key in ("low", "high", "shares", "truth")]
        assert numbers == pytest.approx([low, high, share, 100 * row["true_frequency"]])


def test_the_thresholds_are_those_of_the_rule_that_was_used(folder):
    shown = within("collect", "s.csv", "--column", "state", "-o", "rule", cwd=folder).stdout
    assert re.search(r"detected about half the time from a share of \d\.\d\d%, nine times in ten from \d\.\d\d%", shown)
    (thresholds,) = re.findall(r"half the time from a share of (\S+), nine times in ten from (\S+)\.\n", shown)
    table = re.findall(r"^detected (?:about half the time|nine times in ten) from +(\S+)", shown, re.MULTILINE)
    assert table == list(thresholds)  # one rule, in the sentence and in the table
    shown = within("collect", "s.csv", "--column", "state", "--people", 3, "-o", "rule", cwd=folder).stdout
    assert "no share is detected even half the time with so few people" in shown


def test_epsilons_that_protect_nothing_are_noted_or_refused(folder):
    ran = within("collect", "s.csv", "--column", "state", "--epsilon", 11, "-o", "weak", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "note: at epsilon 11 a report hides next to nothing: it practically names the value; 1 or 2" in ran.stdout
    ran = within("collect", "s.csv", "--column", "state", "--epsilon", 10, "-o", "ten", cwd=folder)
    assert (ran.stderr, "a report hides next to nothing" in ran.stdout) == ("", False)
    ran = within("collect", "s.csv", "--column", "state", "--epsilon", "1e9", "-o", "no", cwd=folder)
    assert ran.stderr == "overstory: error: --epsilon 1e+09: give a number above 0 and at most 700\n"


def test_an_earlier_result_is_replaced_with_a_word_and_as_a_whole(folder, monkeypatch):
    given = ("collect", "s.csv", "--column", "state", "-o", "again")
    assert within(*given, cwd=folder).stderr == ""
    before = {path.name: path.read_bytes() for path in (folder / "again").iterdir()}
    said = within(*given, "--seed", 2, cwd=folder).stderr
    assert said == "overstory collect: replaced the result in again; -o DIR keeps both\n"
    after = {path.name: path.read_bytes() for path in (folder / "again").iterdir()}
    assert sorted(before) == sorted(after) == ["collect.html", "collect.json", "learned.csv"]
    assert before["learned.csv"] != after["learned.csv"]

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("overstory.trial.values.ValueTrial.write_page", interrupted)
    assert within(*given, "--seed", 3, cwd=folder).returncode == 130
    assert {path.name: path.read_bytes() for path in (folder / "again").iterdir()} == after


def test_several_choices_in_one_answer_are_one_value(tmp_path):
    (tmp_path / "survey.csv").write_text("id,gender\n" + "0,Man\n1,Woman\n2,Man;Woman\n3,NA\n" * 500)
    options = ("--column", "gender", "--csv", "missing=NA", "--epsilon", 4)
    shown = within("collect", "survey.csv", *options, "-o", "out", cwd=tmp_path).stdout
    assert "'Man;Woman' and similar answers join several choices: each was counted as a value of its own" in shown
    labels = [line.split(",")[0] for line in (tmp_path / "out" / "learned.csv").read_text().splitlines()[1:]]
    assert sorted(labels) == ["Man", "Man;Woman", "Woman"]
