"""``overstory decode`` of counts and a candidate map, the files of RAPPOR's public tools."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overstory.analysis.alarms.crafted import alarm_notes, check_collection
from overstory.analysis.selection import bound_text, interval_words
from overstory.analysis.tables.output import estimate_table
from overstory.cli.output import draw
from overstory.cli.progress import reading_bar
from overstory.files.io import writing_csv
from overstory.files.rappor import metrics, read_counts, read_map, read_params, write_results
from overstory.presentation.document import Lines, Paragraph
from overstory.presentation.formats import epsilons_text, plural
from overstory.presentation.render_text import print_document
from overstory.queries.estimates import estimate_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overstory.cli.analysis.decode import DecodeRequest
    from overstory.presentation.document import Block


def run(request: DecodeRequest) -> int:
    """Estimate, write the results, and print them."""
    assert request.params is not None
    assert request.counts is not None
    printing, notes = request.printing, list[str]()
    parameters = read_params(request.params)
    mechanism, shape = parameters.mechanism(), {"num_bits": parameters.k, "num_cohorts": parameters.m}
    counts = read_counts(request.counts, notes=notes, **shape)
    with reading_bar("reading the map", request.maps, quiet=printing.quiet) as advance:
        candidates = read_map(request.maps[0], num_hashes=parameters.h, notes=notes, advance=advance, **shape)
    decoded: Any = estimate_once(mechanism, counts, request.repeats, request.options, candidates)
    # The sizes of cohorts and sums of bits are checked where every device reported once.
    checks = check_collection(mechanism, counts, decoded) if request.repeats == 1.0 else ()
    decoded = replace(decoded, notes=(*notes, *decoded.notes, *alarm_notes(checks, decoded=True)))
    about = {**metrics(decoded, parameters, mechanism), "checks": [check.to_json() for check in checks]}
    output, to_pipe = str(printing.output), printing.output == "-"
    if to_pipe:
        with writing_csv(output, spreadsheet=printing.spreadsheet) as text:
            decoded.to_csv(text)
    sheet = {"spreadsheet": printing.spreadsheet}
    results = "-" if to_pipe else str(write_results(output, decoded, about, **sheet)[0])
    if request.plot:
        draw(request.plot, [decoded.plot()])
    rows = decoded.rows(everything=printing.everything)
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
        f"intervals: {interval_words(about['interval'], about['adjustment'])}",
        f"privacy: {epsilons_text(about)}",
        *(f"note: {note}" for note in about["notes"]),
        *([] if results is None else [f"every candidate: {results}"]),
    )
