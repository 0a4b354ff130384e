"""Pages of HTML from templates, in one style: dark and light, nothing fetched from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from overstory.presentation.figures import VARIABLES, Picture, inline, with_own_names
from overstory.privacy.text import epsilon_text

if TYPE_CHECKING:
    from jinja2 import Environment


def templates(package: str) -> Environment:
    """Return a package's templates, with the style that all such pages share and filters for pictures and epsilons."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "overstory.presentation"))])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"drawn": drawn, "epsilon": epsilon_text}
    return environment


def style() -> str:
    """Return the style that all such pages share."""
    return (Path(__file__).parent / "templates" / "style.css").read_text("utf-8").removesuffix("\n")


def drawn(figure: Picture) -> str:
    """Return a picture as an element of the page, coloured by it."""
    return with_own_names(inline(figure.svg, figure.caption, figure.alt, VARIABLES), figure.name)
