"""The HTML page of all results: one file, dark and light, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.experiments import wording
from overstory.experiments.drawing import VARIABLES
from overstory.experiments.inline_svg import inline, with_own_names
from overstory.experiments.result import Picture, Result
from overstory.experiments.summary import overview
from overstory.privacy.words import epsilon_text

if TYPE_CHECKING:
    from jinja2 import Environment


def page(results: Sequence[Result], command: str) -> str:
    """Return the page.

    Parameters
    ----------
    results
        In the order in which they are shown.
    command
        The command that gives this page again.
    """
    environment = templates("overstory.experiments")
    environment.filters |= {
        "cell": wording.cell,
        "published": wording.published,
        "ours": wording.ours,
        "verdict": wording.verdict,
        "name": wording.name,
    }
    return environment.get_template("results.html").render(results=results, overview=overview(results), command=command)


def templates(package: str) -> Environment:
    """Return a package's templates, with the style that all such pages share and filters for pictures and epsilons."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "overstory.experiments"))])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"drawn": drawn, "epsilon": epsilon_text}
    return environment


def style() -> str:
    """Return the style that all such pages share."""
    return (Path(__file__).parent / "templates" / "style.css").read_text("utf-8").removesuffix("\n")


def drawn(figure: Picture) -> str:
    """Return a picture as an element of the page, coloured by it."""
    return with_own_names(inline(figure.svg, figure.caption, figure.alt, VARIABLES), figure.name)
