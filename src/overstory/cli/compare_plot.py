"""The picture of ``overstory compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory.files.opening import replacing

if TYPE_CHECKING:
    from overstory.analysis.choosing import Choice


def draw(ranking: tuple[Choice, ...], measured: list[float] | None, path: str) -> None:
    """Write the errors as a bar for each oracle, with what was measured as a dot; .svg or .png by the name."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "overstory"}):
        figure = Figure(figsize=(9, 4.5), layout="constrained")
        axes = figure.subplots()
        names = [choice.name for choice in ranking]
        axes.bar(names, [choice.standard_error for choice in ranking], color="C0", alpha=0.4, label="exact")
        if measured:
            axes.plot(names, measured, "o", color="C1", label="measured")
        axes.set_yscale("log")
        axes.set_ylabel("standard error of a frequency")
        axes.tick_params(axis="x", rotation=45)
        axes.legend()
        kind = path.rpartition(".")[2]
        with replacing(path) as name:
            figure.savefig(name, format=kind, metadata={"Date": None} if kind == "svg" else None)
