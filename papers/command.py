"""What ``overstory reproduce`` runs: the papers' results, their pages and their verdicts."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from overstory.cli.command import Answer, progress
from overstory.files.io import writing_text
from overstory.presentation.document import Block, Lines
from overstory.presentation.render_text import as_latex
from overstory.protocol.errors import ParameterError
from papers.page import markdown, overview, page, verdicts
from papers.run import EXPERIMENTS, experiment, load, reproduce
from papers.study import Experiment, Result


def run(args: argparse.Namespace) -> int:
    """Reproduce what is named, and print it; or list what there is."""
    if not args.names and not args.all:
        _list(args)
        return 0
    chosen = _chosen(args)
    results = _reproduced(args, chosen)
    _write_overview(args, results)
    if args.json or not args.quiet:
        Answer({"results": [result.to_json() for result in results]}, _blocks(args, results)).give(args)
    return 0


def _list(args: argparse.Namespace) -> None:
    experiments = tuple(EXPERIMENTS.values())
    if args.json:
        rows = [{"name": e.name, "title": e.title, "paper": e.paper, "section": e.section} for e in experiments]
        print(json.dumps({"experiments": rows}, indent=2))
        return
    width = max(len(e.name) for e in experiments)
    for e in experiments:
        print(f"{e.name:<{width}}  {e.title} ({e.paper.partition(' (')[0]}, {e.section})")


def _chosen(args: argparse.Namespace) -> tuple[Experiment, ...]:
    if args.all and args.names:
        raise ParameterError(f"give --all, or names from: {', '.join(EXPERIMENTS)}")
    return tuple(EXPERIMENTS.values()) if args.all else tuple(experiment(name) for name in dict.fromkeys(args.names))


def _reproduced(args: argparse.Namespace, chosen: tuple[Experiment, ...]) -> tuple[Result, ...]:
    results = []
    with progress("starting", len(chosen), quiet=args.quiet) as bar:
        for number, one in enumerate(chosen):
            result, _ = reproduce(
                one,
                Path(args.output),
                quick=args.quick,
                progress=_within(bar.reach, number, one.name),
            )
            results.append(result)
    return tuple(results)


def _within(reach: Callable[[float, str], object], number: int, name: str) -> Callable[[float, str], object]:
    return lambda share, doing: reach(number + share, f"{name} {doing}")


def _write_overview(args: argparse.Namespace, results: tuple[Result, ...]) -> None:
    """Write index.html, summary.md and summary.tex of all that the folder holds, what was computed before included."""
    written, computed = Path(args.output), {result.name: result for result in results}
    every = [computed.get(name) or load(name, written) for name in EXPERIMENTS]
    there = [result for result in every if result is not None]
    command = shlex.join(["overstory", "reproduce", "--all", *(["--quick"] if args.quick else [])])
    with writing_text(written / "index.html") as text:
        text.write(page(there, command))
    with writing_text(written / "summary.md") as text:
        text.write(markdown(there, command))
    with writing_text(written / "summary.tex") as text:
        text.write(as_latex(verdicts(result, f"{result.title} ({result.section})") for result in there))


def _blocks(args: argparse.Namespace, results: tuple[Result, ...]) -> Iterator[Block]:
    for result in results:
        yield verdicts(result, result.title)
        if result.notes:
            yield Lines(*(f"note: {note}" for note in result.notes))
    yield Lines(overview(results), f"Page: {Path(args.output) / 'index.html'}")
