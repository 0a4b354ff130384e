"""Epsilons as a person reads them: a table, and what each one rests on in numbered notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from overstory.privacy.claims import COLUMNS, notes_of, rows_of

if TYPE_CHECKING:
    from rich.console import Console

    from overstory.privacy.claims import Claim


def print_claims(console: Console, claims: Sequence[Claim]) -> None:
    """Print the table and its notes."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in {"epsilon", "odds move"} else "left")
    for row in rows_of(claims):
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()
    for words, number in notes_of(claims).items():
        console.print(Text(f"[{number}] {words}"))
