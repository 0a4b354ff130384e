"""``overstory audit`` and ``check-oracle``: hold a client against its parameters, own oracles against the laws."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from overstory.audit.answers import Declared, OwnClient, Program, declare
from overstory.audit.audit import Settings, audit
from overstory.cli.command import Answer, progress
from overstory.cli.own_files import load_oracles, mechanism_from
from overstory.files.rappor import read_params
from overstory.presentation.document import Block, Column, Paragraph, Table
from overstory.presentation.formats import parameter_words

FAULTY: Final = 1


def run(args: argparse.Namespace) -> Answer:
    settings = Settings(args.reports, alpha=args.alpha, restart=args.restart, own_cohorts=args.own_cohorts)
    metrics = (args.metric or "first", "first" if args.metric == "second" else "second")
    client = Program(args.program, metrics=metrics) if args.program else OwnClient()
    declared = _declared(args)
    with progress("asking", settings.lines(takes_metric=client.takes_metric), quiet=args.quiet) as shown:
        result = audit(declared, client, settings, advance=shown.reach)
    values = {"own_client": not args.program, **result.to_json()}
    own = [] if args.program else [Paragraph("No command is given: this audits the library's own client.")]
    return Answer(values, [*own, *result.blocks()], 0 if result.verdict == "no fault found" else FAULTY)


def _declared(args: argparse.Namespace) -> Declared:
    if args.params:
        return declare(read_params(args.params).mechanism())
    if args.oracle:
        return declare(mechanism_from(args.oracle, args.param))

    from overstory.protocol.metrics import load_registry

    metric = load_registry(args.registry)[args.metric]
    return declare(metric.mechanism, metric=metric)


def check_file(args: argparse.Namespace) -> Answer:
    """Hold the oracles of a user's own file against the laws that every oracle obeys."""
    from overstory.audit.laws import check_laws, small_oracles

    checked = [
        {"oracle": built.name, "parameters": dict(built.parameters), "law": law, "holds": holds, "numbers": numbers}
        for name in load_oracles(args.file)
        for built in small_oracles(name)
        for law, holds, numbers in check_laws(built)
    ]
    holds = all(row["holds"] for row in checked)
    values = {"file": args.file, "holds": holds, "laws": checked}
    return Answer(values, _law_tables(checked), 0 if holds else FAULTY)


def _law_tables(checked: list[dict[str, Any]]) -> Iterator[Block]:
    columns = (
        Column("law", is_left=True),
        Column("holds", "", {True: "holds", False: "BROKEN"}.__getitem__, is_left=True),
        Column("numbers", is_left=True),
    )
    for title, rows in groupby(checked, lambda row: f"{row['oracle']} with {parameter_words(row['parameters'])}"):
        yield Table(title, columns, [*rows])
