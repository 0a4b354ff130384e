"""``overstory decode`` of files of reports of any oracle, which an engine counts first."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from overstory.cli.arguments import OF_SOURCES
from overstory.cli.output import draw, show_answer
from overstory.cli.rappor.engine_runs import (
    CountedFiles,
    count_units,
    find_units,
    named_metric,
    run_facts,
    run_sentences,
)
from overstory.presentation.document import Paragraph, Table
from overstory.presentation.formats import plural
from overstory.presentation.result import Result
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overstory.analysis.alarms.crafted import Check
    from overstory.analysis.estimate import Estimate
    from overstory.cli.analysis.decode import DecodeRequest
    from overstory.presentation.document import Block
    from overstory.protocol.kinds.base import Kind, Mechanism
    from overstory.protocol.metrics import Metric
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
    answer = _counted(request, find_units(request.counting), metric)
    if request.plot:
        draw(request.plot, [answer.estimate.plot()])
    show_answer(request.printing, answer)
    return 0


def _counted(request: DecodeRequest, files: CountedFiles, metric: Metric | None) -> CountedEstimate:
    """Count the reports by an engine, and estimate once, with every choice of the options."""
    from overstory.analysis.alarms.crafted import alarm_notes, check_collection
    from overstory.analysis.postprocess import postprocess
    from overstory.queries.estimates import estimate_once

    mechanism, repeats, options = _oracle(files.mechanism), request.repeats, request.options
    is_bloom, names = mechanism.encoding.decoded, _names(request, mechanism, metric)
    if not is_bloom and (options.complete or options.method != "gls"):
        raise ParameterError(f"{mechanism.name} is counted by value: --method and --complete are for Bloom filters")
    run = count_units(request.counting, files.engine, files.job, files.units)
    estimate = estimate_once(mechanism, run.counts, repeats, replace(options, steps=()), names)
    # Sizes and sums are checked where every device reported once.
    checks = () if repeats != 1 else check_collection(mechanism, run.counts, estimate, labels=names or ())
    estimate = replace(estimate, notes=(*estimate.notes, *alarm_notes(checks, decoded=is_bloom)))
    return CountedEstimate(
        mechanism,
        postprocess(estimate, *options.steps) if options.steps else estimate,
        checks,
        counted=tuple(run_sentences(files.engine.name, run)),
        about={"counting": run_facts(files, run)},
        panel=None if metric is None else metric.panel,
    )


def _oracle(mechanism: Kind) -> Mechanism:
    if not mechanism.counts_values:
        raise ParameterError(
            f"{mechanism.name} does not count single values: it is read from a store, with --store, or from a folder "
            "that `overstory export` wrote"
        )
    return cast("Mechanism", mechanism)


def _names(request: DecodeRequest, mechanism: Mechanism, metric: Metric | None) -> list[str] | None:
    """Return the names of the domain's values, or the strings to look for; None: the numbers of the domain."""
    labels = None if metric is None else metric.labels
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
