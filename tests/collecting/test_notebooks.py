"""The notebook in examples/ and the page about notebooks: every code cell runs, and so does every line of the page."""

import ast
import doctest
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from overstory.analysis.estimate import Estimate

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "notebooks.md"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def code_cells(path: Any) -> Any:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does, and return the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["survey.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.name for path in NOTEBOOKS])
def test_every_cell_of_a_notebook_runs(path: Any, capsys: Any, monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [run_cell("".join(cell["source"]), names) for cell in code_cells(path)]
    pictures = [value._repr_html_() for value in shown if isinstance(value, Estimate)]
    assert all("data:image/svg+xml" in html for html in pictures)
    assert len(pictures) >= 2
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.name for path in NOTEBOOKS])
def test_a_notebook_is_kept_with_its_outputs(path: Any) -> None:
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"stream", "execute_result", "display_data"}  # no error
    assert all(cell["outputs"] for cell in cells)


def test_a_cell_that_fails_is_noticed() -> None:
    assert run_cell("x = 1\nx + 1", {}) == 2
    with pytest.raises(NameError):
        run_cell("nothing_of_that_name", {})


def test_the_page_about_notebooks_says_what_really_comes_out() -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    names: dict[str, Any] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", str(PAGE), 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runner.run(test, clear_globs=False)
        names = test.globs
        assert test.examples
    assert runner.summarize(verbose=False).failed == 0
