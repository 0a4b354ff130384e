"""``overstory decode``: the options become one request, which the module of its form answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.alarms.crafted import alarm_notes, check_collection
from overstory.analysis.decoding import decode
from overstory.analysis.selection import bound_text, interval_words
from overstory.analysis.tables.output import estimate_table
from overstory.cli.arguments import check_pipes
from overstory.cli.output import Printing, draw, is_table, reading_bar, write_tables
from overstory.files.io import writing_csv
from overstory.files.rappor import metrics, read_candidates, read_counts, read_map, read_params, write_results
from overstory.presentation.document import Lines, Paragraph
from overstory.presentation.formats import epsilons_text, plural
from overstory.presentation.render_text import print_document
from overstory.queries.readings import Aggregation, EstimateOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overstory.presentation.document import Block

FORMS: Final = {
    "on exported folders": "analysis.decode_store",
    "with --store": "analysis.decode_store",
}
"""The module that answers the requests of a form, by its `run(request)`; the last form is answered here."""


AS_SAID: Final = (
    *("params", "counts", "map", "registry", "metric", "engine", "group", "by_group", "aggregate"),
    *("candidates", "plot", "candidates_out", "store"),
)
"""Options that are taken into the request as they are."""


@dataclass(frozen=True)
class DecodeRequest:
    """What is to be estimated, of which source, and where it goes: all that the options say."""

    inputs: tuple[str, ...]
    params: str | None
    counts: str | None
    map: str | None
    store: str | None
    registry: str | None
    metric: str | None
    engine: str | None
    periods: tuple[str | None, str | None]
    group: str | None
    by_group: bool
    aggregate: Aggregation
    compare: tuple[str, str] | None
    candidates: str | None
    options: EstimateOptions  # without the candidates, which are still in their file
    plot: str | None
    candidates_out: str | None
    printing: Printing

    @property
    def repeats(self) -> float:
        """The reports of one device in the files of RAPPOR's tools."""
        return 1.0 if self.options.reports_per_device is None else self.options.reports_per_device

    def read_options(self) -> EstimateOptions:
        """Return the options of an estimate, with the candidates that a file has."""
        if not self.candidates:
            return self.options
        return replace(self.options, candidates=tuple(read_candidates(self.candidates)))


def run(args: argparse.Namespace) -> int:
    check_pipes(args, "params", "counts", "map", "inputs")
    request = _request(args)
    if args.form not in FORMS:
        return _run_map(request)
    answer: Callable[[DecodeRequest], int] = import_module(f"overstory.cli.{FORMS[args.form]}").run
    return answer(request)


def _request(args: argparse.Namespace) -> DecodeRequest:
    """Return the request that the options make."""
    said: dict[str, Any] = {name: getattr(args, name) for name in AS_SAID}
    said["inputs"] = tuple(args.inputs)
    return DecodeRequest(
        **said,
        compare=None if args.compare is None else (args.compare[0], args.compare[1]),
        periods=(args.first, args.last),
        options=EstimateOptions(
            reports_per_device=args.reports_per_device,
            alpha=args.alpha,
            correction=args.correction,
            method=args.method,
            complete=args.complete,
            steps=tuple(name.strip() for name in (args.steps or "").split(",") if name.strip()),
            interval_kind=args.interval,
            ranges=tuple(args.range or ()),
            pool=args.pool or 1,
        ),
        printing=Printing.of(args),
    )


def _run_map(request: DecodeRequest) -> int:
    """Answer by counts and a candidate map, the files of RAPPOR's public tools."""
    assert request.params is not None
    assert request.counts is not None
    assert request.map is not None
    printing, notes = request.printing, list[str]()
    parameters = read_params(request.params)
    mechanism, shape = parameters.mechanism(), {"num_bits": parameters.k, "num_cohorts": parameters.m}
    counts = read_counts(request.counts, notes=notes, **shape)
    with reading_bar("reading the map", [request.map], quiet=printing.quiet) as advance:
        candidates = read_map(request.map, num_hashes=parameters.h, notes=notes, advance=advance, **shape)
    p_star, q_star, options = float(mechanism.p_star), float(mechanism.q_star), request.options
    decoded = decode(
        counts,
        candidates,
        p_star=p_star,
        q_star=q_star,
        permanent=mechanism.rounds.permanent,
        method=options.method,
        correction=options.correction,
        alpha=options.alpha,
        complete=options.complete,
        reports_per_device=request.repeats,
        interval_kind=options.interval_kind or "reports",
    )
    # The sizes of cohorts and sums of bits are checked where every device reported once.
    checks = check_collection(mechanism, counts, decoded) if request.repeats == 1.0 else ()
    told = (*notes, *decoded.notes, *alarm_notes(checks))
    decoded = replace(decoded, notes=told)
    about = {**metrics(decoded, parameters, mechanism), "checks": [check.to_json() for check in checks]}
    output, to_pipe = str(printing.output), printing.output == "-"
    rows, results = decoded.rows(everything=printing.everything), output
    if to_pipe or output.endswith(".csv"):
        with writing_csv(output, spreadsheet=printing.spreadsheet) as text:
            decoded.to_csv(text)
    elif is_table(output):
        write_tables(output, estimate_blocks(rows, about, None))
    else:
        results = str(write_results(output, decoded, about, spreadsheet=printing.spreadsheet)[0])
    if request.plot:
        draw(request.plot, [decoded.plot()])
    if printing.json:
        print(json.dumps({**about, "estimates": rows}, separators=(",", ":"), allow_nan=False))
    elif not to_pipe:
        print_document(estimate_blocks(rows, about, None if printing.quiet else results))
    return 0


def estimate_blocks(rows: list[dict[str, Any]], about: dict[str, Any], results: str | None) -> Iterator[Block]:
    """Return the rows of a decoding, and what must be known to read them."""
    yield estimate_table(rows) if rows else Paragraph("nothing was detected")
    detected = f"{about['detected']:,} of {plural(about['candidates'], 'candidate')} detected"
    yield Lines(
        f"{detected} in {plural(about['reports'], 'report')} ({bound_text(about['correction'], about['alpha'])})",
        f"{about['allocated_mass']:.1%} of the reports allocated to candidates; goodness of fit "
        f"{about['residual_dispersion']:.2f} (1 = as expected); method {about['method']}",
        f"intervals: {interval_words(about['interval'])}",
        f"privacy: {epsilons_text(about)}",
        *(f"note: {note}" for note in about["notes"]),
        *([] if results is None else [f"every candidate: {results}"]),
    )
