"""Pages of HTML from templates, in one style: dark and light, nothing fetched from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory.presentation.render_html import STYLE
from overstory.presentation.svg import inline

if TYPE_CHECKING:
    from jinja2 import Environment


def templates(package: str) -> Environment:
    """Return a package's templates, with the style that all such pages share and filters for pictures and epsilons."""
    from jinja2 import ChoiceLoader, DictLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(package), DictLoader({"style.css": STYLE})])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"drawn": inline}
    return environment
