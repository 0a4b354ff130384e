"""How a plan is shown: a short table, then sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from overstory.privacy.text import epsilon_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from overstory.planning import Comparison, Plan

EPSILONS_SHOWN = (2, 5, 10)


def show(plan: Plan) -> None:
    """Print the plan."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    table.add_column("this plan", justify="right")
    if plan.comparison:
        table.add_column("the paper's parameters", justify="right")
    for row in rows(plan):
        table.add_row(*row)
    console.print(table)
    console.print()
    console.print(Text(plan.plain_words()))


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Return the rows of the table: a label, the plan's value and, where there is one, the paper's."""
    columns: list[Plan | Comparison] = [plan, *([plan.comparison] if plan.comparison else [])]
    yield ("parameters", *(letters_line(of.parameters) for of in columns))
    yield ("epsilon of one report", *(epsilon_text(of.epsilon_report) for of in columns))
    for n in EPSILONS_SHOWN:
        yield (f"epsilon of {n} reports of one value", *(epsilon_text(of.epsilon_n[n]) for of in columns))
    yield ("epsilon of any number of them", *(epsilon_text(of.epsilon_permanent) for of in columns))
    for n in plan.change_leak:
        yield (f"epsilon of a change in {n} reports", *(epsilon_text(of.change_leak[n]) for of in columns))
    yield ("standard error of a rare count", *(f"{of.standard_error:,.0f}" for of in columns))
    yield ("share detected half the time", *(f"{of.detectable_frequency:.3%}" for of in columns))


def letters_line(parameters: Mapping[str, float]) -> str:
    """Return the six letters on one line."""
    return " ".join(f"{letter}={parameters[letter]:.4g}" for letter in "khmpqf")
