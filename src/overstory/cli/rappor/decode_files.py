"""``overstory decode`` of counts with a label, of reports that an engine counts first, and of two variables' files."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from overstory.cli.arguments import check_pipes, check_sources, read_mechanism
from overstory.cli.output import draw, show_answer
from overstory.cli.progress import reading_bar
from overstory.presentation.document import Column, Paragraph, Table
from overstory.presentation.formats import epsilons_text, plural
from overstory.presentation.result import Result
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from overstory.analysis.alarms.crafted import Check
    from overstory.analysis.association.summary import TableSummary
    from overstory.analysis.association.table import TableEstimate
    from overstory.analysis.decoding import CandidateMap
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind
    from overstory.files.labels import LabelledCounts
    from overstory.files.rappor import PairForm, RapporParameters
    from overstory.presentation.document import Block
    from overstory.protocol.kinds.base import Kind, Mechanism
    from overstory.protocol.kinds.bits import BitMechanism


@dataclass(frozen=True, eq=False)
class CountedEstimate(Result):
    """The estimate of one collection of reports, and what must be known to read it."""

    name: ClassVar[str] = "estimates"

    mechanism: Mechanism
    estimate: Estimate
    checks: tuple[Check, ...] = ()
    counted: tuple[str, ...] = ()
    about: dict[str, Any] | None = None

    def as_table(self) -> Table:
        from overstory.analysis.tables.output import file_columns, records

        return Table.of_records(file_columns(adjustment=self.estimate.adjustment), records(self.estimate))

    def csv_lines(self) -> Iterable[str]:
        from overstory.analysis.tables.output import estimate_lines

        return estimate_lines(self.estimate)

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        from overstory.presentation.formats import finite

        built, estimate = self.mechanism, self.estimate
        facts = {
            "oracle": built.name,
            "digest": built.digest.hex(),
            "epsilon_report": finite(built.epsilon_report),
            "epsilon_permanent": finite(built.epsilon_permanent),
            "reports_per_device": estimate.reports_per_device,
        }
        checks = [check.to_json() for check in self.checks]
        learned = {key: finite(value) for key, value in estimate.to_json(everything=everything).items()}
        return {**(self.about or {}), **facts, "checks": checks, **learned}

    def shown(self, *, everything: bool) -> Iterator[Block]:
        from overstory.analysis.tables.output import estimate_table

        rows = self.estimate.rows(everything=everything)
        yield estimate_table(rows) if rows else Paragraph("nothing was detected")

    def sentences(self) -> Iterator[str]:
        from overstory.analysis.selection import bound_text, interval_words
        from overstory.presentation.formats import finite

        built, estimate = self.mechanism, self.estimate
        bound = bound_text(estimate.correction, estimate.alpha)
        epsilons = {name: finite(getattr(built, name)) for name in ("epsilon_report", "epsilon_permanent")}
        yield f"{plural(estimate.num_reports, 'report')} of {built.name}; {bound}"
        yield f"intervals: {interval_words(estimate.interval_kind, estimate.adjustment)}"
        yield f"privacy: {built.name}, {epsilons_text(epsilons)}"
        yield from self.counted

    def all_notes(self) -> Iterable[str]:
        return self.estimate.notes


def run_labelled(args: argparse.Namespace) -> int:
    """Run the command in this form."""
    check_sources(args)
    check_pipes(args)
    if args.inputs:
        from overstory.cli.rappor.engine_runs import find_units, print_expected

        files = find_units(args, args.inputs)
        if args.dry_run:
            return print_expected(args, files)
        answer = _of_reports(args, files)
    else:
        answer = _of_counts(args)
    if args.plot:
        draw(args.plot, [answer.estimate.plot()])
    show_answer(args, answer)
    return 0


def _of_reports(args: argparse.Namespace, files: Any) -> CountedEstimate:
    """Count the reports by an engine, and estimate."""
    from overstory.cli.rappor.engine_runs import count_units, run_facts, run_sentences

    oracle = _oracle(files.mechanism)
    with count_units(args, files, None) as run:
        answer = _estimated(args, oracle, run.counts, files.job.asked)
    return replace(
        answer, counted=tuple(run_sentences(files.engine.name, run)), about={"counting": run_facts(files, run)}
    )


def _of_counts(args: argparse.Namespace) -> CountedEstimate:
    """Read counts with their label, and estimate."""
    from overstory.analysis.kinds.base import server_half
    from overstory.cli.rappor.engine_runs import stated_mechanism
    from overstory.files.labels import read_labelled

    labelled: LabelledCounts = read_labelled(args.counts)
    oracle = _oracle(stated_mechanism(args, labelled.label.digest, labelled.label, args.counts))
    expected = server_half(oracle).num_counts(labelled.values or ())
    if labelled.values is None and labelled.counts.ones.size != expected:
        problem = f"{labelled.counts.ones.size:,} counts, but {oracle.name} has {expected:,}: it was altered"
        raise FormatError(problem, source=args.counts)
    return _estimated(args, oracle, labelled.counts, labelled.values)


def _oracle(mechanism: Kind) -> Mechanism:
    if not mechanism.counts_values:
        raise ParameterError(
            f"{mechanism.name} does not count single values: its estimates are read from a store, with --store"
        )
    return cast("Mechanism", mechanism)


def _estimated(
    args: argparse.Namespace, mechanism: Mechanism, counts: Any, values: Sequence[Any] | None
) -> CountedEstimate:
    """Estimate once, with every choice of the options."""
    from overstory.analysis.alarms.crafted import alarm_notes, check_collection
    from overstory.analysis.oracle import FrequencyOracle
    from overstory.analysis.postprocess.steps import postprocess

    names = _names(args, mechanism, values)
    choices: dict[str, Any] = {"alpha": args.alpha, "correction": args.correction}
    repeats = 1.0 if args.reports_per_device is None else args.reports_per_device
    oracle = FrequencyOracle(mechanism)
    kind: IntervalKind = args.interval or "reports"
    if mechanism.encoding.decoded:
        choices |= {"method": args.method, "complete": args.complete}
        estimate = oracle.estimate(counts, names, reports_per_device=repeats, interval_kind=kind, **choices)
    else:
        if args.complete or args.method != "gls":
            raise ParameterError(f"{mechanism.name} is counted by value: --method and --complete are for Bloom filters")
        estimate = oracle.estimate(counts, names, reports_per_device=repeats, interval_kind=kind)
        estimate = replace(estimate, **choices)
    estimate = replace(estimate, adjustment=args.adjustment)
    # Sizes and sums are checked where every device reported once, and all that it can hold was counted.
    partly = values is not None and mechanism.domain_size is not None
    checks = () if repeats != 1 or partly else check_collection(mechanism, counts, estimate, labels=names or ())
    notes = alarm_notes(checks, decoded=mechanism.encoding.decoded)
    if notes:
        estimate = replace(estimate, notes=(*estimate.notes, *notes))
    steps = tuple(name.strip() for name in (args.steps or "").split(",") if name.strip())
    return CountedEstimate(mechanism, postprocess(estimate, *steps) if steps else estimate, checks)


def _names(args: argparse.Namespace, mechanism: Mechanism, values: Sequence[Any] | None) -> list[str] | None:
    """Return the names of what was counted, or the strings to look for; None: the numbers of the domain."""
    from overstory.cli.rappor.engine_runs import metric_labels

    labels = metric_labels(args)
    if values is not None:  # counted already, by these
        if not args.inputs and args.candidates:
            raise ParameterError("--candidates has no effect: the values were chosen when the reports were counted")
        in_domain = mechanism.domain_size is not None and labels and len(labels) == mechanism.domain_size
        return [labels[value] if in_domain and labels else str(value) for value in values]
    if mechanism.domain_size is not None:
        if args.candidates:
            raise ParameterError(f"--candidates has no effect: {mechanism.name} was counted over its domain")
        return list(labels) if labels else None
    if args.candidates:
        from overstory.files.rappor import read_candidates

        return read_candidates(args.candidates)
    if not labels:
        raise ParameterError(f"{mechanism.name} without a domain needs the strings to look for: --candidates FILE")
    return list(labels)


BOOLEAN = ("true", "false")


@dataclass(frozen=True)
class PairAnswer(Result):
    """The table with what its reports cost."""

    name: ClassVar[str] = "table"
    every: ClassVar[str] = "cell"

    summary: TableSummary
    privacy: dict[str, Any]

    def as_table(self) -> Table:
        from overstory.analysis.association.summary import ROW

        return Table("", tuple(map(Column, ROW)), list(self.summary.rows()))

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        return {**self.summary.to_json(), **self.privacy}

    def shown(self, *, everything: bool) -> Iterable[Block]:  # noqa: ARG002 - all of it is shown
        return self.summary.blocks()

    def sentences(self) -> Iterable[str]:
        return (f"privacy of both variables together: {epsilons_text(self.privacy)}",)

    def all_notes(self) -> Iterable[str]:
        return self.summary.table.notes


def run_pairs(args: argparse.Namespace) -> int:
    """Read the table of two variables, from files of RAPPOR's public tools."""
    _check(args)
    check_pipes(args, "params", "counts" if args.counts else "reports", "map")
    from overstory.analysis.association.summary import TableSummary
    from overstory.files.rappor import pair_form

    parameters, mechanism = read_mechanism(args)
    form = pair_form(parameters, args.pair, args.boolean)
    maps = _maps(args, parameters, form)
    learn = _likeliest if args.method == "likelihood" else _from_counts
    table = learn(args, form, mechanism, maps)
    show_answer(args, PairAnswer(TableSummary(table, alpha=args.alpha), _privacy(mechanism, form)))
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
    from overstory.files.rappor import read_map

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
    from overstory.analysis.kinds.linked import apart
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
