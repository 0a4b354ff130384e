"""``overstory compare --numeric MIN MAX``: randomizers of numbers by the error of a mean, in theory and on a column."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import form_of, seekable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from overstory.presentation.document import Block
    from overstory.protocol.numeric.randomizer import NumericRandomizer

EITHER = "--numeric needs --reports N, at least 1, or FILE and --column C"


def run_numeric(args: argparse.Namespace) -> int:
    """Print what takes numbers, by the error of a mean: the one with the least worst-case error first."""
    from overstory.presentation.render_text import print_document

    numbers = _checked(args)
    rows = sorted(_rows(args, numbers), key=lambda row: float(row["worst" if numbers is None else "exact"]))
    if args.json:
        low, high = args.numeric
        about = {"minimum": low, "maximum": high, "epsilon_report": args.epsilon, "reports": args.reports}
        print(json.dumps(about | {"randomizers": rows}, indent=2, allow_nan=False))
    else:
        print_document(_blocks(rows))
    return 0


def _checked(args: argparse.Namespace) -> NDArray[np.float64] | None:
    """Return the column's numbers, where there is one; complete the number of reports."""
    from overstory.protocol.errors import ParameterError

    if any(getattr(args, name) is not None for name in ("domain_size", "epsilon_permanent", "plot")):
        raise ParameterError(
            "--numeric goes with --epsilon, --reports and --json, and with FILE, --column and --measure"
        )
    if args.data is None and args.column is None:
        if args.reports is None or args.reports < 1 or args.measure is not None:
            raise ParameterError(EITHER)
        return None
    if args.data is None or args.column is None or args.reports is not None:
        raise ParameterError(f"{EITHER}; each row of FILE is one device")
    if args.measure is not None and args.measure < 1:
        raise ParameterError("--measure takes a whole number from 1")
    from overstory.trial.numbers import read_column_of_numbers

    with seekable(args.data) as path:
        numbers, _ = read_column_of_numbers(path, args.column, form=form_of(args))
    args.reports = numbers.size
    return numbers


def _rows(args: argparse.Namespace, numbers: NDArray[np.float64] | None) -> Iterator[dict[str, Any]]:
    """Yield each randomizer with the standard error of the mean: of people who hold one value, and of the column's."""
    from overstory.cli.progress import progress
    from overstory.protocol.numeric.randomizer import NumericRandomizer
    from overstory.protocol.numeric.registry import NUMERIC, numeric

    low, high = args.numeric
    names = [name for name in NUMERIC if name != "ranges"]  # which answers shares of ranges, and no mean
    with progress("collections are simulated", len(names) * (numbers is not None)) as bar:
        for place, name in enumerate(names):
            built = numeric(name, epsilon=args.epsilon, minimum=low, maximum=high)
            assert isinstance(built, NumericRandomizer)
            row = _exact(built, args.reports)
            if numbers is not None:
                row |= _measured(args, built, numbers, place)
                bar.advance(1)
            yield {"name": name, **row, "report_bits": built.payload_bits, "epsilon_report": built.epsilon_report}


def _exact(built: NumericRandomizer, reports: int) -> dict[str, float]:
    from fractions import Fraction

    domain = built.domain
    width = Fraction(domain.width)  # a large range's variance is beyond floats; its root is not
    values = domain.minimum / 2 + domain.maximum / 2, domain.maximum
    relative = (built.variance(value) / width**2 / reports for value in values)
    middle, end = (math.sqrt(variance) * domain.width for variance in relative)
    return {"middle": middle, "end": end, "worst": max(middle, end)}


def _measured(
    args: argparse.Namespace, built: NumericRandomizer, numbers: NDArray[np.float64], place: int
) -> dict[str, Any]:
    import numpy as np

    from overstory.trial.numbers import ROUNDS, mean_error, measure_means

    rounds = args.measure or ROUNDS
    error, spread = measure_means(built, numbers, rounds=rounds, rng=np.random.default_rng([args.seed, 4, place]))
    about = {"measured_error": error, "measured_standard_error": spread, "measured_runs": rounds}
    return {"exact": mean_error(built, numbers), **about}


def _blocks(rows: list[dict[str, Any]]) -> Iterator[Block]:
    from overstory.presentation.document import Column, Lines, Paragraph, Table

    name, bits = Column("name", "randomizer", is_left=True), Column("report_bits", "bits")
    if "exact" not in rows[0]:
        columns = (
            name,
            Column("middle", "all in the middle", "{:.3e}".format),
            Column("end", "all at an end", "{:.3e}".format),
            bits,
        )
        yield Table("", columns, rows)
        yield Paragraph("standard error of the mean, exact, where everybody holds that one value")
        return
    measured = Column("measured", "measured", _with_error, keys=("measured_error", "measured_standard_error"))
    yield Table("", (name, Column("exact", "exact", "{:.3e}".format), measured, bits), rows)
    runs = f"{rows[0]['measured_runs']:,} simulated collections"
    yield Lines(
        "exact: standard error of the mean of this column's numbers, by randomization alone",
        f"measured: root mean square error of {runs}, +/- its standard error",
    )


def _with_error(error: float, spread: float | None) -> str:
    return f"{error:.3e}" if spread is None else f"{error:.3e} +/- {spread:.1e}"
