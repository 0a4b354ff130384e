"""``overstory decode --pair``: the table of two variables, from files of RAPPOR's public tools."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import check_pipes, read_mechanism
from overstory.cli.progress import reading_bar
from overstory.presentation.document import Column, Lines
from overstory.privacy.text import epsilons_text
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

    from overstory.analysis.association.summary import TableSummary
    from overstory.analysis.association.table import TableEstimate
    from overstory.analysis.decoding import CandidateMap
    from overstory.files.rappor import PairForm, RapporParameters
    from overstory.presentation.document import Block
    from overstory.protocol.mechanisms.payloads import BitMechanism

BOOLEAN = ("true", "false")


@dataclass(frozen=True)
class PairAnswer:
    """The table with what its reports cost."""

    summary: TableSummary
    privacy: dict[str, Any]

    def csv_lines(self) -> Iterable[str]:
        """Return a header and a line per cell."""
        from overstory.analysis.association.summary import ROW
        from overstory.presentation.render_data import csv_lines

        columns = [Column(name) for name in ROW]
        return csv_lines(columns, ([row[name] for name in ROW] for row in self.summary.rows()))

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        """Return the same, and the facts to read it by."""
        return {**self.summary.to_json(), **self.privacy}

    def blocks(self, written: Path | None) -> Iterator[Block]:
        """Return what a person reads."""
        yield from self.summary.blocks()
        notes = [f"note: {note}" for note in self.summary.table.notes]
        file = [] if written is None else [f"every cell: {written}"]
        yield Lines(f"privacy of both variables together: {epsilons_text(self.privacy)}", *notes, *file)


def run_pairs(args: argparse.Namespace, show: Callable[..., None]) -> int:
    """Run the command in its third form."""
    _check(args)
    check_pipes(args, "params", "counts" if args.counts else "reports", "map")
    from overstory.analysis.association.summary import TableSummary
    from overstory.files.rappor import pair_form

    parameters, mechanism = read_mechanism(args)
    form = pair_form(parameters, args.pair, args.boolean)
    maps = _maps(args, parameters, form)
    learn = _likeliest if args.method == "likelihood" else _from_counts
    table = learn(args, form, mechanism, maps)
    answer = PairAnswer(TableSummary(table, alpha=args.alpha), _privacy(mechanism, form))
    show(args, answer, "table", answer.blocks)
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.store or args.url:
        raise ParameterError("--pair names the variables of files: a store's metric knows its own")
    whole = args.method == "likelihood"
    source, other = ("reports", "counts") if whole else ("counts", "reports")
    if getattr(args, other):
        raise ParameterError(f"--{other} has no effect with --method {args.method}: give --{source}")
    needed = ["params", source, "map", *([] if args.boolean else ["map2"])]
    missing = [f"--{name}" for name in needed if not getattr(args, name)]
    if missing:
        raise ParameterError(f"--pair needs {', '.join(missing)}")
    if args.boolean and args.map2:
        raise ParameterError("--map2 has no effect with --boolean: one variable is a string, and --map is its map")
    if args.method == "lasso" or args.plot:
        raise ParameterError(f"{'--plot' if args.plot else '--method lasso'} does not apply to --pair")


def _maps(args: argparse.Namespace, parameters: RapporParameters, form: PairForm) -> list[CandidateMap | None]:
    from overstory.files.candidates import read_map

    paths = iter((args.map, args.map2))
    shape: dict[str, Any] = {"num_bits": parameters.k, "num_hashes": parameters.h, "num_cohorts": parameters.m}
    return [None if name == args.boolean else read_map(next(paths), **shape) for name in form.names]


def _labels(
    args: argparse.Namespace, maps: list[CandidateMap | None]
) -> tuple[list[tuple[str, ...]], list[int | None]]:
    """Return each variable's values, and which of them stands for strings outside the list."""
    from overstory.analysis.association.linked_filters import outside_name

    named = [BOOLEAN if each is None else tuple(map(str, each.candidates)) for each in maps]
    open_lists = [each is not None and not args.complete for each in maps]
    labels = [
        (*values, outside_name(values)) if is_open else values
        for values, is_open in zip(named, open_lists, strict=True)
    ]
    return labels, [len(values) - 1 if is_open else None for values, is_open in zip(labels, open_lists, strict=True)]


def _from_counts(
    args: argparse.Namespace, form: PairForm, mechanism: BitMechanism, maps: list[CandidateMap | None]
) -> TableEstimate:
    from overstory.analysis.association.linked import boolean_variable, filter_variable
    from overstory.analysis.association.linked_filters import table_of_variables
    from overstory.analysis.support.linked import apart
    from overstory.files.rappor import read_pair_counts

    counts = apart(read_pair_counts(args.counts, form), *form.widths)
    each = 1.0 if args.reports_per_device is None else args.reports_per_device
    variables = [
        boolean_variable(mechanism, supported, counts.totals, each)
        if given is None
        else filter_variable(mechanism, given, supported, counts.totals, each, complete=args.complete)
        for given, supported in zip(maps, (counts.first, counts.second), strict=True)
    ]
    labels, others = _labels(args, maps)
    return table_of_variables(
        (variables[0], variables[1]),
        counts,
        form.names,
        (labels[0], labels[1]),
        other=(others[0], others[1]),
        reports_per_device=each,
        interval_kind=args.interval or "population",
    )


def _likeliest(
    args: argparse.Namespace, form: PairForm, mechanism: BitMechanism, maps: list[CandidateMap | None]
) -> TableEstimate:
    """Read all reports, and maximize their likelihood."""
    import numpy as np

    from overstory.analysis.association.linked_filters import filter_likelihoods, table_of_likelihoods
    from overstory.analysis.reports import unpack_bits
    from overstory.files.rappor import read_pairs

    if args.reports_per_device not in (None, 1.0):
        raise ParameterError(
            "--reports-per-device does not apply to --method likelihood: it takes reports as independent"
        )
    with reading_bar(args, "reading", [args.reports]) as advance:
        batches = list(read_pairs(args.reports, form, advance=advance))
    if not batches:
        raise ParameterError(f"{args.reports}: there are no reports")
    bits = np.concatenate([unpack_bits(batch.bits)[:, : form.num_bits] for batch in batches]).astype(np.float64)
    cohorts = np.concatenate([batch.cohorts for batch in batches])
    p, q = float(mechanism.p_star), float(mechanism.q_star)
    likely = []
    for given, part in zip(maps, np.split(bits, [form.widths[0]], axis=1), strict=True):
        if given is None:
            likely.append(np.where(part > 0, (p, q), (1 - p, 1 - q)))
        else:
            likely.append(filter_likelihoods(part, cohorts, given, (p, q), complete=args.complete))
    labels, others = _labels(args, maps)
    return table_of_likelihoods(
        (likely[0], likely[1]),
        form.names,
        (labels[0], labels[1]),
        other=(others[0], others[1]),
        interval_kind=args.interval or "population",
    )


def _privacy(mechanism: BitMechanism, form: PairForm) -> dict[str, Any]:
    """Return the epsilons of both variables together: the sums of theirs."""
    from overstory.presentation.formats import finite
    from overstory.privacy.terms import add_up

    rounds, one_bit = mechanism.rounds, ((1, 0), (0, 1))
    reports, permanents = [], []
    for width in form.widths:
        is_boolean = width == 1
        reports.append(rounds.epsilon(one_bit) if is_boolean else mechanism.epsilon_report)
        permanents.append(rounds.epsilon_permanent(one_bit) if is_boolean else mechanism.epsilon_permanent)
    return {
        "epsilon_report": finite(add_up((1, epsilon) for epsilon in reports)),
        "epsilon_permanent": finite(add_up((1, epsilon) for epsilon in permanents)),
    }
