"""``overstory reproduce``: the papers' results, in a checkout of the source alone."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import Command, Option, flag, print_answer
from overstory.cli.progress import progress
from overstory.cli.workers import check_workers, each_cell
from overstory.presentation.document import Lines
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.presentation.document import Block
    from papers.study import Experiment, Result

OPTIONS = ("value", "params", "readings")


COMMANDS = {
    "reproduce": Command(
        "reproduce",
        "overstory reproduce --list\n"
        "  overstory reproduce rappor-75-of-100 -o results\n"
        "  overstory reproduce --all --quick",
        Option("names", "what to reproduce (--list prints the names)", "NAME", nargs="*"),
        flag("--all", "reproduce everything"),
        flag("--list", "list everything, and exit"),
        flag("--quick", "use smaller sizes and fewer replicates: seconds each"),
        flag("--fresh", "compute finished results again"),
        Option("--value", "the value whose report is drawn (rappor-figure-1)", "TEXT"),
        Option("--params", "RAPPOR's parameters for --value: header k,h,m,p,q,f and one row"),
        Option("--readings", "real meter readings, instead of synthetic ones (protecting-...)", "FILE"),
        Option("--workers", "processes, each of one result; the results are the same (default: 1)", "N", int),
        Option("--output", "folder", "DIR", default="out/reproduce"),
        more="""\
Writes every result into the folder: NAME.json with the published numbers, ours, their intervals and the verdicts; the
pictures as PNG and SVG; and index.html and summary.md with all results in the folder. A verdict is always computed.
Finished results are not computed again, unless --fresh is given. The papers are in a checkout of the source only.""",
        runs="checkout",
    )
}


def papers() -> Path:
    """Return the papers' folder of the checkout that this package is run from; ParameterError where there is none."""
    import overstory

    found = Path(overstory.__file__).resolve().parents[2] / "papers"
    if not next(found.glob("*.py"), None):
        raise ParameterError(
            "the papers' experiments are in the folder papers/ of the source: clone the repository, install it with "
            "`pip install -e .[analysis] --group papers` and run this there"
        )
    return found


def run(args: argparse.Namespace) -> int:
    sys.path.append(str(papers().parent))
    from papers.run import EXPERIMENTS

    if args.list:
        _list(args, tuple(EXPERIMENTS.values()))
        return 0
    chosen, options = _chosen(args), _options(args)
    results = _reproduced(args, chosen, options)
    _write_overview(args, results)
    if args.json or not args.quiet:
        print_answer(args, {"results": [result.to_json() for result in results]}, _blocks(args, results))
    return 0


def _list(args: argparse.Namespace, experiments: tuple[Experiment, ...]) -> None:
    if args.json:
        rows = [{"name": e.name, "title": e.title, "paper": e.paper, "section": e.section} for e in experiments]
        print(json.dumps({"experiments": rows}, indent=2))
        return
    width = max(len(e.name) for e in experiments)
    for e in experiments:
        print(f"{e.name:<{width}}  {e.title} ({e.paper.partition(' (')[0]}, {e.section})")


def _chosen(args: argparse.Namespace) -> tuple[Experiment, ...]:
    from papers.run import EXPERIMENTS, experiment

    if args.all == bool(args.names):
        raise ParameterError(f"give --all, or names from: {', '.join(EXPERIMENTS)}")
    return tuple(EXPERIMENTS.values()) if args.all else tuple(experiment(name) for name in dict.fromkeys(args.names))


def _options(args: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    return {name: value if name == "value" else Path(value) for name, value in given.items()}


def _reproduced(
    args: argparse.Namespace, chosen: tuple[Experiment, ...], options: dict[str, Any]
) -> tuple[Result, ...]:
    from papers.run import check_options, reproduce

    takes = [{name: options[name] for name in options if name in e.takes or not args.all} for e in chosen]
    for experiment, given in zip(chosen, takes, strict=True):
        check_options(experiment, given)
    results = []
    workers = check_workers(args.workers)
    with progress("starting", len(chosen), quiet=args.quiet) as bar:
        if workers > 1:
            cells = [(e.name, args.output, args.quick, g, args.fresh) for e, g in zip(chosen, takes, strict=True)]
            return tuple(each_cell(_reproduced_alone, cells, workers, lambda: bar.advance(1)))
        for number, (experiment, given) in enumerate(zip(chosen, takes, strict=True)):
            result, _ = reproduce(
                experiment,
                Path(args.output),
                quick=args.quick,
                options=given,
                fresh=args.fresh,
                progress=_within(bar.reach, number, experiment.name),
            )
            results.append(result)
    return tuple(results)


def _reproduced_alone(cell: tuple[str, str, bool, dict[str, Any], bool]) -> Result:
    """Reproduce one result, in a process of its own."""
    from papers.run import experiment, reproduce

    name, folder, quick, given, fresh = cell
    result, _ = reproduce(experiment(name), Path(folder), quick=quick, options=given, fresh=fresh)
    return result


def _within(reach: Callable[[float, str], object], number: int, name: str) -> Callable[[float, str], object]:
    return lambda share, doing: reach(number + share, f"{name} {doing}")


def _write_overview(args: argparse.Namespace, results: tuple[Result, ...]) -> None:
    """Write index.html and summary.md of all that the folder holds, what was computed before included."""
    from overstory.files.io import writing_text
    from papers.page import markdown, page
    from papers.run import EXPERIMENTS, load

    written, computed = Path(args.output), {result.name: result for result in results}
    every = [computed.get(name) or load(name, written) for name in EXPERIMENTS]
    there = [result for result in every if result is not None]
    given = ([f"--{name}", str(getattr(args, name))] for name in OPTIONS if getattr(args, name) is not None)
    words = ["overstory", "reproduce", "--all", *(["--quick"] if args.quick else []), *chain.from_iterable(given)]
    command = shlex.join(words)
    with writing_text(written / "index.html") as text:
        text.write(page(there, command))
    with writing_text(written / "summary.md") as text:
        text.write(markdown(there, command))


def _blocks(args: argparse.Namespace, results: tuple[Result, ...]) -> Iterator[Block]:
    from papers.page import overview, verdicts

    for result in results:
        yield verdicts(result, result.title)
        if result.notes:
            yield Lines(*(f"note: {note}" for note in result.notes))
    yield Lines(overview(results), f"Page: {Path(args.output) / 'index.html'}")
