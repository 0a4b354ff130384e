"""``overstory compare --numeric``: what takes numbers, side by side at equal privacy, by the error of a mean."""

from __future__ import annotations

import argparse
import json
import math
from fractions import Fraction
from typing import Any


def run(args: argparse.Namespace) -> int:
    """Print the randomizers, the one with the least worst-case error first."""
    from overstory.protocol.errors import ParameterError

    low, high = args.numeric
    strangers = ("data", "column", "domain_size", "epsilon_permanent", "measure", "plot")
    if any(getattr(args, name) is not None for name in strangers):
        raise ParameterError("--numeric goes with --epsilon, --reports and --json alone")
    if args.reports is None or args.reports < 1:
        raise ParameterError("--numeric needs --reports N, at least 1")
    rows = sorted(_rows(args.epsilon, low, high, args.reports), key=lambda row: float(row["worst"]))
    if args.json:
        about = {"minimum": low, "maximum": high, "epsilon_report": args.epsilon, "reports": args.reports}
        print(json.dumps(about | {"randomizers": rows}, indent=2, allow_nan=False))
    else:
        print("\n".join(_table(rows)))
    return 0


def _rows(epsilon: float, low: float, high: float, reports: int) -> list[dict[str, Any]]:
    """Return each randomizer with the standard error of the mean of `reports` people who all hold one value."""
    from overstory.protocol.numeric.randomizer import NumericRandomizer
    from overstory.protocol.numeric.registry import NUMERIC, numeric

    rows = []
    for name in NUMERIC:
        if name == "ranges":  # answers shares of ranges, and no mean
            continue
        built = numeric(name, epsilon=epsilon, minimum=low, maximum=high)
        assert isinstance(built, NumericRandomizer)
        width = Fraction(built.domain.width)  # a large range's variance is beyond floats; its root is not
        relative = (built.variance(value) / width**2 / reports for value in (low / 2 + high / 2, high))
        middle, end = (math.sqrt(one) * built.domain.width for one in relative)
        errors = {"middle": middle, "end": end, "worst": max(middle, end)}
        rows.append({"name": name, **errors, "report_bits": built.payload_bits, "epsilon_report": built.epsilon_report})
    return rows


def _table(rows: list[dict[str, Any]]) -> list[str]:
    head = f"{'randomizer':<13} {'all in the middle':>17} {'all at an end':>13} {'bits':>5}"
    lines = [f"{r['name']:<13} {r['middle']:>17.3e} {r['end']:>13.3e} {r['report_bits']:>5}" for r in rows]
    return [head, *lines, "", "standard error of the mean, exact, where everybody holds that one value"]
