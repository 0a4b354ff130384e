"""Results as text: numbers beside their intervals, one Markdown page, and one HTML page that fetches nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from overstory.presentation.document import Block, Column, Figure, Heading, Lines, Paragraph, Preformatted, Table, Tone
from overstory.presentation.render_html import as_page
from papers.comparison import AGREES, AT_LEAST, AT_MOST, DIFFERS, NEW, Comparison, Published
from papers.figures import for_a_page
from papers.study import Cell, Result

COLUMNS = ("quantity", "published", "ours", "verdict")
TONES: Final[dict[str, Tone]] = {AGREES: "good", DIFFERS: "bad", NEW: "faint"}


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
    columns = [Column(name, is_left=True) for name in COLUMNS[:3]]
    toned = Column(COLUMNS[3], is_left=True, tone=lambda text: TONES.get(text.partition(":")[0], ""))
    rows = [dict(zip(COLUMNS, row(comparison), strict=True)) for comparison in result.comparisons]
    return Table(caption, (*columns, toned), rows)


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
        f"Written by `{command}`; [how to read it](../docs/how-to/reproduce.md).",
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
    parts = [
        f"### {result.title}",
        f"`{result.name}`, {result.section} ({_mode(result)})",
        table(COLUMNS, map(row, result.comparisons)),
        "\n".join(f"- {note}" for note in result.notes),
    ]
    return "\n\n".join(filter(None, parts))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; what could end a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)


def page(results: Sequence[Result], command: str) -> str:
    """Return the page of HTML."""
    return as_page(_blocks(results, command), title="Overstory: the papers, reproduced", contents=True)


def _blocks(results: Sequence[Result], command: str) -> Iterator[Block]:
    yield Heading(1, "The papers, reproduced")
    yield Paragraph(
        f"{overview(results)} A verdict is computed: a number agrees when what the paper prints lies inside the "
        "interval of what we find.",
        is_lead=True,
    )
    for result in results:
        yield Heading(2, result.title, result.name)
        yield Paragraph(f"{result.paper}, {result.section}. {result.name}, {_mode(result)}.", is_lead=True)
        yield from (Figure(for_a_page(figure)) for figure in result.figures)
        yield verdicts(result, "Published and found")
        for shown in result.tables:
            rows = [tuple(map(cell, row)) for row in shown.rows]
            yield Table.of_cells(shown.caption, shown.columns, rows, left=shown.columns[:1])
        if result.notes:
            yield Lines(*result.notes)
        inputs = [(name, str(value)) for name, value in result.inputs.items()]
        yield Table.of_cells(
            "What it was computed from", ("input", "value"), inputs, left=("input", "value"), fold="closed"
        )
    yield Heading(2, "How to get this page again")
    yield Preformatted(command)


def _mode(result: Result) -> str:
    seed = "nothing random" if result.seed is None else f"seed {result.seed}"
    return f"{'quick' if result.quick else 'full'} mode, {seed}"
