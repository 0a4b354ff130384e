"""A trial as a page with its pictures, and as the terminal shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from overstory.analysis.tables.output import not_detected, share_interval
from overstory.client import Randomizer
from overstory.planning.detection import smallest_share
from overstory.presentation import svg
from overstory.presentation.charts.curves import MOST_BITS, Loss, Step, bits_of_a_report, loss_over_reports
from overstory.presentation.charts.drawing import Chart, Scale, apart, text_width
from overstory.presentation.document import (
    Block,
    Column,
    Figure,
    Folded,
    Heading,
    KeyValues,
    Lines,
    Paragraph,
    Preformatted,
    Table,
)
from overstory.presentation.formats import epsilon_text, if_detected, p_value, percent, significant, thousands
from overstory.presentation.svg import Picture
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.sampling import KeyedEntropy, SeededEntropy

if TYPE_CHECKING:
    from overstory.trial.values import Advice, Summary


MOST_REPORTS: Final = 30
REPORTS: Final = 3


def people_for_shares(summary: Summary, advice: Advice) -> Picture:
    """Draw the smallest share that so many people show, by the oracle that was used and by the best."""
    result = summary.result
    values, each = len(result.population.labels), result.reports_per_device
    numbers = np.logspace(2, 8, 7).round().astype(int).tolist()
    best = mechanism(advice.best.name, **advice.best.parameters)
    built = [(result.mechanism, svg.OURS), (best, svg.SERIES[2])]
    series = []
    for oracle, colour in built[: 1 if best.name == result.mechanism.name else 2]:
        smallest = [smallest_share(oracle, number, values, reports_per_device=each) for number in numbers]
        points = [(number, 100 * share) for number, share in zip(numbers, smallest, strict=True) if share is not None]
        series += [(oracle.name, colour, points)] if points else []
    return Picture(
        "people",
        "The smallest share that is detected nine times in ten, with a chance of 5% of any false detection, by the "
        "number of people; the dashed line is your file.",
        "Falling lines: a hundred times as many people show a share a tenth as large.",
        _falling(series, result.population.num_devices),
    )


def _falling(series: list[tuple[str, str, list[tuple[int, float]]]], here: int) -> str:
    """Draw lines that fall with the number of people, as SVG; each has its name at its end."""
    width, height = 518.0, 259.0
    least = min((share for *_, points in series for _, share in points), default=1.0)
    right = width - 14 - max((text_width(name) for name, *_ in series), default=0.0)
    x, y = Scale(100, 1e8, 60, right, logarithmic=True), Scale(least, 100, height - 34, 12, logarithmic=True)
    chart = Chart(width, height, x, y)
    chart.axes("people", "smallest share detected (%)")
    for _, colour, points in series:
        chart.line(points, colour)
    ends = apart([y.at(points[-1][1]) for *_, points in series], 11)
    for (name, colour, points), end in zip(series, ends, strict=True):
        chart.text(x.at(points[-1][0]) + 5, end, name, colour)
    chart.line([(here, 100), (here, least)], svg.THEIRS, 1.2, 'stroke-dasharray="4 2"')
    is_left = x.at(here) < right - 80
    chart.text(x.at(here) + (5 if is_left else -5), 26, "you are here", svg.THEIRS, "start" if is_left else "end")
    return chart.svg()


@dataclass(frozen=True)
class Life:
    """The bits of one value on one device: true, permanent, and sent."""

    value: str
    cohort: int
    true: int
    permanent: int
    reports: tuple[int, ...]


def live(mechanism: BitMechanism, value: str, seed: int) -> Life:
    """Return what a device whose secret follows from `seed` makes of a value."""
    secret = KeyedEntropy(b"the device of figure 1", str(seed).encode()).bits(256).to_bytes(32, "big")
    device = Randomizer(mechanism, secret=secret, metric="figure 1", entropy=SeededEntropy(seed))
    reports = tuple(device.report(value).bits for _ in range(REPORTS))
    return Life(value, device.cohort, mechanism.encode(value, device.cohort), device.permanent(value), reports)


def life_picture(mechanism: BitMechanism, life: Life) -> Picture:
    """Draw one device's bits: those of the value, its permanent response, and what is sent."""
    width = mechanism.encoding.num_bits
    named = [("The value's bits", life.true), ("Kept on the device: noise drawn once for the value", life.permanent)]
    named += [(f"Sent, report {number}", bits) for number, bits in enumerate(life.reports, start=1)]
    steps = [Step(name, [bool(bits >> place & 1) for place in range(width)]) for name, bits in named]
    first = f" The first {MOST_BITS} of {width:,} bits." if width > MOST_BITS else ""
    caption = (
        f"The value {life.value[:40]!r} on one device of cohort {life.cohort}. A square is a bit, filled where it is "
        f"1. Orange: noise changed it.{first}"
    )
    return bits_of_a_report("bits", caption, steps)


MOST_ROWS: Final = 1_000


def page_blocks(summary: Summary, command: str) -> Iterator[Block]:
    """Return what the page shows."""
    mechanism = summary.result.mechanism
    yield from _facts(summary)
    yield Heading(2, "What was true, and what was learned")
    yield Figure(summary.plot())
    if summary.is_numeric:
        columns = (
            Column("share", "below it lies", "{:.0%}".format),
            Column("learned", "estimate", significant),
            Column("truth", text=significant),
        )
        yield Table("Quantiles, by the bins", columns, summary.quantiles())
    if mechanism.encoding.decoded:
        yield Heading(2, "What one device sent")
        yield Paragraph("Only reports leave the device. The collector gets one of them, and the cohort's number.")
        population, filters = summary.result.population, cast("BitMechanism", mechanism)
        first = int(np.argmax(population.counts)) if population.devices is None else int(population.devices.symbols[0])
        yield Figure(life_picture(filters, live(filters, population.labels[first], summary.result.seed)))
    yield Heading(2, "What it cost in privacy")
    yield from summary.cost()
    if not summary.subject.privacy:
        yield Folded("All that can be said of privacy", (Paragraph(summary.privacy),))
    if not summary.subject.privacy and mechanism.epsilon_permanent > mechanism.epsilon_report:
        numbers = range(1, MOST_REPORTS + 1)
        loss = Loss("an unchanged value", [mechanism.epsilon_n(n) for n in numbers])
        yield Figure(loss_over_reports("spent", "Exact epsilon of n reports of one value.", numbers, [loss]))
    if summary.advice is not None:
        yield from _advice(summary, summary.advice)
    yield Heading(2, "Every number")
    rows = summary.rows()
    yield truth_table(summary.subject.value, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield Paragraph(f"{len(rows) - MOST_ROWS:,} more are in the file of results.")
    if command:
        yield Heading(2, "How to get this page again")
        yield Preformatted(command)
    yield Lines(*summary.sentences(), *summary.note_lines())


def _facts(summary: Summary) -> Iterator[Block]:
    result, values = summary.result, len(summary.result.population.labels)
    yield Heading(1, summary.title)
    yield Paragraph(summary.subject.lead, is_lead=True)
    limit = "" if result.limit is None else f"{100 * result.limit:.2g} points"
    pairs = (
        ("oracle", result.mechanism.name),
        ("error of a share, root mean square", f"{100 * result.rmse:.2g} points"),
        *([("least that theory allows", limit)] if limit else []),
        ("95% intervals (of these reports) that hold the truth", f"{result.inside:,} of {values:,}"),
    )
    yield KeyValues(pairs, "figures")


def _advice(summary: Summary, advice: Advice) -> Iterator[Block]:
    yield Heading(2, "What would you learn?")
    yield Paragraph(advice.words(summary.result.population))
    yield Figure(people_for_shares(summary, advice))
    yield advice.table("People needed")
    columns = (
        Column("oracle", is_left=True),
        Column("standard_error", "standard error of a share", lambda error: f"{100 * error:.3g}", unit="points"),
        Column("report_bits", "bits of a report", thousands),
        Column("epsilon_report", "ε of a report", epsilon_text),
    )
    caption = "Oracles that keep this budget, the most accurate first, at one report of each device"
    yield Table(caption, columns, [choice.to_json() for choice in advice.ranking])


SHOWN: Final = 30  # rows that the terminal shows
BAR: Final = 10  # characters of the longest bar


def terminal_table(summary: Summary) -> Iterator[Block]:
    """Yield the most frequent values, next to the truth."""
    rows = summary.rows()
    shown = rows if summary.is_numeric else rows[:SHOWN]
    most = max((row["frequency"] for row in rows), default=0.0) or 1.0
    columns = (
        Column("value", summary.subject.value, is_left=True),
        *share_and_truth(),
        Column(
            "bar",
            "",
            lambda share, is_shown: "█" * round(BAR * share / most) if is_shown else "",
            ("frequency", "detected"),
            is_left=True,
        ),
    )
    yield Table("", columns, shown, not_detected(shown))
    if len(rows) > len(shown):
        yield Paragraph(f"... and {len(rows) - len(shown):,} more")


def share_and_truth() -> tuple[Column, ...]:
    """Return the columns of what was learned, and of what was true."""
    share = Column("share", text=if_detected(percent), keys=("frequency", "detected"))
    return share, share_interval(), Column("true_frequency", "truth", percent)


def truth_table(named: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Return every number of estimates whose truth is known."""
    columns = (
        Column("value", named, is_left=True),
        *share_and_truth(),
        Column("count", text=if_detected(thousands), keys=("count", "detected")),
        Column("raw_count", "unbiased count", thousands),
        Column("standard_error", "its standard error", thousands),
        Column("truth", "true count", thousands),
        Column("q_value", "q-value", p_value),
    )
    return Table("Every number", columns, rows, not_detected(rows))
