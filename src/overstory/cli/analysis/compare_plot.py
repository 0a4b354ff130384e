"""The picture of ``overstory compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory.cli.picture import picture

if TYPE_CHECKING:
    from overstory.analysis.comparison import Choice, Measured


def draw(ranking: tuple[Choice, ...], measured: list[Measured] | None, path: str) -> None:
    """Draw a row for each oracle, the best on top: a ring for the exact error, a dot with its error for the measured.

    Dots have no base, so that the axis may be logarithmic and begin anywhere.
    """
    places = range(len(ranking))
    with picture(path, 7, 1.2 + 0.25 * len(ranking)) as figure:
        axes = figure.subplots()
        exact = [choice.standard_error for choice in ranking]
        axes.plot(exact, places, "o", color="C0", markerfacecolor="white", markersize=7, label="exact")
        if measured:
            errors = [one.error for one in measured]
            spread = [one.standard_error or 0.0 for one in measured]
            label = f"measured, {measured[0].rounds:,} runs, +/- standard error"
            axes.errorbar(errors, places, xerr=spread, fmt="o", color="C1", markersize=3, label=label)
        axes.set_xscale("log")
        axes.set_yticks(places, [choice.name for choice in ranking])
        axes.invert_yaxis()
        axes.grid(axis="x", color="0.9")
        axes.set_xlabel("standard error of a frequency")
        axes.legend(fontsize=8)
