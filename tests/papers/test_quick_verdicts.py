"""Every experiment, in quick mode: it runs, explains what differs, and the page of results says the same.

The page was written under one version of NumPy, SciPy and BLAS; another may draw other numbers. So its text and its
verdicts are compared as they are, and its numbers by their uncertainty (`tolerance`).
"""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import t

from overstory.audit.laws import FALSE_ALARM
from overstory.presentation.svg import VARIABLES
from papers import figures
from papers.comparison import LEVEL, simulated
from papers.page import row, section
from papers.run import EXPERIMENTS
from papers.study import Context

PAGE = Path(__file__).parents[2] / "papers" / "results.md"
AGAIN = "run `overstory reproduce --all --quick -o out/quick && cp out/quick/summary.md papers/results.md`"
MOST_NUMBERS = 300
"""Numbers on the page, at most: each is compared at its share of the suite's false-alarm rate (Bonferroni)."""
ROUNDED = 5e-4  # what rounding to the digits that the page shows takes from a number, relatively, at most
USUAL_RUNS = 10
"""Of an experiment whose inputs do not give one number of runs, such as the ten steps of the smart homes."""
EXTREMES = {
    "largest move of the odds, noise drawn afresh": 0.5,
    "largest error over the domain": 0.5,
    "the same, users divided over the bits": 0.5,
    "of its 20 estimates, in our 99% bands": 0.15,
}
"""Extremes and counts of a simulation, which have no interval: how far another may lie from it, relatively."""
ROUNDING_ERRORS = {"largest difference of our one-hot count": 1e-3}


def sections():
    """Return the page's section of each experiment, by name."""
    parts = re.split(r"^(?=### )", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    texts = [part.partition("\n## ")[0].rstrip("\n") for part in parts]
    return {text.splitlines()[2].split("`")[1]: text for text in texts}


def split(text):
    """Return the lines of a section that are no row of its table, and the rows."""
    lines = text.splitlines()
    rows = [re.split(r" (?<!\\)\| ", line[2:-2]) for line in lines if line.startswith("| ")][2:]
    return [line for line in lines if not line.startswith("| ")], rows


def numbers(ours):
    """Return a number and the ends of its interval, or the number three times; None for words."""
    shown = re.fullmatch(r"(\S+)(?: \[(\S+), (\S+)\])?", ours)
    try:
        found = [float(text.replace(",", "")) for text in shown.groups(shown[1])] if shown else None
    except ValueError:
        return None
    return found


def tolerance(first, second, runs):
    """Return how far apart two equally good means of `runs` runs may lie, given the half widths of their intervals.

    An interval's half width is at least ``t s / sqrt(runs)``, t the quantile at `LEVEL`: so ``(x - y) / sqrt(...)`` of
    the two is at most a Student variable of 2 (runs - 1) degrees of freedom, and is cut at its share of `FALSE_ALARM`.
    """
    alarm = FALSE_ALARM / MOST_NUMBERS
    reach = t.ppf(1 - alarm / 2, 2 * (runs - 1)) / t.ppf((1 + LEVEL) / 2, runs - 1)
    return float(reach * math.hypot(first, second))


def told_apart(name, page, ours, runs):
    """Whether two texts of one quantity cannot be two runs of one experiment."""
    first, second = numbers(page), numbers(ours)
    if first is None or second is None:
        return page != ours
    largest = max(abs(first[0]), abs(second[0]))
    slack = max((share * largest for start, share in EXTREMES.items() if name.startswith(start)), default=0.0)
    slack = max((error for start, error in ROUNDING_ERRORS.items() if name.startswith(start)), default=slack)
    halves = [(high - low) / 2 for _, low, high in (first, second)]
    return abs(first[0] - second[0]) > tolerance(*halves, runs) + slack + ROUNDED * largest


def masked(text):
    """Return a reason without its numbers, which may be those of a simulation."""
    return re.sub(r"[-+]?\d[\d.,]*\d|[-+]?\d", "#", text)


def differences(page, result):
    """Return where a section of the page and a result do not say the same."""
    (text, rows), (our_text, ours) = split(page), split(section(result))
    stated = result.inputs.get("runs", result.inputs.get("replicates"))
    runs = stated if isinstance(stated, int) else USUAL_RUNS
    if text != our_text:
        return ["text"]
    if [(name, published) for name, published, *_ in rows] != [(name, published) for name, published, *_ in ours]:
        return ["rows"]
    different = []
    for (name, _, number, verdict), (_, _, our_number, our_verdict) in zip(rows, ours, strict=True):
        if masked(verdict) != masked(our_verdict):
            different.append(f"verdict of {name}: {verdict} on the page, {our_verdict} now")
        if told_apart(name, number, our_number, runs):
            different.append(f"{name}: {number} on the page, {our_number} now")
    return different


@pytest.fixture(autouse=True)
def _few_pixels(monkeypatch):
    """The SVG is looked at; the PNG has a tenth of the dots."""
    monkeypatch.setattr(figures, "DOTS_PER_INCH", 20)


QUICK = {"rappor-figure-1", "rappor-epsilons"}
EACH = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in EXPERIMENTS]


@pytest.mark.parametrize("name", EACH)
def test_nothing_differs_without_a_reason_and_the_page_of_results_is_fresh(name):
    result = EXPERIMENTS[name].run(Context(EXPERIMENTS[name]))
    assert result.comparisons
    assert [comparison.name for comparison in result.unexplained] == []
    names = [comparison.name for comparison in result.comparisons]
    assert len(set(names)) == len(names)
    assert all(figure.name.startswith(name) and figure.alt and figure.caption for figure in result.figures)
    for figure in result.figures:  # what the page does not colour would be black on black where it is dark
        assert set(re.findall(r"#[0-9a-f]{6}\b", figure.svg)) <= set(VARIABLES)
        assert all("fill: #" in style for style in re.findall(r'<text style="([^"]*)"', figure.svg))
    assert differences(sections()[name], result) == [], AGAIN


def test_the_page_of_results_holds_nothing_else():
    assert list(sections()) == list(EXPERIMENTS), AGAIN


@pytest.fixture(scope="module")
def small():
    """A result with one simulated number among exact ones."""
    result = EXPERIMENTS["rappor-epsilons"].run(Context(EXPERIMENTS["rappor-epsilons"]))
    drawn = simulated("drawn", [1.0, 2.0, 3.0, 2.0, 1.0, 3.0, 2.0, 2.0, 1.0, 3.0], averaged=10)
    return replace(result, comparisons=(*result.comparisons, drawn))


def test_another_draw_of_the_same_number_is_the_same(small):
    other = simulated("drawn", [3.0, 2.0, 3.0, 2.0, 2.0, 3.0, 2.0, 2.0, 1.0, 3.0], averaged=10)
    page = section(replace(small, comparisons=(*small.comparisons[:-1], other)))
    assert page != section(small)
    assert differences(page, small) == []


def changed(result, row, **fields):
    """The result with one comparison that is another."""
    rows = list(result.comparisons)
    rows[row] = replace(rows[row], **fields)
    return replace(result, comparisons=tuple(rows))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: changed(r, 0, **dict.fromkeys(("ours", "low", "high"), 1.002 * r.comparisons[0].ours)), "agrees on"),
        (lambda r: changed(r, 0, name="another"), "rows"),
        (lambda r: changed(r, 0, published=None), "rows"),
        (lambda r: changed(r, -1, ours=9.0, low=8.0, high=10.0), "drawn"),
        (lambda r: replace(r, notes=("another",)), "text"),
        (lambda r: replace(r, comparisons=r.comparisons[1:]), "rows"),
    ],
)
def test_a_page_that_says_something_else_is_noticed(small, change, words):
    assert words in differences(section(small), change(small))[0]


def test_two_means_of_few_runs_may_lie_further_apart():
    assert tolerance(1.0, 1.0, 3) > tolerance(1.0, 1.0, 12) > math.hypot(1.0, 1.0)


def test_a_row_is_read_back_as_it_was_written(small):
    _, rows = split(section(small))
    assert [tuple(cells) for cells in rows] == [row(comparison) for comparison in small.comparisons]
