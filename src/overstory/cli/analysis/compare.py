"""``overstory compare``: oracles side by side at equal privacy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis.comparison import measured_errors, rank, recommend, rounds_to_order, trade, zipf
from overstory.cli.command import Answer, form_of, progress, seekable, tell_notes
from overstory.cli.own_files import load_oracles
from overstory.files.columns import blocks
from overstory.files.recognition import recognize_all
from overstory.planning.plan import ranking_blocks
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import check_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.comparison import Choice, Measured


def run(args: argparse.Namespace) -> Answer:
    names = _files(args)
    symbols = _symbols(args)
    ranking = rank(args.domain_size, args.epsilon, args.reports, epsilon_permanent=args.epsilon_permanent)
    _check_own(args, names, ranking)
    if symbols is None and args.measure:
        symbols = zipf(args.reports, args.domain_size, np.random.default_rng([args.seed, 1 << 20]))
    measured = None
    if symbols is not None:
        with progress("collections are simulated", len(ranking) * args.measure, quiet=args.quiet) as bar:
            sizes = {"rounds": args.measure, "advance": bar.advance}
            measured = list(measured_errors(ranking, symbols, args.domain_size, args.seed, **sizes))
    best = recommend(ranking)
    shown = ranking_blocks(ranking, measured, best, trade(ranking, best))
    return Answer(as_json(args, ranking, measured, best), shown)


def _files(args: argparse.Namespace) -> list[str]:
    """Return the oracles that Python files register, and leave the file with the values."""
    programs, values = ([file for file in args.file if file.endswith(".py") is is_one] for is_one in (True, False))
    if len(values) > 1:
        raise ParameterError(f"{values[0]} and {values[1]}: give one FILE with values")
    if bool(values) != bool(args.column):
        missing = "--column" if values else "FILE"
        raise ParameterError(f"{missing} missing: FILE and --column belong together")
    args.file = values[0] if values else None
    return [name for file in programs for name in load_oracles(file)]


def _check_own(args: argparse.Namespace, names: list[str], ranking: tuple[Choice, ...]) -> None:
    """Say which of the user's own oracles are not ranked; raise ParameterError where one reveals more than is asked."""
    ranked = {choice.name: choice for choice in ranking}
    sizes = f"domain_size = {args.domain_size}, epsilon = {args.epsilon}"
    other = "" if args.epsilon_permanent is None else f", epsilon_permanent = {args.epsilon_permanent}"
    tell_notes("compare", (f"{name} is left out: it is not for {sizes}{other}" for name in names if name not in ranked))
    most = args.epsilon if args.epsilon_permanent is None else args.epsilon_permanent
    for choice in (ranked[name] for name in names if name in ranked):
        for revealed, asked, where in (
            (choice.epsilon_permanent, most, "any number of reports"),
            (choice.epsilon_report, args.epsilon, "a report"),
        ):
            if revealed > asked:
                raise ParameterError(
                    f"{choice.name} reveals epsilon {revealed:.6f} in {where}, where {asked} is asked for: overstory "
                    "check-oracle has its numbers"
                )


def _symbols(args: argparse.Namespace) -> NDArray[np.integer[Any]] | None:
    """Return what each device holds, where there are data; complete the sizes that they tell."""
    if args.file is None:
        if args.domain_size is None or args.reports is None:
            raise ParameterError("give --domain-size D and --reports N, or FILE and --column C")
        return None
    with seekable(args.file) as path:
        symbols, distinct = _read_symbols(args, path)
    if args.domain_size is not None and args.domain_size < distinct:
        raise ParameterError(f"--domain-size {args.domain_size}: the column has {distinct} different values")
    args.domain_size = max(distinct, 2) if args.domain_size is None else args.domain_size

    args.reports, args.measure = len(symbols), args.measure or rounds_to_order(args.domain_size)
    return symbols


def _read_symbols(args: argparse.Namespace, path: str) -> tuple[NDArray[np.integer[Any]], int]:
    """Return what each row's device holds, or each of so many that are drawn, and how many different values."""
    if args.reports is not None:
        check_count("num_reports", args.reports, 1, 1 << 62)
    number_of: dict[str, int] = {}
    numbers = [texts.numbered(number_of) for (texts,) in blocks(path, [args.column], form=form_of(args.csv))]
    if not number_of:
        raise ParameterError(f"{path}: the column {args.column!r} holds no values")
    symbols: NDArray[np.integer[Any]] = np.concatenate([some[some >= 0] for some in numbers])
    rows = dict(zip(number_of, np.bincount(symbols).tolist(), strict=True))
    (found,) = recognize_all({args.column: rows}, form_of(args.csv))
    tell_notes("compare", found.notes)
    place = {label: number for number, label in enumerate(dict.fromkeys(found.labels))}
    symbols = np.array([place[label] for label in found.labels])[symbols]
    if args.reports is not None:
        symbols = np.random.default_rng([args.seed, 1 << 21]).choice(symbols, size=args.reports)
    return symbols, len(place)


def as_json(
    args: argparse.Namespace, ranking: tuple[Choice, ...], measured: list[Measured] | None, best: Choice
) -> dict[str, Any]:
    """Return the ranking as JSON values."""
    rows = [choice.to_json() for choice in ranking]
    for row, trial in zip(rows, measured or [], strict=False):
        row |= {
            "measured_error": trial.error,
            "measured_standard_error": trial.standard_error,
            "measured_runs": trial.rounds,
        }
    return {
        "domain_size": args.domain_size,
        "epsilon_report": args.epsilon,
        "epsilon_permanent": args.epsilon_permanent,
        "reports": args.reports,
        "recommended": best.name,
        "oracles": rows,
    }
