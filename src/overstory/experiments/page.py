"""The HTML page of all results: one file, dark and light, nothing fetched from anywhere.

All results as one Markdown text, in the order of the registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from overstory.experiments import wording
from overstory.experiments.comparison import AGREES, DIFFERS, NEW
from overstory.experiments.result import Result
from overstory.presentation.document import Table
from overstory.presentation.pages import templates


def totals(results: Sequence[Result]) -> dict[str, int]:
    """How many comparisons of all results agree, differ, are new."""
    return {verdict: sum(result.verdicts[verdict] for result in results) for verdict in (AGREES, DIFFERS, NEW)}


def overview(results: Sequence[Result]) -> str:
    """Say it in one sentence."""
    seen = totals(results)
    return (
        f"{seen[AGREES]} numbers agree with the papers or with theory, {seen[DIFFERS]} differ (each says why), "
        f"{seen[NEW]} are new, in {len(results)} experiments."
    )


def verdicts(result: Result, caption: str = "") -> Table:
    """Return what was published, what we find, and the verdict."""
    rows = [
        (wording.name(one), wording.published(one.published), wording.ours(one), wording.verdict(one))
        for one in result.comparisons
    ]
    headings = ("quantity", "published", "ours", "verdict")
    return Table.of_cells(caption, headings, rows, left=headings)


def markdown(results: Sequence[Result], command: str) -> str:
    """Return a page with a section for each result: what was published, what we find, the verdict."""
    written = f"Written by `{command}`; [how to read it](../how-to/reproduce.md)."
    blocks = ["# The papers, reproduced", written, overview(results)]
    paper = ""
    for result in results:
        if result.paper != paper:
            paper = result.paper
            blocks.append(f"## {paper}")
        blocks.append(section(result))
    return "\n\n".join(blocks) + "\n"


def section(result: Result) -> str:
    """Return one result's part of the page."""
    return "\n\n".join(_parts(result))


def _parts(result: Result) -> Iterable[str]:
    yield f"### {result.title}"
    mode = "quick" if result.quick else "full"
    seed = f", seed {result.seed}" if result.seed is not None else ", nothing random"
    yield f"`{result.name}`, {result.section} ({mode} mode{seed})"
    rows = [
        (wording.name(one), wording.published(one.published), wording.ours(one), wording.verdict(one))
        for one in result.comparisons
    ]
    yield table(("quantity", "published", "ours", "verdict"), rows)
    if result.notes:
        yield "\n".join(f"- {note}" for note in result.notes)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; what could end a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def page(results: Sequence[Result], command: str) -> str:
    """Return the page."""
    environment = templates("overstory.experiments")
    environment.filters |= {
        "cell": wording.cell,
        "published": wording.published,
        "ours": wording.ours,
        "verdict": wording.verdict,
        "name": wording.name,
    }
    return environment.get_template("results.html").render(results=results, overview=overview(results), command=command)
