"""The HTML page of a trial: one file, in light and dark, that loads nothing from elsewhere, and its pictures.

It is written without a template library: loading one took longer than the trial of a small file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape as escaped
from pathlib import Path
from typing import Any, Final

import numpy as np

from overstory.files.io import writing_text
from overstory.planning.sample_size import smallest_share
from overstory.presentation import figures
from overstory.presentation.charts import Chart, Scale, against_truth, apart, text_width
from overstory.presentation.render_html import STYLE, as_table
from overstory.presentation.svg import Picture, inline
from overstory.privacy.statements import finite, statement
from overstory.privacy.text import epsilon_text
from overstory.protocol.mechanisms.registry import mechanism
from overstory.trial.summary import HERE, Summary

MOST_BARS: Final = 40
LONGEST: Final = 32


def shares(summary: Summary) -> Picture:
    """Draw truth against estimate with its 95% interval, a row per value."""
    rows = summary.rows()
    shown = rows if summary.is_numeric else rows[:MOST_BARS]
    keys = ("true_frequency", "frequency", "frequency_low", "frequency_high")
    truth, learned, low, high = (100 * np.array([row[key] for row in shown]) for key in keys)
    svg = against_truth(
        [short(row["value"]) for row in shown],
        truth=truth,
        learned=learned,
        low=low,
        high=high,
        detected=np.array([row["detected"] for row in shown]),
        xlabel="share of the rows with a value (%)",
    )
    left = len(rows) - len(shown)
    more = f" The {MOST_BARS} most frequent; {left:,} more are in the table." if left else ""
    caption = f"What was true, and what was learned; bars are 95% intervals of these reports.{more}"
    return Picture("collect-shares", caption, "Truth and estimate with its interval for every value.", svg)


def people_for_shares(summary: Summary) -> Picture:
    """Draw the smallest share that so many people show, by the oracle that was used and by the best."""
    result, advice = summary.result, summary.advice
    values, each = len(result.population.labels), result.reports_per_device
    numbers = np.logspace(2, 8, 7).round().astype(int).tolist()
    best = mechanism(advice.best.name, **advice.best.parameters)
    built = [(result.mechanism, figures.OURS), (best, figures.SERIES[2])]
    series = []
    for oracle, colour in built[: 1 if best.name == result.mechanism.name else 2]:
        smallest = [smallest_share(oracle, number, values, reports_per_device=each) for number in numbers]
        points = [(number, 100 * share) for number, share in zip(numbers, smallest, strict=True) if share is not None]
        series += [(oracle.name, colour, points)] if points else []
    return Picture(
        "collect-people",
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
    chart.line([(here, 100), (here, least)], figures.THEIRS, 1.2, 'stroke-dasharray="4 2"')
    is_left = x.at(here) < right - 80
    chart.text(x.at(here) + (5 if is_left else -5), 26, "you are here", figures.THEIRS, "start" if is_left else "end")
    return chart.svg()


def short(text: str) -> str:
    """Return a label that fits next to a picture.

    Examples
    --------
    >>> short("x" * 40)[-4:], short("$5")
    ('xxx…', '$5')
    """
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


MOST_ROWS: Final = 1_000

HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Overstory: what would you learn?</title>
<style>
{style}body {{ overflow-wrap: anywhere; }} table {{ overflow-wrap: normal; }} \
tbody th {{ max-width: 24rem; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<main>
"""

ORACLES: Final = (
    "oracle",
    "standard error of a share (points)",
    "bits of a report",
    "&epsilon; of a report",
)
ESTIMATES: Final = ("truth", "learned", "unbiased", "standard error", "95% interval (%)", "q-value")


def write_page(summary: Summary, folder: Path, command: str) -> Path:
    """Write ``collect.html`` into the folder and return its path."""
    path = folder / "collect.html"
    with writing_text(path) as text:
        text.write("".join(_parts(summary, command)))
    return path


def _parts(summary: Summary, command: str) -> Iterator[str]:
    yield HEAD.format(style=STYLE)
    yield from _facts(summary)
    yield "\n<h2>What was true, and what was learned</h2>\n"
    yield _figure(shares(summary))
    yield f"{_quantiles(summary)}\n<h2>What it cost in privacy</h2>\n"
    yield f"<p>{escape(statement(summary.result.mechanism).plain_words())}</p>\n\n"
    yield f"<h2>What would you learn?</h2>\n<p>{escape(summary.advice_words())}</p>\n"
    yield _figure(people_for_shares(summary))
    yield as_table(summary.advice_table("People needed"))
    yield _oracles(summary)
    yield "\n<h2>Every number</h2>\n"
    yield from _numbers(summary)
    yield f"\n<h2>How to get this page again</h2>\n<p><code>{escape(command)}</code></p>\n"
    yield f"<p>{''.join(f'{escape(line)}<br>' for line in summary.sentences())}</p>\n</main>\n</body>\n</html>"


def _facts(summary: Summary) -> Iterator[str]:
    result, values = summary.result, len(summary.result.population.labels)
    detected, kind = sum(row["detected"] for row in summary.rows()), "bins" if summary.is_numeric else "values"
    devices = f"{result.population.num_devices:,} devices"
    yield f"<h1>{escape(summary.column.name)}: {detected:,} of {values:,} {kind} learned from {devices}</h1>\n"
    yield f'<p class="lead">{escape(HERE)}</p>\n<dl>\n'
    epsilon_permanent = finite(result.mechanism.epsilon_permanent)
    ever = "no bound" if epsilon_permanent is None else f"&epsilon; {epsilon_text(epsilon_permanent)}"
    for name, fact in (
        ("oracle", escape(result.mechanism.name)),
        ("one report", f"&epsilon; {epsilon_text(result.mechanism.epsilon_report)}"),
        ("all reports of one value", ever),
        ("error of a share, root mean square", f"{100 * result.rmse:.2g} points"),
        ("95% intervals (of these reports) that hold the truth", f"{result.inside:,} of {values:,}"),
    ):
        yield f"<div><dt>{name}</dt><dd>{fact}</dd></div>\n"
    yield "</dl>\n"


def _figure(picture: Picture) -> str:
    return f"<figure>{inline(picture)}<figcaption>{escape(picture.caption)}</figcaption></figure>\n"


def _quantiles(summary: Summary) -> str:
    rows = [
        (f"{100 * row['share']:.0f}%", f"{row['truth']:.4g}", f"{row['learned']:.4g}") for row in summary.quantiles()
    ]
    head = ("below it lies", "truth", "learned")
    return _table("Quantiles", head, rows, caption="Quantiles, by the bins") if rows else ""


def _oracles(summary: Summary) -> str:
    rows = (
        (
            escape(choice.name),
            f"{100 * choice.standard_error:.3g}",
            f"{choice.report_bits:,}",
            epsilon_text(choice.epsilon_report),
        )
        for choice in summary.advice.ranking
    )
    caption = "Oracles that keep this budget, the most accurate first, at one report of each device"
    return _table("Oracles that keep the budget", ORACLES, rows, caption=caption)


def _numbers(summary: Summary) -> Iterator[str]:
    rows = summary.rows()
    head = ("bin" if summary.is_numeric else "value", *ESTIMATES)
    yield _table("Every number", head, map(_estimate, rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        yield f"<p>{len(rows) - MOST_ROWS:,} more are in <code>learned.csv</code>.</p>"


def _estimate(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        escape(row["value"]),
        f"{row['truth']:,}",
        f"{row['count']:,.0f}" if row["detected"] else '<span class="not">not detected</span>',
        f"{row['raw_count']:,.0f}",
        f"{row['standard_error']:,.0f}",
        f"{100 * row['frequency_low']:.2f} to {100 * row['frequency_high']:.2f}",
        f"{row['q_value']:.2g}",
    )


def _table(label: str, head: Iterable[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return a table that scrolls by itself; its cells are HTML, and the first of each row names it."""
    names = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>\n'
        for first, *others in rows
    )
    captioned = f"<caption>{caption}</caption>\n" if caption else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}">\n<table>\n{captioned}'
        f"<thead><tr>{names}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n"
    )


def escape(text: str) -> str:
    """Return text as HTML shows it, within quotes too."""
    return escaped(text, quote=False).replace('"', "&#34;").replace("'", "&#39;")
