"""``overstory decode`` of counts with a label, and of reports that an engine counts first, of any oracle."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from overstory.cli.arguments import OF_SOURCES
from overstory.cli.output import draw, show_answer
from overstory.cli.rappor.engine_runs import (
    CountedFiles,
    count_units,
    counting_jobs,
    find_units,
    named_metric,
    run_facts,
    run_sentences,
    stated_mechanism,
)
from overstory.presentation.document import Paragraph, Table
from overstory.presentation.formats import plural
from overstory.presentation.result import Result
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from overstory.analysis.alarms.crafted import Check
    from overstory.analysis.estimate import Estimate
    from overstory.cli.analysis.decode import DecodeRequest
    from overstory.files.labels import LabelledCounts
    from overstory.presentation.document import Block
    from overstory.protocol.kinds.base import Kind, Mechanism
    from overstory.protocol.metrics.panel import Panel


@dataclass(frozen=True, eq=False)
class CountedEstimate(Result):
    """The estimate of one collection of reports, and what must be known to read it."""

    name: ClassVar[str] = "estimates"

    mechanism: Mechanism
    estimate: Estimate
    checks: tuple[Check, ...] = ()
    counted: tuple[str, ...] = ()
    about: dict[str, Any] | None = None
    panel: Panel | None = None

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
            "epsilon_permanent": finite(built.epsilon_permanent) if self.panel is None else None,
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
        from overstory.queries.readings import privacy_words

        built, estimate = self.mechanism, self.estimate
        bound = bound_text(estimate.correction, estimate.alpha)
        yield f"{plural(estimate.num_reports, 'report')} of {built.name}; {bound}"
        yield f"intervals: {interval_words(estimate.interval_kind, estimate.adjustment)}"
        yield f"privacy: {built.name}, {privacy_words(built, self.panel)}"
        yield from self.counted

    def all_notes(self) -> Iterable[str]:
        return self.estimate.notes


def run(request: DecodeRequest) -> int:
    """Estimate, and show it."""
    sources = {"--params": request.params, "--registry": request.registry, "--metric": request.metric}
    for rule in OF_SOURCES:
        rule.check([name for name, value in sources.items() if value], argparse.Namespace())
    metric = named_metric(request.registry, request.metric)
    kind = request.options.kind_of_intervals(metric, "total")
    request = replace(request, options=replace(request.options, interval_kind=kind))
    if request.inputs:
        files = find_units(request.counting)
        if files.mechanism.reading == "search":
            return _search(request, files)
        if request.candidates_out:
            problem = f"--candidates-out is of a search: {files.mechanism.name} counts values that are known"
            raise ParameterError(problem)
        answer = _of_reports(request, files)
    else:
        answer = _of_counts(request)
    answer = replace(answer, panel=None if metric is None else metric.panel)
    if request.plot:
        draw(request.plot, [answer.estimate.plot()])
    show_answer(request.printing, answer)
    return 0


def _of_reports(request: DecodeRequest, files: CountedFiles) -> CountedEstimate:
    """Count the reports by an engine, and estimate."""
    oracle = _oracle(files.mechanism)
    run = count_units(request.counting, files.engine, files.job, files.units)
    answer = _estimated(request, oracle, run.counts, files.job.asked, is_counted=False)
    return replace(
        answer, counted=tuple(run_sentences(files.engine.name, run)), about={"counting": run_facts(files, run)}
    )


def _of_counts(request: DecodeRequest) -> CountedEstimate:
    """Read counts with their label, and estimate."""
    from overstory.analysis.kinds.base import server_half
    from overstory.files.labels import read_labelled

    assert request.counts is not None
    labelled: LabelledCounts = read_labelled(request.counts)
    oracle = _oracle(stated_mechanism(request.counting, labelled.label.digest, labelled.label, request.counts))
    expected = server_half(oracle).num_counts(labelled.values or ())
    if labelled.values is None and labelled.counts.ones.size != expected:
        problem = f"{labelled.counts.ones.size:,} counts, but {oracle.name} has {expected:,}: it was altered"
        raise FormatError(problem, source=request.counts)
    return _estimated(request, oracle, labelled.counts, labelled.values, is_counted=True)


def _oracle(mechanism: Kind) -> Mechanism:
    if not mechanism.counts_values:
        raise ParameterError(
            f"{mechanism.name} does not count single values: its estimates are read from a store, with --store"
        )
    return cast("Mechanism", mechanism)


def _estimated(
    request: DecodeRequest, mechanism: Mechanism, counts: Any, values: Sequence[Any] | None, *, is_counted: bool
) -> CountedEstimate:
    """Estimate once, with every choice of the options."""
    from overstory.analysis.alarms.crafted import alarm_notes, check_collection
    from overstory.queries.estimates import estimate_once

    names = _names(request, mechanism, values, is_counted=is_counted)
    if not mechanism.encoding.decoded and (request.options.complete or request.options.method != "gls"):
        raise ParameterError(f"{mechanism.name} is counted by value: --method and --complete are for Bloom filters")
    repeats, options = request.repeats, request.options
    estimate = estimate_once(mechanism, counts, repeats, replace(options, steps=()), names)
    # Sizes and sums are checked where every device reported once, and all that it can hold was counted.
    partly = values is not None and mechanism.domain_size is not None
    checks = () if repeats != 1 or partly else check_collection(mechanism, counts, estimate, labels=names or ())
    notes = alarm_notes(checks)
    if notes:
        estimate = replace(estimate, notes=(*estimate.notes, *notes))
    if options.steps:
        from overstory.analysis.postprocess import postprocess

        estimate = postprocess(estimate, *options.steps)
    return CountedEstimate(mechanism, estimate, checks)


def _names(
    request: DecodeRequest, mechanism: Mechanism, values: Sequence[Any] | None, *, is_counted: bool
) -> list[str] | None:
    """Return the names of what was counted, or the strings to look for; None: the numbers of the domain."""
    metric = named_metric(request.registry, request.metric)
    labels = None if metric is None else metric.labels
    if values is not None:  # counted already, by these
        if is_counted and request.candidates:
            raise ParameterError("--candidates has no effect: the values were chosen when the reports were counted")
        in_domain = mechanism.domain_size is not None and labels and len(labels) == mechanism.domain_size
        return [labels[value] if in_domain and labels else str(value) for value in values]
    if mechanism.domain_size is not None:
        if request.candidates:
            raise ParameterError(f"--candidates has no effect: {mechanism.name} was counted over its domain")
        return list(labels) if labels else None
    if request.candidates:
        from overstory.files.rappor import read_candidates

        return read_candidates(request.candidates)
    if not labels:
        raise ParameterError(f"{mechanism.name} without a domain needs the strings to look for: --candidates FILE")
    return list(labels)


def _search(request: DecodeRequest, files: CountedFiles) -> int:
    """Search answers by an engine: what each level asks is counted by one pass over the files."""
    from overstory.cli.analysis.found import FoundValues, offer_candidates
    from overstory.cli.output import progress
    from overstory.discovery import find
    from overstory.engines.searches import search_answers
    from overstory.queries.searches import check_search

    search: Any = files.mechanism
    options = request.read_options()
    check_search(search.name, "total", options)
    with (
        progress("searching", 1.0, quiet=request.printing.quiet) as bar,
        counting_jobs(request.counting, files.engine, is_watched=False) as count,
    ):
        found = find(
            search.plan,
            search_answers(lambda asked: count(asked, files.units).counts, files.job),
            alpha=options.alpha,
            correction=options.correction,
            interval_kind=options.kind_of_intervals(None, "total"),
            progress=(lambda what, done: bar.reach(done, what)) if bar.is_shown else None,
        )
    found = replace(found, adjustment=options.adjustment, epsilon=search.epsilon)
    if request.plot:
        draw(request.plot, [found.plot()] if found.num_reports else [])
    more = offer_candidates(request.candidates_out, found) if request.candidates_out else []
    show_answer(request.printing, FoundValues(search.plan, found), more)
    return 0
