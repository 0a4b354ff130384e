"""The picture of ``overstory compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory.cli.picture import picture

if TYPE_CHECKING:
    from overstory.analysis.choosing import Choice


def draw(ranking: tuple[Choice, ...], measured: list[float] | None, path: str) -> None:
    """Draw the errors as a bar for each oracle, with what was measured as a dot."""
    with picture(path, 9, 4.5) as figure:
        axes = figure.subplots()
        names = [choice.name for choice in ranking]
        axes.bar(names, [choice.standard_error for choice in ranking], color="C0", alpha=0.4, label="exact")
        if measured:
            axes.plot(names, measured, "o", color="C1", label="measured")
        axes.set_yscale("log")
        axes.set_ylabel("standard error of a frequency")
        axes.tick_params(axis="x", rotation=45)
        axes.legend()
