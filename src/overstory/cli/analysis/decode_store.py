"""``overstory decode --store`` and ``--url``: estimates of a registry's metric, from where its reports are stored."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from overstory.cli.arguments import check_pipes, token_of_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from overstory.presentation.document import Block
    from overstory.protocol.metrics import Metric
    from overstory.queries.counts import PeriodCounts
    from overstory.queries.estimates import Aggregation, EstimateOptions, EstimateSeries


def run_store(args: argparse.Namespace) -> int:
    """Run the command in its second form."""
    from overstory.queries.estimates import read_estimates

    metric = read_metric(args)
    kind: Aggregation = "per-period" if args.per_period else "cumulative" if args.cumulative else "total"
    check_pipes(args)
    series = read_estimates(read_counts(args, metric, (args.first, args.last)), kind, read_options(args))
    if args.plot:
        _draw(args.plot, series)
    show_answer(args, series, "estimates", lambda written: series_blocks(series, written, everything=args.all))
    return 0


class Answer(Protocol):
    """What a decoding answers with: lines of CSV, and JSON values."""

    def csv_lines(self) -> Iterable[str]:
        """Return a header and a line per value."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the same, and the facts to read it by."""
        ...


def show_answer(
    args: argparse.Namespace, answer: Answer, name: str, blocks: Callable[[Path | None], Iterable[Block]]
) -> None:
    """Write an answer to the files that the options ask for, and print it as JSON or as blocks that name the file."""
    if args.output == "-":
        from overstory.files.io import writing_csv

        with writing_csv(args.output, spreadsheet=args.spreadsheet) as text:
            text.writelines(answer.csv_lines())
        return
    written = _write(Path(args.output), answer, name, spreadsheet=args.spreadsheet) if args.output else None
    if args.json:
        print(json.dumps(answer.to_json(), indent=2, allow_nan=False))
    else:
        from overstory.presentation.render_text import print_document

        print_document(blocks(None if args.quiet else written))


def read_metric(args: argparse.Namespace) -> Metric:
    """Return the metric that the options name, of the registry's file or of the collector's."""
    if args.registry:
        from overstory.protocol.metrics import load_registry

        return load_registry(args.registry)[args.metric]
    from overstory.queries.remote import read_remote_metric

    metric = read_remote_metric(args.url, args.metric)
    if args.candidates:
        from overstory.files.candidates import read_candidates

        return replace(metric, candidates=tuple(read_candidates(args.candidates)))
    return metric


def read_counts(args: argparse.Namespace, metric: Metric, labels: tuple[str | None, str | None]) -> PeriodCounts:
    """Return the counts of a range of the store or of the collector that the options name."""
    from overstory.queries.counts import parse_range, read_store

    first, last = parse_range(metric, *labels)
    if args.url:
        from overstory.queries.remote import read_remote

        token = args.token if args.token is not None else token_of_environment("ADMIN")
        return read_remote(args.url, token, metric, first, last)
    from overstory.collector.store import open_store

    with open_store(args.store) as store:
        return read_store(store, metric, first, last)


def read_options(args: argparse.Namespace) -> EstimateOptions:
    """Return the options of an estimate."""
    from overstory.queries.estimates import EstimateOptions

    candidates = None
    if args.candidates:
        from overstory.files.candidates import read_candidates

        candidates = tuple(read_candidates(args.candidates))
    steps = tuple(name.strip() for name in (args.steps or "").split(",") if name.strip())
    selecting = args.alpha, args.correction, args.method, args.complete
    return EstimateOptions(args.reports_per_device, candidates, *selecting, steps, args.interval)


def _write(folder: Path, answer: Answer, name: str, *, spreadsheet: bool) -> Path:
    """Write NAME.csv (every value) and NAME.json (the same, and the facts to read it by)."""
    from overstory.files.io import writing_csv, writing_text

    folder.mkdir(parents=True, exist_ok=True)
    with writing_csv(folder / f"{name}.csv", spreadsheet=spreadsheet) as text:
        text.writelines(answer.csv_lines())
    with writing_text(folder / f"{name}.json") as text:
        json.dump(answer.to_json(), text, indent=2, allow_nan=False)
        text.write("\n")
    return folder / f"{name}.csv"


MOST_PANELS = 12
"""Periods in one picture."""


def _draw(path: str, series: EstimateSeries) -> None:
    """Draw a panel for each of the last ranges, in the style of all estimates."""
    from overstory.analysis.tables.output import plot_height
    from overstory.cli.output import picture
    from overstory.protocol.errors import ParameterError

    parts = series.parts[-MOST_PANELS:]
    if not parts:
        raise ParameterError(f"--plot {path}: there are no reports to draw")
    heights = [plot_height(part.estimate) for part in parts]
    with picture(path, height=sum(heights)) as figure:
        panels = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, panel in zip(parts, panels, strict=True):
            part.estimate.plot(panel)
            first, last = series.counted.label(part.first), series.counted.label(part.last)
            panel.set_title(
                f"{first if first == last else f'{first} to {last}'}: {panel.get_title('left')}", loc="left"
            )
        if len(parts) < len(series.parts):
            figure.suptitle(
                f"{len(parts)} of {len(series.parts)} ranges shown, the last", fontsize=9, x=0.01, ha="left"
            )


def series_blocks(series: EstimateSeries, written: Path | None, *, everything: bool) -> Iterator[Block]:
    """Return the estimates as one table, and the facts to read it by."""
    from overstory.analysis.tables.output import estimate_table
    from overstory.cli.output import chosen_rows
    from overstory.presentation.document import Column, Lines, Paragraph

    rows, empty = [], []
    for part in series.parts:
        label = str(series.counted.label(part.last))
        chosen = chosen_rows(part.estimate, everything=everything)
        rows += [{"period": label, **row} for row in chosen]
        empty += [] if chosen else [label]
    if rows:
        yield estimate_table(rows, first=() if series.kind == "total" else (Column("period", is_left=True),))
    if empty:
        yield Paragraph("nothing was detected" + ("" if series.kind == "total" else f" in {', '.join(empty)}"))
    yield Lines(*summary(series), *_notes(series), *([] if written is None else [f"every value: {written}"]))


def summary(series: EstimateSeries) -> list[str]:
    """Return what was read, how, and what it costs, in sentences."""
    from overstory.analysis.selection import INTERVAL_KINDS
    from overstory.cli.output import bound_text, privacy_text
    from overstory.privacy.text import plural

    figures, metric = series.summary(), series.metric
    between = f" between {figures['from']} and {figures['to']}" if figures["from"] else ""
    if not series.parts:
        return [f"no reports of {metric.id}{between}"]
    kinds = {"total": "over all of them", "per-period": "each period alone", "cumulative": "over all reports so far"}
    method = f"estimated {kinds[series.kind]}; {bound_text(series.options.correction, series.options.alpha)}"
    periods = plural(figures["periods_with_reports"], "period")
    return [
        f"{plural(figures['reports'], 'report')} of {metric.id} in {periods}{between}; {method}",
        f"intervals: {INTERVAL_KINDS[series.interval_kind]}",
        f"privacy: {metric.mechanism.name}, {privacy_text(figures)}",
    ]


MOST_NOTES: Final = 12


def _notes(series: EstimateSeries) -> list[str]:
    """Return the notes of the series, and those of its estimates, each once."""
    from overstory.queries.estimates import NO_REPORTS

    own_notes = series.notes if series.parts else [note for note in series.notes if note != NO_REPORTS]
    notes = (*own_notes, *(note for part in series.parts for note in part.estimate.notes))
    shown = list(dict.fromkeys(notes))
    lines = shown if len(shown) <= MOST_NOTES else [*shown[:MOST_NOTES], f"{len(shown) - MOST_NOTES} more: see --json"]
    return [f"note: {note}" for note in lines]
