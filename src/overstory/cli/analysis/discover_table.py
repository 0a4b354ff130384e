"""How a discovery is shown to a person: a table, and what it means in sentences."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from overstory.analysis.selection import INTERVAL_KINDS
from overstory.cli.output import bound_text
from overstory.cli.table import print_line
from overstory.discovery.result_table import cells
from overstory.presentation.streams import printable
from overstory.privacy.text import epsilon_text, plural

if TYPE_CHECKING:
    from overstory.discovery import Discovered, PrefixPlan

COLUMNS = ("value", "count", "std error", "share", "95% interval", "p", "found by")


def show(found: Discovered, plan: PrefixPlan) -> None:
    """Print the detected values and what must be known to read them."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    rows = found.rows()
    if rows:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in COLUMNS:
            table.add_column(name, justify="left" if name in {"value", "found by"} else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in cells(row)))
        console.print(table)
    else:
        console.print("nothing was found")
    for line in ["", *sentences(found, plan)]:
        print_line(console, line)


def sentences(found: Discovered, plan: PrefixPlan) -> list[str]:
    """Return the discovery as a whole in sentences."""
    values = f"{plural(len(found.found()), 'value')} found in {plural(found.num_reports, 'report')}"
    asked = f"each device answered one of {plural(len(plan.groups), 'question')}, once"
    said = [
        f"{values}, out of {found.tried:,} that were tried ({bound_text(found.correction, found.alpha)})",
        f"intervals: {INTERVAL_KINDS[found.interval_kind]}",
        f"privacy: {asked}: epsilon {epsilon_text(found.epsilon)} in all",
    ]
    if found.threshold is not None:
        said.append(f"a value had to reach {found.threshold:.3%} of the reports at the last level")
    return [*said, *found.notes]
