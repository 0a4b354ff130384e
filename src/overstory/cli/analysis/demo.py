"""`overstory demo`: the main job on bundled real data, from devices to a page."""

from __future__ import annotations

import argparse
import shlex
from itertools import chain
from pathlib import Path
from typing import Any

from overstory.cli.arguments import print_answer
from overstory.cli.progress import progress
from overstory.presentation.document import Paragraph
from overstory.protocol.errors import ParameterError

EXAMPLE = "example: overstory demo --reports 1000000 --states all --json"
OPTIONS = {"num_bits": "k", "num_hashes": "h", "num_cohorts": "m", "p": "p", "q": "q", "f": "f"}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="run a private collection of real figures, and show what is learned",
        description="Draws respondents from real figures, randomizes each one's state on a simulated device, sends,\n"
        "counts and decodes the reports. Shows the truth, the estimates with their intervals, and the\nprivacy loss.",
        epilog=EXAMPLE,
    )
    parser.add_argument(
        "--reports", type=int, default=1_000_000, metavar="N", help="how many respondents (default: 1,000,000)"
    )
    parser.add_argument("--seed", type=int, default=20210418, metavar="S", help="the same seed gives the same output")
    parser.add_argument("--states", default="26", metavar="WHICH", help="number of states, all, or names (default 26)")
    parser.add_argument(
        "--num-bits", type=int, default=128, metavar="K", help="bits of the Bloom filter (default: 128)"
    )
    parser.add_argument("--num-hashes", type=int, default=2, metavar="H", help="hash functions (default: 2)")
    parser.add_argument("--num-cohorts", type=int, default=16, metavar="M", help="cohorts (default: 16)")
    parser.add_argument("--f", type=float, default=0.5, help="share of noise in the permanent bits (default: 0.5)")
    parser.add_argument("--p", type=float, default=0.5, help="P(reported bit 1 | permanent bit 0) (default: 0.5)")
    parser.add_argument("--q", type=float, default=0.75, help="P(reported bit 1 | permanent bit 1) (default: 0.75)")
    parser.add_argument(
        "-o", "--output", default="out/demo", metavar="DIR", help="folder for the files (default out/demo)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--console", action="store_true", help="then show the store in a browser (`overstory console`), until Ctrl-C"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from overstory.files.rappor import RapporParameters
    from overstory.trial.service import demonstrate, draw_population

    if args.seed < 0:
        raise ParameterError(f"--seed {args.seed}: give a whole number from 0")
    parameters = RapporParameters(**{letter: getattr(args, option) for option, letter in OPTIONS.items()})
    population = draw_population(args.states, args.reports, np.random.default_rng([args.seed, 0]))
    with progress("devices report", len(population)) as bar:
        summary = demonstrate(population, parameters, args.seed, Path(args.output), bar.advance)
    page = summary.write_page(Path(args.output, "demo.html"), _command(args))
    files = Paragraph(f"Files: {args.output}; page: {page.resolve()}")
    print_answer(args, summary.to_json() | {"page": str(page)}, chain(summary.blocks(), [files]))
    if args.console:
        from overstory.cli.service.console import show_store
        from overstory.trial.service import Paths

        paths = Paths.below(Path(args.output))
        show_store(str(paths.registry), str(paths.store))
    return 0


def _command(args: argparse.Namespace) -> str:
    names = ("reports", "seed", "states", *OPTIONS)
    given = (["--" + name.replace("_", "-"), str(getattr(args, name))] for name in names)
    return shlex.join(["overstory", "demo", *chain.from_iterable(given)])
