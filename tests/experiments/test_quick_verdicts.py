"""Every experiment, in quick mode: it runs, compares with what was published, explains what differs, and is in docs."""

import re
from pathlib import Path

import pytest

from overstory.experiments.page import section
from overstory.experiments.registry import EXPERIMENTS
from overstory.experiments.study import Context
from overstory.presentation.figures import VARIABLES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "results.md"
AGAIN = (
    "run `overstory reproduce --all --quick --fresh -o out/quick && cp out/quick/summary.md docs/reference/results.md`"
)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_differs_without_a_reason_and_the_page_of_results_is_fresh(name):
    result = EXPERIMENTS[name].run(Context(EXPERIMENTS[name]))
    assert result.comparisons
    assert [one.name for one in result.unexplained] == []
    names = [one.name for one in result.comparisons]
    assert len(set(names)) == len(names)
    assert all(figure.name.startswith(name) and figure.alt and figure.caption for figure in result.figures)
    for figure in result.figures:  # what the page does not colour would be black on black where it is dark
        assert set(re.findall(r"#[0-9a-f]{6}\b", figure.svg)) <= set(VARIABLES)
        assert all("fill: #" in style for style in re.findall(r'<text style="([^"]*)"', figure.svg))
    assert section(result) in PAGE.read_text(encoding="utf-8"), AGAIN


def test_the_page_of_results_holds_nothing_else():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    told = [line.split("`")[1] for line in lines if line.startswith("`")]
    assert told == list(EXPERIMENTS), AGAIN
