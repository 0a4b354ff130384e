"""``overstory check-oracle FILE``: hold the oracles of a user's own file against the laws that every oracle obeys."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from overstory.audit.laws import check_laws, small_oracles
from overstory.cli.arguments import print_answer
from overstory.cli.own_files import load_oracles
from overstory.presentation.document import Block, Column, Table
from overstory.presentation.formats import parameter_words

BROKEN = 1


def run(args: argparse.Namespace) -> int:
    names = load_oracles(args.file)
    checked = [
        {"oracle": built.name, "parameters": dict(built.parameters), "law": law, "holds": holds, "numbers": numbers}
        for name in names
        for built in small_oracles(name)
        for law, holds, numbers in check_laws(built)
    ]
    holds = all(row["holds"] for row in checked)
    print_answer(args, {"file": args.file, "holds": holds, "laws": checked}, _blocks(checked))
    return 0 if holds else BROKEN


def _blocks(checked: list[dict[str, Any]]) -> Iterator[Block]:
    columns = (
        Column("law", is_left=True),
        Column("holds", "", {True: "holds", False: "BROKEN"}.__getitem__, is_left=True),
        Column("numbers", is_left=True),
    )
    for title in dict.fromkeys(map(_title, checked)):
        yield Table(title, columns, [row for row in checked if _title(row) == title])


def _title(row: dict[str, Any]) -> str:
    return f"{row['oracle']} with {parameter_words(row['parameters'])}"
