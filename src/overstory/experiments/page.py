"""Results as text: numbers beside their intervals, one Markdown page, and one HTML page that fetches nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from overstory.experiments.comparison import AGREES, AT_LEAST, AT_MOST, DIFFERS, NEW, Comparison, Published
from overstory.experiments.study import Cell, Result
from overstory.presentation.document import Table
from overstory.presentation.pages import templates

COLUMNS = ("quantity", "published", "ours", "verdict")


def number(value: float) -> str:
    """Return a number to five significant digits, or an integer with commas.

    Examples
    --------
    >>> number(1.07429), number(2810.0), number(186792), number(1.39e-24), number(0.0)
    ('1.0743', '2,810', '186,792', '1.39e-24', '0')
    """
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == 0 or (size < 1e9 and value == round(value)):
        return f"{value:,.0f}"
    if size >= 1e9 or size < 1e-3:
        return f"{value:.4g}"
    return f"{value:,.0f}" if size >= 1e3 else f"{value:.5g}"


def cell(value: Cell) -> str:
    """Return a table's cell as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)


def published(claim: Published | None) -> str:
    """Return what a paper says, with its place."""
    if claim is None:
        return "not published"
    if isinstance(claim.value, str):
        return f"{claim.value} ({claim.where})"
    bound = f"{claim.sense} " if claim.sense in {AT_LEAST, AT_MOST} else ""
    return f"{bound}{number(claim.value)} ({claim.where})"


def ours(comparison: Comparison) -> str:
    """Return our number, with its interval where it has one."""
    if isinstance(comparison.ours, str):
        return comparison.ours
    shown = number(comparison.ours)
    if comparison.low == comparison.high or comparison.low is None or comparison.high is None:
        return shown
    return f"{shown} [{number(comparison.low)}, {number(comparison.high)}]"


def verdict(comparison: Comparison) -> str:
    """Return the verdict, with its reason where it differs."""
    if comparison.verdict != DIFFERS:
        return comparison.verdict
    return f"differs: {comparison.because or 'unexplained'}"


def quantity(comparison: Comparison) -> str:
    """Return what is compared, with its unit."""
    return f"{comparison.name} ({comparison.unit})" if comparison.unit else comparison.name


def row(comparison: Comparison) -> tuple[str, str, str, str]:
    """Return a comparison as the cells of `COLUMNS`."""
    return quantity(comparison), published(comparison.published), ours(comparison), verdict(comparison)


def verdicts(result: Result, caption: str = "") -> Table:
    """Return what was published, our numbers, and the verdicts."""
    return Table.of_cells(caption, COLUMNS, list(map(row, result.comparisons)), left=COLUMNS)


def overview(results: Sequence[Result]) -> str:
    """Return how many comparisons agree, differ, are new, in one sentence."""
    counts = {name: sum(result.verdicts[name] for result in results) for name in (AGREES, DIFFERS, NEW)}
    return (
        f"{counts[AGREES]} numbers agree with the papers or with theory, {counts[DIFFERS]} differ (each says why), "
        f"{counts[NEW]} are new, in {len(results)} experiments."
    )


def markdown(results: Sequence[Result], command: str) -> str:
    """Return a Markdown page with a section for each result, in the order given."""
    blocks = [
        "# The papers, reproduced",
        f"Written by `{command}`; [how to read it](../how-to/reproduce.md).",
        overview(results),
    ]
    paper = ""
    for result in results:
        if result.paper != paper:
            paper = result.paper
            blocks.append(f"## {paper}")
        blocks.append(section(result))
    return "\n\n".join(blocks) + "\n"


def section(result: Result) -> str:
    """Return one result's part of the Markdown page."""
    mode = "quick" if result.quick else "full"
    seed = f", seed {result.seed}" if result.seed is not None else ", nothing random"
    parts = [
        f"### {result.title}",
        f"`{result.name}`, {result.section} ({mode} mode{seed})",
        table(COLUMNS, map(row, result.comparisons)),
        "\n".join(f"- {note}" for note in result.notes),
    ]
    return "\n\n".join(filter(None, parts))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; what could end a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)


def page(results: Sequence[Result], command: str) -> str:
    """Return the HTML page: one file, dark and light."""
    environment = templates("overstory.experiments")
    environment.filters |= {"cell": cell, "published": published, "ours": ours, "verdict": verdict, "name": quantity}
    return environment.get_template("results.html").render(results=results, overview=overview(results), command=command)
