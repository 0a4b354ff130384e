"""Tables as CSV, Markdown and LaTeX: every command and every result writes them, by the ending of the file's name."""

import csv
import io
import re

import pytest

from overstory.presentation.document import Column, Heading, Lines, Table
from overstory.presentation.result import in_form
from support.running import within

HOSTILE = r"50% of $x_1 & {y}^2~\input{z} #3 | <b>"
ROWS = [{"value": HOSTILE, "share": 0.25, "low": 0.1, "high": 0.4, "shown": 3}]
COLUMNS = (
    Column("value", is_left=True),
    Column("share", text="{:.0%}".format),
    Column("interval", text="{} to {}".format, keys=("low", "high")),
    Column("bar", "", lambda shown, _: "█" * shown, ("shown", "share"), is_left=True),
)
BLOCKS = [Heading(1, "A & B"), Table("", COLUMNS, ROWS), Lines("a note")]


def test_latex_is_a_booktabs_table_in_which_nothing_is_markup():
    text = in_form(BLOCKS, "latex")
    assert "\\caption{A \\& B}" in text
    assert "\\begin{tabular}{lrr}" in text, "a terminal's bars are left out"
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0]
    assert body.count("&") - body.count("\\&") == 2
    assert not re.search(r"(?<!\\)[%$#_]", re.sub(r"\$\\[a-z]+\$", "", body))
    for shown in ("50\\% of \\$x\\_1 \\& \\{y\\}\\textasciicircum{}2", "\\textbackslash{}input\\{z\\} \\#3", "25\\%"):
        assert shown in body
    assert text.count("\\begin") == text.count("\\end")


def test_csv_has_the_numbers_and_each_entry_once():
    (row,) = csv.DictReader(io.StringIO(in_form(BLOCKS, "csv")))
    assert row == {"value": HOSTILE, "share": "0.25", "low": "0.1", "high": "0.4", "shown": "3"}


COMMANDS = {
    "compare": "compare --domain-size 4 --epsilon 1 --reports 1000",
    "privacy": "privacy grr --param domain_size=4 --param epsilon=1",
    "plan": "plan --domain-size 4 --epsilon 1 --reports 1000",
    "plan a year": "plan --domain-size 4 --yearly 4 --reports 1000",
    "collect": "collect trees.csv --column tree",
    "discover": "discover trees.csv --column tree --bytes 3 --epsilon 9 --seed 1",
}


@pytest.mark.parametrize("ending", ["csv", "md", "tex"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_writes_the_form_that_the_ending_says(command, ending, tmp_path):
    (tmp_path / "trees.csv").write_text("tree\n" + "oak\nash\noak\n" * 100)
    ran = within(*COMMANDS[command].split(), "-o", f"t.{ending}", "--quiet", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    assert ran.stdout, "it is printed as well"
    written = (tmp_path / f"t.{ending}").read_text("utf-8")
    assert {"csv": ",", "md": "|---|", "tex": "\\toprule"}[ending] in written


@pytest.mark.parametrize("ending", ["csv", "md", "tex"])
def test_a_decoding_is_a_file_too(ending, tmp_path):
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n16,1,1,0.1,0.9,0\n")
    (tmp_path / "values.csv").write_text("client,cohort,value\n" + "".join(f"c{i},0,oak\n" for i in range(200)))
    (tmp_path / "trees.txt").write_text("oak\nash\n")
    for line in (
        "encode --params params.csv --values values.csv --seed 1 -o reports.csv",
        "sum --params params.csv reports.csv -o counts.csv",
        "map --params params.csv --candidates trees.txt -o map.csv",
        f"decode --params params.csv --counts counts.csv --map map.csv -o t.{ending}",
    ):
        ran = within(*line.split(), cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
    assert "oak" in (tmp_path / f"t.{ending}").read_text("utf-8")
    assert not (tmp_path / f"t.{ending}").is_dir()


@pytest.mark.parametrize("command", ["compare", "plan"])
def test_another_ending_is_refused(command, tmp_path):
    ran = within(*COMMANDS[command].split(), "-o", "t.pdf", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ".csv, .md or .tex" in ran.stderr
