"""``overstory audit`` and ``check-oracle``: hold a client against its parameters, own oracles against the laws."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.decoding.candidates import CandidateMap
from overstory.audit.answers import OwnClient, Program, declare
from overstory.audit.audit import Settings, audit
from overstory.cli.output import Answer, progress
from overstory.cli.own_files import load_oracles, mechanism_from
from overstory.files.rappor import read_map, read_params
from overstory.presentation.document import Block, Column, Paragraph, Table
from overstory.presentation.formats import parameter_words
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

FAULTY: Final = 1


def run(args: argparse.Namespace) -> Answer:
    settings = Settings(args.reports, alpha=args.alpha, restart=args.restart, own_cohorts=args.own_cohorts)
    metrics = (args.metric or "first", "first" if args.metric == "second" else "second")
    client = Program(args.program, metrics=metrics) if args.program else OwnClient()
    mechanism, metric = _mechanism(args)
    declared = declare(mechanism, metric=metric, candidates=_map(args, mechanism) if args.map else None)
    with progress("asking", settings.lines(takes_metric=client.takes_metric), quiet=args.quiet) as shown:
        result = audit(declared, client, settings, advance=shown.reach)
    values = {"own_client": not args.program, **result.to_json()}
    own = [] if args.program else [Paragraph("No command is given: this audits the library's own client.")]
    return Answer(values, [*own, *result.blocks()], 0 if result.verdict == "no fault found" else FAULTY)


def _mechanism(args: argparse.Namespace) -> tuple[Kind, Metric | None]:
    if args.params:
        return read_params(args.params).mechanism(), None
    if args.oracle:
        return mechanism_from(args.oracle, args.param), None

    from overstory.protocol.metrics import load_registry

    metric = load_registry(args.registry)[args.metric]
    return metric.mechanism, metric


def _map(args: argparse.Namespace, mechanism: Any) -> CandidateMap:
    encoding = mechanism.encoding
    if not encoding.decoded:
        raise ParameterError(f"--map is for RAPPOR's filters: {mechanism.name} hashes no strings into bits")
    sizes = {"num_bits": encoding.num_bits, "num_hashes": encoding.num_hashes, "num_cohorts": encoding.num_cohorts}
    return read_map(args.map, **sizes)


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
    by_oracle: dict[str, list[dict[str, Any]]] = {}
    for row in checked:
        by_oracle.setdefault(f"{row['oracle']} with {parameter_words(row['parameters'])}", []).append(row)
    for title, rows in by_oracle.items():
        yield Table(title, columns, rows)
