"""How a decoding is shown: a table with intervals for a person."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from overstory.analysis.selection import INTERVAL_KINDS
from overstory.cli.table import print_line
from overstory.files.rappor import epsilon_text
from overstory.presentation.streams import printable

COLUMNS = ("value", "count", "95% interval", "share", "95% interval", "p", "")


def show(rows: list[dict[str, Any]], about: dict[str, Any], results: str | None) -> None:
    """Print the rows and what must be known to read them."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    if rows:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in COLUMNS:
            table.add_column(name, justify="left" if name in {"value", ""} else "right", overflow="fold")
        for row in rows:
            table.add_row(*cells(row), style=None if row["detected"] else "dim")
        console.print(table)
    else:
        console.print("nothing was detected")
    closing = [] if results is None else [f"every candidate: {results}"]
    for line in (*summary(about), *(f"note: {note}" for note in about["notes"]), *closing):
        print_line(console, line)


def summary(about: dict[str, Any]) -> list[str]:
    """Return the decoding as a whole in sentences."""
    found = f"{about['detected']:,} of {about['candidates']:,} candidates detected in {about['reports']:,} reports "
    mass = f"{about['allocated_mass']:.1%} of the reports allocated to candidates; "
    one, ever = epsilon_text(about["epsilon_report"]), epsilon_text(about["epsilon_permanent"])
    return [
        "",
        f"{found}({bound_text(about['correction'], about['alpha'])})",
        mass + f"goodness of fit {about['residual_dispersion']:.2f} (1 = as expected); method {about['method']}",
        f"intervals: {INTERVAL_KINDS[about['interval']]}",
        f"privacy: epsilon {one} for one report, {ever} for any number of reports of one value",
    ]


def bound_text(correction: str, alpha: float) -> str:
    """Return what a level bounds.

    Examples
    --------
    >>> bound_text("fdr", 0.05), bound_text("bonferroni", 0.01)
    ('false discovery rate at most 5%', 'chance of any false detection at most 1%')
    """
    bounded = {"fdr": "false discovery rate", "bonferroni": "chance of any false detection"}
    return f"{bounded[correction]} at most {100 * alpha:.3g}%"


def cells(row: dict[str, Any]) -> tuple[Text, ...]:
    """Return a row of `Estimate.rows` as the cells of `COLUMNS`."""
    unknown = row["low"] is None
    texts = (
        printable(row["value"]),
        f"{row['count']:,.0f}",
        "unknown" if unknown else f"{row['low']:,.0f} .. {row['high']:,.0f}",
        f"{row['frequency']:.2%}",
        "unknown" if unknown else f"{row['frequency_low']:.2%} .. {row['frequency_high']:.2%}",
        f"{row['p_value']:.1e}",
        "detected" if row["detected"] else "not detected",
    )
    return tuple(Text(text) for text in texts)
