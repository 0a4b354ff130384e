"""The HTML page of all results: one file, dark and light, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from overstory.experiments import wording
from overstory.experiments.drawing import VARIABLES
from overstory.experiments.inline_svg import inline, with_own_names
from overstory.experiments.result import Picture, Result
from overstory.experiments.summary import overview


def page(results: Sequence[Result], command: str) -> str:
    """Return the page.

    Parameters
    ----------
    results
        In the order in which they are shown.
    command
        The command that gives this page again.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("overstory.experiments"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "cell": wording.cell,
        "published": wording.published,
        "ours": wording.ours,
        "verdict": wording.verdict,
        "name": wording.name,
        "drawn": drawn,
    }
    return environment.get_template("results.html").render(results=results, overview=overview(results), command=command)


def drawn(figure: Picture) -> str:
    """Return a picture as an element of the page, coloured by it."""
    return with_own_names(inline(figure.svg, figure.caption, figure.alt, VARIABLES), figure.name)
