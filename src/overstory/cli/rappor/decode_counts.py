"""``overstory decode`` of counts with a label, of reports that an engine counts first, and of exported folders."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import check_pipes, given
from overstory.presentation.document import Lines, Paragraph
from overstory.privacy.text import epsilons_text, plural
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from overstory.analysis.alarms.crafted import Check
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind
    from overstory.engines.places import ExportedSet
    from overstory.files.labels import LabelledCounts
    from overstory.presentation.document import Block
    from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism
    from overstory.protocol.metrics import Metric
    from overstory.queries.sources.exported import ExportedReports


ENGINE_ALONE: Final = ("engine", "workers", "scheduler", "master", "no_verify", "resume", "dry_run")
OTHER_FORMS: Final = (
    *("map", "pair", "boolean", "map2", "reports", "store", "url", "token", "first", "last", "group", "by_group"),
    *("smooth", "per_period", "cumulative", "compare", "compare_groups", "overlap", "delta", "honest", "range"),
)
NAME: Final = "estimates"
"""What the files with the estimates are called, as those of a store."""


def is_labelled_form(args: argparse.Namespace) -> bool:
    """Whether the options name reports, or counts with a label; an error where they are of another form too."""
    from overstory.files.labels import is_labelled

    if args.inputs and args.counts:
        raise ParameterError(f"{args.inputs[0]} and --counts are two sources: give one")
    if not args.inputs and not (args.counts and is_labelled(args.counts)):
        if wrong := given(args, ENGINE_ALONE):
            raise ParameterError(f"{wrong[0]} has no effect unless files of reports are named")
        return False
    if args.inputs and (wrong := given(args, OTHER_FORMS)):
        raise ParameterError(f"{wrong[0]} has no effect on files of reports: `overstory decode --help` shows the forms")
    if not args.inputs and (wrong := given(args, (*OTHER_FORMS, *ENGINE_ALONE, "params"))):
        raise ParameterError(f"{wrong[0]} has no effect on counts with a label")
    return True


@dataclass(frozen=True, eq=False)
class CountedEstimate:
    """The estimate of one collection of reports, and what must be known to read it."""

    mechanism: Mechanism
    estimate: Estimate
    checks: tuple[Check, ...] = ()
    counted: tuple[str, ...] = ()
    about: dict[str, Any] | None = None

    def csv_lines(self) -> Iterable[str]:
        """Return a header and a line per value."""
        from overstory.analysis.tables.output import estimate_lines

        return estimate_lines(self.estimate)

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        """Return the estimates, unless `everything` of detected values alone, and the facts to read them by."""
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

    def blocks(self, written: Path | None, *, everything: bool) -> Iterator[Block]:
        """Return what a person reads."""
        from overstory.analysis.selection import bound_text, interval_words
        from overstory.analysis.tables.output import estimate_table
        from overstory.presentation.formats import finite

        built, estimate = self.mechanism, self.estimate
        rows = estimate.rows(everything=everything)
        yield estimate_table(rows) if rows else Paragraph("nothing was detected")
        epsilons = {name: finite(getattr(built, name)) for name in ("epsilon_report", "epsilon_permanent")}
        yield Lines(
            f"{plural(estimate.num_reports, 'report')} of {built.name}; "
            f"{bound_text(estimate.correction, estimate.alpha)}",
            f"intervals: {interval_words(estimate.interval_kind, estimate.adjustment)}",
            f"privacy: {built.name}, {epsilons_text(epsilons)}",
            *self.counted,
            *(f"note: {note}" for note in estimate.notes),
            *([] if written is None else [f"every value: {written}"]),
        )


def run_labelled(args: argparse.Namespace, show_answer: Callable[..., None]) -> int:
    """Run the command in this form; `show_answer` writes and prints what it finds."""
    from overstory.cli.rappor.engine_runs import check_sources

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
        from overstory.cli.output import draw_estimate

        draw_estimate(args.plot, answer.estimate)
    show_answer(args, answer, NAME, lambda written: answer.blocks(written, everything=args.all))
    return 0


def _of_reports(args: argparse.Namespace, files: Any) -> CountedEstimate:
    """Count the reports by an engine, and estimate."""
    from overstory.cli.rappor.engine_runs import count_units, run_facts, run_sentences

    oracle = _oracle(files.mechanism)
    with count_units(args, files, None) as run:
        answer = _estimated(args, oracle, run.counts, files.job.values())
    return replace(
        answer, counted=tuple(run_sentences(files.engine.name, run)), about={"counting": run_facts(files, run)}
    )


def _of_counts(args: argparse.Namespace) -> CountedEstimate:
    """Read counts with their label, and estimate."""
    from overstory.analysis.support.registry import server_half
    from overstory.cli.rappor.engine_runs import stated_mechanism
    from overstory.files.labels import read_labelled

    labelled: LabelledCounts = read_labelled(args.counts)
    oracle = _oracle(stated_mechanism(args, labelled.label.digest, labelled.label, args.counts))
    expected = server_half(oracle).num_counts(labelled.values or ())
    if labelled.values is None and labelled.counts.ones.size != expected:
        problem = f"{labelled.counts.ones.size:,} counts, but {oracle.name} has {expected:,}: it was altered"
        raise FormatError(problem, source=args.counts)
    return _estimated(args, oracle, labelled.counts, labelled.values)


def _oracle(mechanism: LocalRandomizer) -> Mechanism:
    from overstory.protocol.mechanisms.base import Mechanism

    if not isinstance(mechanism, Mechanism):
        raise ParameterError(
            f"{mechanism.name} does not count single values: its estimates are read from a store, with --store"
        )
    return mechanism


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


OF_NO_FOLDER = ("params", "hash_family", "hash_key", "counts", "map", "boolean", "map2", "reports", "pair", "token")


def is_exported_form(args: argparse.Namespace) -> bool:
    """Whether the inputs are exported folders alone; an error where the options are of another form too."""
    from overstory.engines.places import is_exported

    if not all(map(is_exported, args.inputs)):
        return False
    for name in ("store", "url"):
        if getattr(args, name):
            raise ParameterError(f"--{name} and {args.inputs[0]} are two sources: give one")
    if wrong := given(args, OF_NO_FOLDER):
        raise ParameterError(f"{wrong[0]} has no effect on exported folders: their manifests say what made the reports")
    return True


def run_exported(args: argparse.Namespace, run_metric: Callable[[argparse.Namespace], int]) -> int:
    """Run the command in this form; `run_metric` reads the metric that the options name."""
    if args.metric is None:
        from overstory.queries.sources.exported import only_metric

        args.metric = only_metric(_find(args))
    return _print_exported(args) if args.dry_run else run_metric(args)


@contextmanager
def open_exported(args: argparse.Namespace, metric: Metric) -> Iterator[ExportedReports]:
    """Yield the exported reports; what is finished is kept, where the options name a file, until they are read."""
    from overstory.cli.rappor.engine_runs import counting_jobs, engine_of
    from overstory.queries.sources.exported import ExportedReports

    engine = engine_of(args)
    with counting_jobs(args, engine, is_watched=not metric.mechanism.reads_reports) as count:
        yield ExportedReports(_find(args), count, getattr(engine, "workers", None) or 8, not args.no_verify)


def _find(args: argparse.Namespace) -> list[ExportedSet]:
    from overstory.cli.rappor.engine_runs import check_engine
    from overstory.engines.places import check_once, find_sets

    check_engine(args, args.inputs)
    sets = [one for source in args.inputs for one in find_sets(source)]
    check_once(sets)
    return sets


def _print_exported(args: argparse.Namespace) -> int:
    """Print what would be read."""
    from overstory.cli.rappor.engine_runs import CountedFiles, engine_of, print_expected
    from overstory.protocol.metrics import load_registry
    from overstory.queries.counts import parse_range
    from overstory.queries.sources.exported import job_of

    metric, engine = load_registry(args.registry)[args.metric], engine_of(args)
    first, last = parse_range(metric, args.first, args.last)
    with open_exported(args, metric) as exported:
        periods = [0, *exported.periods(metric.id)]
        files = exported.files(metric, periods[0] if first is None else first, periods[-1] if last is None else last)
    return print_expected(args, CountedFiles(metric.mechanism, engine, job_of(metric), files.places, files.units))
