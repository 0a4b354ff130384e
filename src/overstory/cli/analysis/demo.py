"""`overstory demo`: the main job on bundled real data, from devices to a page."""

from __future__ import annotations

import argparse
import shlex
from itertools import chain
from pathlib import Path

import numpy as np

from overstory.cli.arguments import print_answer
from overstory.cli.output import progress
from overstory.files.rappor import RapporParameters, read_params
from overstory.presentation.document import Paragraph
from overstory.trial.service import Paths, demonstrate, draw_population


def run(args: argparse.Namespace) -> int:
    usual = RapporParameters(k=128, h=2, m=16, p=0.5, q=0.75, f=0.5)
    parameters = read_params(args.params) if args.params else usual
    population = draw_population(args.states, args.reports, np.random.default_rng([args.seed, 0]))
    with progress("devices report", len(population), quiet=args.quiet) as bar:
        summary = demonstrate(population, parameters, args.seed, Path(args.output), bar.advance)
    page = summary.write_page(Path(args.output, "demo.html"), _command(args))
    files = Paragraph(f"Files: {args.output}; page: {page.resolve()}")
    print_answer(args, summary.to_json() | {"page": str(page)}, chain(summary.blocks(), [files]))
    if args.console:
        from overstory.cli.service.console import show_store

        paths = Paths.below(Path(args.output))
        show_store(str(paths.registry), str(paths.store))
    return 0


def _command(args: argparse.Namespace) -> str:
    names = ("reports", "seed", "states", *(["params"] if args.params else []))
    given = (["--" + name, str(getattr(args, name))] for name in names)
    return shlex.join(["overstory", "demo", *chain.from_iterable(given)])
