"""The HTML page of a collection: one file, nothing fetched from anywhere."""

from __future__ import annotations

from pathlib import Path

from overstory.demo import figures
from overstory.demo.collection import Collection
from overstory.demo.summary import as_json, rows, words
from overstory.experiments.page import templates
from overstory.files.opening import writing_text
from overstory.privacy.statement import statement


def write_page(collection: Collection, command: str) -> Path:
    """Write ``demo.html`` beside the collection's files and return its path.

    Parameters
    ----------
    collection
        What happened.
    command
        The command that gives this page again.
    """
    known = as_json(collection, None)
    template = templates("overstory.demo").get_template("demo.html")
    html = template.render(
        **{
            key: known[key] for key in ("epsilon_report", "epsilon_permanent", "rmse", "limit", "inside_95", "detected")
        },
        n=len(collection.population),
        total=len(collection.decoded),
        rows=rows(collection),
        shares=figures.shares(collection),
        life=figures.life_of_a_report(collection),
        spent=figures.privacy_spent(collection),
        plain_words=statement(collection.mechanism).plain_words(),
        lines=[line for line in words(collection) if line and not line.startswith("Privacy")],
        command=command,
    )
    page = collection.paths.folder / "demo.html"
    with writing_text(page) as text:
        text.write(html)
    return page
