"""``overstory compare``: oracles side by side at equal privacy."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import add_command, check_plot, check_seed
from overstory.cli.csv_options import add_form, form_of, seekable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from overstory.analysis.comparison import Choice, Measured

MORE = """\
Every registered oracle that suits the needs, ranked by its exact average error over the domain, whatever the
population. With --epsilon-permanent, those that memoize and send fresh reports; without, those of one report. The
recommended one is, of those within 1% of the least variance, the one of which two reports share the fewest bits, equal
or alike; then the one with the smallest reports. With FILE, or --measure, collections are simulated and the measured
error stands beside the exact one, with its own standard error: oracles whose measured errors overlap are not told
apart by the trial."""

EXAMPLE = """\
overstory compare --domain-size 100 --epsilon 1 --reports 1000000
  overstory compare survey.csv --column state --epsilon 2 --plot oracles.svg"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = add_command(subparsers, "compare", "oracles side by side at equal privacy", more=MORE, example=EXAMPLE)
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="true values to try the oracles on: CSV (gz too), JSON lines or Parquet; - for standard input",
    )
    parser.add_argument(
        "--epsilon",
        type=float,
        required=True,
        metavar="E",
        help="privacy loss of one report (epsilon; smaller is more private)",
    )
    parser.add_argument(
        "--epsilon-permanent", type=float, metavar="Y", help="what any number of reports of one value may reveal"
    )
    parser.add_argument("--domain-size", type=int, metavar="D", help="values (default: those in FILE)")
    parser.add_argument("--reports", type=int, metavar="N", help="devices that report once (default: FILE's rows)")
    parser.add_argument("--data", help=argparse.SUPPRESS)  # what FILE was called
    parser.add_argument("--column", metavar="C", help="FILE's column")
    add_form(parser)
    parser.add_argument(
        "--measure", type=int, metavar="R", help="simulate R collections of each oracle (with FILE: enough)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed measures the same (default: 0)")
    parser.add_argument(
        "--numeric",
        type=float,
        nargs=2,
        metavar=("MIN", "MAX"),
        help="compare what takes numbers of this range instead",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the errors: .svg, .pdf or .png")
    parser.add_argument("--json", action="store_true", help="print the ranking as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from overstory.protocol.errors import ParameterError

    if args.file is not None and args.data is not None:
        raise ParameterError("FILE and --data say the same: give one")
    args.data = args.data if args.file is None else args.file
    check_plot(args.plot)
    check_seed(args.seed)
    if args.numeric is not None:
        from overstory.cli.analysis.compare_numeric import run as run_numeric

        return run_numeric(args)
    from overstory.analysis.comparison import rank, recommend, trade

    symbols = _symbols(args)
    ranking = rank(args.domain_size, args.epsilon, args.reports, epsilon_permanent=args.epsilon_permanent)
    if symbols is None and args.measure:
        symbols = _imagined(args)
    measured = _measured(args, ranking, symbols)
    best = recommend(ranking)
    if args.plot:
        from overstory.cli.analysis.compare_plot import draw

        draw(ranking, measured, args.plot)
    if args.json:
        print(json.dumps(as_json(args, ranking, measured, best), indent=2, allow_nan=False))
    else:
        for line in table(ranking, measured, best, trade(ranking, best)):
            print(line)
    return 0


def _symbols(args: argparse.Namespace) -> NDArray[np.integer[Any]] | None:
    """Return what each device holds, where there are data; complete the sizes that they tell."""
    from overstory.protocol.errors import ParameterError

    if (args.data is None) != (args.column is None):
        raise ParameterError("FILE and --column C go together")
    if args.measure is not None and args.measure < 1:
        raise ParameterError("--measure takes a whole number from 1")
    if args.data is None:
        if args.domain_size is None or args.reports is None:
            raise ParameterError("give --domain-size D and --reports N, or FILE and --column C")
        return None
    from overstory.cli.analysis.compare_input import read_symbols

    with seekable(args.data) as path:
        symbols, distinct = read_symbols(path, args.column, args.reports, args.seed, form_of(args))
    if args.domain_size is not None and args.domain_size < distinct:
        raise ParameterError(f"--domain-size {args.domain_size}: the column has {distinct} different values")
    args.domain_size = max(distinct, 2) if args.domain_size is None else args.domain_size
    from overstory.analysis.comparison import rounds_to_order

    args.reports, args.measure = len(symbols), args.measure or rounds_to_order(args.domain_size)
    return symbols


def _imagined(args: argparse.Namespace) -> NDArray[np.integer[Any]]:
    import numpy as np

    from overstory.analysis.comparison import zipf

    return zipf(args.reports, args.domain_size, np.random.default_rng([args.seed, 1 << 20]))


def _measured(
    args: argparse.Namespace, ranking: tuple[Choice, ...], symbols: NDArray[np.integer[Any]] | None
) -> list[Measured] | None:
    if symbols is None:
        return None
    from overstory.analysis.comparison import measured_errors
    from overstory.cli.progress import bar

    asked = ranking, symbols, args.domain_size, args.seed
    with bar("collections are simulated", len(ranking) * args.measure) as advance:
        return list(measured_errors(*asked, rounds=args.measure, advance=advance))


def as_json(
    args: argparse.Namespace, ranking: tuple[Choice, ...], measured: list[Measured] | None, best: Choice
) -> dict[str, Any]:
    """Return the ranking as JSON values."""
    rows = [choice.to_json() for choice in ranking]
    for row, one in zip(rows, measured or [], strict=False):
        row |= {"measured_error": one.error, "measured_standard_error": one.standard_error, "measured_runs": one.rounds}
    return {
        "domain_size": args.domain_size,
        "epsilon_report": args.epsilon,
        "epsilon_permanent": args.epsilon_permanent,
        "reports": args.reports,
        "recommended": best.name,
        "oracles": rows,
    }


def _runs(rounds: int) -> str:
    return "1 simulated collection" if rounds == 1 else f"{rounds:,} simulated collections"


def _measured_text(measured: Measured) -> str:
    known = measured.standard_error is not None
    return f"{measured.error:.3e}" + (f" +/- {measured.standard_error:.1e}" if known else "")


def table(
    ranking: tuple[Choice, ...], measured: list[Measured] | None, best: Choice, instead: str | None = None
) -> list[str]:
    """Return the ranking as lines."""
    from overstory.privacy.attacks.linkability import bits_text

    head = f"{'oracle':<15} {'std. error':>10} {'over best':>9} {'bits':>6} {'same':>6} {'alike':>7}  {'decoding':<16}"
    lines = [(head + (f" {'measured':>22}" if measured else "")).rstrip()]
    for number, choice in enumerate(ranking):
        worse = math.sqrt(choice.variance / ranking[0].variance) - 1
        line = f"{choice.name:<15} {choice.standard_error:>10.3e} {worse:>9.1%} {choice.report_bits:>6} "
        line += f"{bits_text(choice.linkable.bits).split()[0]:>6} "
        line += f"{bits_text(choice.linkable.shared(1)).split()[0]:>7}  "
        line += f"{choice.decoding:<16}" + (f" {_measured_text(measured[number]):>22}" if measured else "")
        lines.append(line.rstrip())
    made = ", ".join(f"{key}={value!r}" for key, value in best.parameters.items())
    lines += ["", f"recommended: overstory.oracle({best.name!r}, {made})"]
    lines.append(f"linkable: {best.linkable.words()}")
    if instead is not None:
        lines.append(f"instead: {instead}")
    lines.append(
        "std. error: of a value's frequency, on average over the domain; bits: of a report, its public part included"
    )
    if measured:
        lines.append(f"measured: root mean square error of {_runs(measured[0].rounds)}, +/- its standard error")
    lines.append("same: bits that are the same in every report of a device while its value does not change")
    lines.append("alike: bits that two reports of an unchanged value share, equal or drawn from one permanent response")
    return lines
