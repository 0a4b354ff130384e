"""The notebook in examples/ and the page about notebooks: every code cell runs, and so does every line of the page."""

import ast
import csv
import doctest
import io
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import overstory
from overstory.analysis.estimate import Estimate
from overstory.discovery import CodedIntegers, Discovered, discover, find, simulate
from overstory.planning.kinds import plan_for_domain, plan_for_metric
from overstory.planning.needs import plan_from_needs
from overstory.planning.yearly import YearPlan
from overstory.presentation.formats import epsilon_text, guess_text
from overstory.presentation.svg import Picture
from overstory.protocol.domains.domains import Categories
from overstory.protocol.domains.numbers import Interval

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "notebooks.md"
NOTEBOOK = ROOT / "examples" / "survey.ipynb"


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run_cell(source, names):
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def test_every_cell_of_the_notebook_runs(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    shown = [run_cell("".join(cell["source"]), names) for cell in code_cells(NOTEBOOK)]
    pictures = [value._repr_html_() for value in shown if isinstance(value, Estimate)]
    assert all("data:image/svg+xml" in html for html in pictures)
    assert len(pictures) >= 2
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_notebook_is_kept_with_its_outputs():
    cells = code_cells(NOTEBOOK)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"stream", "execute_result", "display_data"}  # no error
    assert all(cell["outputs"] for cell in cells)


def test_a_cell_that_fails_is_noticed():
    assert run_cell("x = 1\nx + 1", {}) == 2
    with pytest.raises(NameError):
        run_cell("nothing_of_that_name", {})


def test_the_page_about_notebooks_says_what_really_comes_out():
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    names = {}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", str(PAGE), 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runner.run(test, clear_globs=False)
        names = test.globs
        assert test.examples
    assert runner.summarize(verbose=False).failed == 0


# Every result of Python's functions shows itself alike: a table, a frame, a picture, a page and its notes
NAMES = ["a", "b", "b", "<i>c</i>"] * 2_000
HOSTILE = "<script>x</script>"


def searched():
    plan = discover(epsilon=4.0, domain=CodedIntegers(16), step=8, beam=8)
    return find(plan, simulate(plan, np.array([7] * 600 + [4711] * 400), np.random.default_rng(1)))


def planned(metric, domain):
    return plan_for_metric(metric, domain, None, {"epsilon_report": 1.0}, 10_000)


RESULTS = {
    "survey": lambda: overstory.survey([HOSTILE, *NAMES], rng=1),
    "difference": lambda: overstory.difference(overstory.survey(NAMES, rng=1), overstory.survey(NAMES[:-800], rng=2)),
    "table": lambda: overstory.survey_table({"x": NAMES, HOSTILE: NAMES[::-1]}, epsilon=3, rng=1),
    "sets": lambda: overstory.survey_sets(["a;b", "b", HOSTILE] * 2_000, epsilon=4, rng=1),
    "mean": lambda: overstory.survey_numbers(np.arange(8_000) % 90, 2, rng=1),
    "distribution": lambda: overstory.survey_numbers(np.arange(8_000) % 90, 2, learn="distribution", rng=1),
    "search": searched,
    "plan for a domain": lambda: plan_for_domain(9, 1.0, 10_000, share=0.2),
    "plan by RAPPOR": lambda: plan_from_needs(1.0, 2.0, 10_000, 20),
    "plan of a year": lambda: YearPlan(10**6, 20, 4.0),
    "plan for a metric": lambda: planned("symbols", Categories(("a", HOSTILE))),
    "plan for numbers": lambda: planned("numbers", Interval(0, 3)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_itself_as_table_frame_picture_page_and_notes(name):
    result = RESULTS[name]()
    html, page, text = result._repr_html_(), result.page(), str(result)
    assert (page[:15], page.count("<h1"), "<svg" in page) == ("<!doctype html>", 1, True)
    assert [
        note for note in result.notes if f"note: {note}" not in text or note.replace("'", "&#x27;") not in page
    ] == []
    assert HOSTILE not in html + page, "a value is only ever text"
    assert 'src="data:image/svg+xml;base64,' in html
    assert "<table" in html
    assert len(repr(result)) < 200
    assert "array(" not in repr(result)
    assert isinstance(result.plot(), Picture)
    assert result.plot().caption

    latex, lines = result.table(form="latex"), result.table(form="markdown").splitlines()
    assert latex.count("\\begin{tabular}") == sum(line.startswith("|-") for line in lines) > 0
    assert len(list(csv.reader(io.StringIO(result.table(form="csv"))))) >= 2
    assert result.table() == result.table(form="text")
    assert len(result.table().splitlines()) >= 2
    with pytest.raises(ValueError, match="give text, markdown, latex or csv"):
        result.table(form="html")

    every = {"everything": True} if isinstance(result, Discovered) else {}  # a search's rows are what was detected
    frame, rows = result.to_pandas(), list(result.rows(**every))
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == len(rows) == len(pl.DataFrame(result)) > 0
    assert set(rows[0]) - {"source"} <= set(frame.columns)


TRIALS = {name: RESULTS[name] for name in ("table", "sets", "mean", "distribution")}


@pytest.mark.parametrize("name", TRIALS)
def test_every_trial_says_what_it_cost_in_a_sentence_and_four_lines(name):
    trial = TRIALS[name]()
    sentence, table = trial.cost()
    assert sentence.text == f"W{guess_text(trial.kind.epsilon_report, 'one report', f'{trial.of}s it is of')[1:]}."
    assert [about for about, _ in table.pairs] == ["who", "how", "one report", "more reports"]
    assert f"epsilon {epsilon_text(trial.kind.epsilon_report)}: " in dict(table.pairs)["one report"]
    assert (
        f"epsilon {epsilon_text(trial.kind.epsilon_permanent)} for any number of reports of one "
        in dict(table.pairs)["more reports"]
    )
    assert str(trial).count("  who  ") == str(trial).count(sentence.text) == 1
    assert "Privacy:" not in str(trial)


def test_results_that_have_no_shares_of_values_have_no_such_difference():
    numbers = RESULTS["mean"]()
    with pytest.raises(overstory.ParameterError, match="give two estimates, not a NumberTrial"):
        overstory.difference(numbers, numbers)
