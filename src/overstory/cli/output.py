"""An answer as a person asks for it: printed, written into files, and drawn."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from overstory.queries.readings import Answer


def show_answer(args: argparse.Namespace, answer: Answer) -> None:
    """Write an answer to the files that the options ask for, and print it as JSON or as blocks that name the file."""
    if args.output == "-":
        from overstory.files.io import writing_csv

        with writing_csv(args.output, spreadsheet=args.spreadsheet) as text:
            text.writelines(answer.csv_lines())
        return
    written = str(_write(args, answer)) if args.output else None
    if args.json:
        print(_json(args, answer))
    else:
        from overstory.presentation.render_text import print_document

        print_document(answer.blocks(everything=args.all, written=None if args.quiet else written))


def _json(args: argparse.Namespace, answer: Answer) -> str:
    """Return the facts and what was detected, or all values where the options say so."""
    return json.dumps(answer.to_json(everything=args.all), separators=(",", ":"), allow_nan=False)


def _write(args: argparse.Namespace, answer: Answer) -> Path:
    """Write NAME.csv (every value) and NAME.json (what was detected, and the facts to read it by)."""
    from overstory.files.io import writing_csv, writing_text

    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    with writing_csv(folder / f"{answer.name}.csv", spreadsheet=args.spreadsheet) as text:
        text.writelines(answer.csv_lines())
    with writing_text(folder / f"{answer.name}.json") as text:
        text.write(_json(args, answer) + "\n")
    return folder / f"{answer.name}.csv"


def draw_panels(path: str, panels: Sequence[Any], title: str = "") -> None:
    """Draw panels, each of its height, below each other."""
    if not panels:
        raise ParameterError(f"--plot {path}: there are no reports to draw")
    heights = [panel.height for panel in panels]
    with picture(path, height=sum(heights)) as figure:
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for panel, ax in zip(panels, axes, strict=True):
            panel.draw(ax)
        if title:
            figure.suptitle(title, fontsize=9, x=0.01, ha="left")


def draw_estimate(path: str, estimate: Any) -> None:
    """Draw what a decoding, or an oracle, estimates."""
    from overstory.analysis.tables.output import plot_height

    with picture(path, height=plot_height(estimate)) as figure:
        estimate.plot(figure.subplots())


TIMELESS: Final = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""What would differ from one run to the next."""


@contextmanager
def picture(path: str, width: float = 10, height: float = 5) -> Iterator[Figure]:
    """Give a figure to draw into, in inches; write it when that is done, as .svg, .pdf or .png by the name."""
    from matplotlib import figure, rc_context

    from overstory.files.io import replacing

    with rc_context({"svg.hashsalt": "overstory"}):
        drawn = figure.Figure(figsize=(width, height), layout="constrained")
        yield drawn
        kind = path.rpartition(".")[2]
        with replacing(path) as name, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # of texts in any script; the file shows a box
            drawn.savefig(name, format=kind, metadata=TIMELESS.get(kind))
