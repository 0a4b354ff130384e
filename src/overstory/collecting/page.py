"""The HTML page of a column: one file, dark and light, nothing fetched from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from overstory.collecting import figures
from overstory.collecting.summary import HERE, Summary
from overstory.experiments.page import templates
from overstory.files.opening import writing_text
from overstory.privacy.statement import finite, statement

MOST_ROWS: Final = 1_000


def write_page(summary: Summary, folder: Path, command: str) -> Path:
    """Write ``collect.html`` into the folder and return its path.

    Parameters
    ----------
    summary
        What is shown.
    folder
        Where; it exists.
    command
        The command that gives this page again.
    """
    learned, rows = summary.learned, summary.rows()
    template = templates("overstory.collecting").get_template("collect.html")
    html = template.render(
        summary=summary,
        learned=learned,
        rows=rows[:MOST_ROWS],
        left=max(len(rows) - MOST_ROWS, 0),
        detected=sum(row["detected"] for row in rows),
        epsilon_permanent=finite(learned.mechanism.epsilon_permanent),
        shares=figures.shares(summary),
        people=figures.people_for_shares(summary),
        plain_words=statement(learned.mechanism).plain_words(),
        here=HERE,
        command=command,
    )
    path = folder / "collect.html"
    with writing_text(path) as text:
        text.write(html)
    return path
