"""`-` for standard input and output, streams that are closed; at a terminal no sentence is broken within a word."""

import csv
import io
import os
import shlex
import subprocess
import sys

import pytest

from support.running import at_a_terminal, within

OVERSTORY = [sys.executable, "-m", "overstory"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pipes")
    (path / "params.csv").write_text("k,h,m,p,q,f\n32,2,2,0.25,0.75,0.25\n")
    rows = "".join(f"c{i},{i % 2},{'oak' if i % 3 else 'elm'}\n" for i in range(600))
    (path / "values.csv").write_text("client,cohort,value\n" + rows)
    (path / "trees.txt").write_text("oak\nelm\nyew\n")
    return path


def run(folder, *arguments, given="", status=0):
    done = subprocess.run(
        [*OVERSTORY, *arguments], cwd=folder, input=given, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_oracles_are_compared_on_a_piped_column(folder):
    asked = ("--column", "value", "--epsilon", "2", "--measure", "1", "--json")
    piped = run(folder, "compare", "-", *asked, given=(folder / "values.csv").read_text())
    assert piped.stdout == run(folder, "compare", "values.csv", *asked).stdout


@pytest.mark.parametrize("command", ["collect", "compare", "discover"])
def test_an_error_in_a_pipe_names_standard_input(folder, command):
    told = run(folder, command, "-", "--column", "leaf", "--epsilon", "2", given="tree\noak\n", status=2).stderr
    assert told == "overstory: error: standard input: there is no column 'leaf'; there are: 'tree'\n"


def test_a_column_through_a_pipe(folder):
    values = (folder / "values.csv").read_text()
    done = run(folder, "collect", "-", "--column", "value", "--epsilon", "2", "-o", "-", given=values)
    lines = {line["string"]: line["truth"] for line in csv.DictReader(io.StringIO(done.stdout))}
    assert lines == {"oak": "400", "elm": "200"}
    run(folder, "collect", "-", "--column", "value", "-o", "out", given=values)
    assert "overstory collect - --column value" in (folder / "out" / "collect.html").read_text()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("command", "given", "says"),
    [
        ("sum --params - - -o c.csv", "", "standard input (-) can be read only once: give it to one option"),
        ("sum --params params.csv - - -o c.csv", "", "standard input (-) can be read only once"),
        ("map --params params.csv --candidates trees.txt -o - --json", "", "-o - and --json both write to standard"),
        ("sum --params params.csv - -o c.csv", "", "standard input: the file is empty"),
        ("sum --params params.csv - -o c.csv", "cohort,irr\n0,1\n", "standard input, line 2, field irr: expe"),
        ("collect - --column size", "a,b\n1,2\n", "there is no column 'size'; there are: 'a', 'b'"),
    ],
)
def test_what_cannot_be_is_said(folder, command, given, says):
    done = run(folder, *shlex.split(command), given=given, status=2)
    assert done.stderr.startswith(f"overstory: error: {says}") or says in done.stderr
    assert done.stdout == ""


CLOSED = ["--version", "--help", "sum --help", "sum --params params.csv reports.csv -o counts.csv"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", CLOSED)
def test_closed_streams_are_no_fault_of_ours(folder, command, closed):
    (folder / "reports.csv").write_text("cohort,irr\n" + f"0,{'01' * 16}\n" * 10)
    (folder / "counts.csv").unlink(missing_ok=True)
    line = f"{shlex.join(OVERSTORY)} {command} {closed}"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    if command.endswith("counts.csv"):
        assert (folder / "counts.csv").read_text().splitlines()[0].startswith("10,")
        assert len((folder / "counts.csv").read_text().splitlines()) == 2


def test_a_reader_that_leaves_is_no_error(folder):
    encode = [*OVERSTORY, *shlex.split("encode --params params.csv --values values.csv -o -")]
    line = f"{shlex.join(encode)} | head -1"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, env=os.environ)
    assert done.stdout == "client,cohort,bloom,prr,irr\n"
    assert "Traceback" not in done.stderr
    assert "fault of ours" not in done.stderr


WIDTH = 60
COMMANDS = {
    "collect": "collect trees.csv --column tree --epsilon 2",
    "demo": "demo --reports 2000 --states 4",
    "discover": "discover trees.csv --column tree --epsilon 4 --bytes 3 --seed 1",
}


@pytest.mark.parametrize(
    "name", ["collect", *(pytest.param(name, marks=pytest.mark.slow) for name in ("demo", "discover"))]
)
def test_long_sentences_are_wrapped(tmp_path, name):
    (tmp_path / "trees.csv").write_text("tree\n" + "oak\nash\noak\nelm\n" * 300)
    lines = at_a_terminal(COMMANDS[name], tmp_path, "stdout", COLUMNS=str(WIDTH)).splitlines()
    assert sum(len(line.rstrip()) > WIDTH - 15 for line in lines) > 3  # there are sentences to wrap
    assert [line for line in lines if len(line.rstrip()) > WIDTH and " " in line.strip()] == []
    assert any("Page:" in line or "privacy:" in line or "page:" in line for line in lines)


def test_elsewhere_a_sentence_is_one_line(tmp_path):
    (tmp_path / "trees.csv").write_text("tree\n" + "oak\nash\n" * 300)
    assert max(map(len, within(*COMMANDS["collect"].split(), cwd=tmp_path).stdout.splitlines())) > 120
