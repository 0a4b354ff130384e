"""The demonstration in numbers and plain words: what the terminal, JSON and its HTML page show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from overstory.analysis.tables.output import not_detected, share_interval
from overstory.experiments.rappor import figure_1
from overstory.files.io import writing_text
from overstory.planning import plan_from_parameters
from overstory.presentation import figures
from overstory.presentation.charts.truth import against_truth
from overstory.presentation.document import (
    Block,
    Column,
    Figure,
    Heading,
    KeyValues,
    Lines,
    Paragraph,
    Preformatted,
    Table,
)
from overstory.presentation.formats import if_detected, thousands
from overstory.presentation.render_html import as_page
from overstory.presentation.svg import Picture
from overstory.privacy.statements import statement
from overstory.trial.demo.run import DemoResult
from overstory.trial.page import epsilon_pairs, truth_table

BAR: Final = 10  # characters of the longest bar: the table then fits 80 columns


def rows(result: DemoResult) -> list[dict[str, Any]]:
    """Return a dictionary per state, most frequent first, the truth and what was learned."""
    truth = dict(zip(result.estimate.values, result.population.counts.tolist(), strict=True))
    return [{"value": row["value"], "truth": truth[row["value"]], **row} for row in result.estimate.rows()]


def as_json(result: DemoResult, page: str | None) -> dict[str, Any]:
    """Return everything as JSON values."""
    stated = statement(result.mechanism).to_json()
    reports = len(result.population)
    plan = plan_from_parameters(result.mechanism, reports, len(result.population.labels))
    return {
        "population": result.population.notes[0],
        "seed": result.seed,
        **result.estimate.summary(),
        "parameters": {letter: getattr(result.parameters, letter) for letter in "khmpqf"},
        **{key: stated[key] for key in ("epsilon_report", "epsilon_permanent", "epsilon_n", "change_leak")},
        "standard_error": plan.standard_error,
        "detectable_frequency": plan.detectable_frequency,
        "rmse": result.rmse,
        "limit": result.limit,
        "inside_95": result.inside,
        "estimates": rows(result),
        "folder": str(result.paths.folder),
        "page": page,
    }


def blocks(result: DemoResult) -> Iterator[Block]:
    """Return the table and what it means."""
    most = max(row["frequency"] for row in result.estimate.rows(1)) or 1.0
    columns = (
        Column("value", "state", is_left=True),
        Column("truth", text=thousands),
        Column("estimate", text=if_detected(thousands), keys=("count", "detected")),
        share_interval(),
        Column(
            "bar",
            "",
            lambda share, is_shown: "█" * round(BAR * share / most) if is_shown else "",
            ("frequency", "detected"),
            is_left=True,
        ),
    )
    shown = rows(result)
    yield Table("What was true, and what was learned", columns, shown, not_detected(shown))
    yield Lines(*words(result))


def words(result: DemoResult) -> list[str]:
    """Say in a few sentences what was collected, learned and spent."""
    decoded, reports = result.estimate, len(result.population)
    detected = int(np.count_nonzero(decoded.detected()))
    p = result.parameters
    who = f"{reports:,} simulated respondents over {result.population.notes[0]}; seed {result.seed}"
    how = f"RAPPOR with k={p.k} bits, h={p.h} hashes, m={p.m} cohorts, f={p.f:g}, p={p.p:g}, q={p.q:g}"
    sent = "over HTTP to a collector on SQLite, each batch committed before it was acknowledged"
    learned = f"{detected} of {len(decoded)} states detected at a false discovery rate of {decoded.alpha:.0%}"
    intervals = f"{result.inside} of {len(decoded)} intervals of these reports hold the truth"
    error = f"{result.rmse:,.0f} reports root mean square, {result.rmse / result.limit:.2f} times the"
    bound = f"{result.limit:,.0f} that theory allows the best unbiased decoder to expect"
    cost = statement(result.mechanism).plain_words()
    lines = [
        f"Who: {who}.",
        f"How: {how}.",
        f"Sent: {sent}.",
        f"Learned: {learned}; {intervals}.",
        f"Error: {error} {bound}.",
        f"Privacy: {cost}",
    ]
    return lines + [f"Note: {note}" for note in decoded.notes]


def shares(result: DemoResult) -> Picture:
    """Draw truth against estimate with its 95% interval, a row per state."""
    decoded, n = result.estimate, len(result.population)
    order = np.argsort(-result.population.counts, kind="stable")
    low, high = (100 * bound[order] / n for bound in decoded.interval(0.95))
    svg = against_truth(
        [decoded.values[i] for i in order],
        truth=100 * result.population.counts[order] / n,
        learned=100 * decoded.frequencies[order],
        low=low,
        high=high,
        detected=decoded.detected()[order],
        xlabel="share of respondents (%)",
    )
    caption = "What was true, and what was learned; bars are 95% intervals of these reports."
    return Picture("demo-shares", caption, "Truth and estimate with its interval for every state.", svg)


def life_of_a_report(result: DemoResult) -> Picture:
    """Draw one respondent's bits: the true filter, its permanent response, and what is sent (RAPPOR, figure 1)."""
    assert result.population.devices is not None
    value = result.population.labels[int(result.population.devices.symbols[0])]
    return figure_1.draw(result.mechanism, figure_1.live(result.mechanism, value, result.seed))


def privacy_spent(result: DemoResult, most: int = 30) -> Picture:
    """Draw the exact epsilon of n reports of one value, and the ceiling it never passes."""
    mechanism, numbers = result.mechanism, list(range(1, most + 1))
    figure, axes = figures.panels(7.2, 2.6)
    axes.plot(numbers, [mechanism.epsilon_n(n) for n in numbers], "o-", color=figures.OURS, markersize=4, linewidth=1.2)
    ever = mechanism.epsilon_permanent
    if np.isfinite(ever):
        axes.axhline(ever, color=figures.THEIRS, linestyle="--", linewidth=1.2)
        ceiling = "ceiling: any number of reports of one value"
        figures.label(axes, most, ever, ceiling, xytext=(0, -13), ha="right")
    axes.set(ylim=(0, None), xlabel="reports that one device sent of one value", ylabel="epsilon (nats)")
    caption = "Exact epsilon of n reports of one value."
    return figures.picture(figure, "demo-spent", caption, "Epsilon rises with the number of reports to its ceiling.")


def write_page(result: DemoResult, command: str) -> Path:
    """Write ``demo.html`` into the collection's folder and return its path."""
    page = result.paths.folder / "demo.html"
    with writing_text(page) as text:
        text.write(as_page(_page_blocks(result, command), title="Overstory: what was learned"))
    return page


def _page_blocks(result: DemoResult, command: str) -> Iterator[Block]:
    facts = as_json(result, None)
    states = len(result.estimate)
    yield Heading(1, f"{facts['detected']} of {states} states, learned from {facts['reports']:,} randomized reports")
    yield Paragraph(
        "See the forest, never the trees: every answer was randomized on its own device; nobody, the collector "
        "included, saw a true one.",
        is_lead=True,
    )
    pairs = (
        *epsilon_pairs(result.mechanism),
        ("error, root mean square", f"{result.rmse:,.0f} reports"),
        ("best that theory allows", f"{result.limit:,.0f} reports"),
        ("95% intervals (of these reports) that hold the truth", f"{facts['inside_95']} of {states}"),
    )
    yield KeyValues(pairs, "figures")
    yield Heading(2, "What was true, and what was learned")
    yield Figure(shares(result))
    yield Heading(2, "What one respondent sent")
    yield Paragraph("The collector gets one of the rows below the dashed line, and the cohort's number.")
    yield Figure(life_of_a_report(result))
    yield Heading(2, "What it cost in privacy")
    yield Paragraph(statement(result.mechanism).plain_words())
    yield Figure(privacy_spent(result))
    yield Heading(2, "Every number")
    yield truth_table("state", rows(result))
    yield Heading(2, "How to get this page again")
    yield Preformatted(command)
    yield Lines(*(line for line in words(result) if not line.startswith("Privacy")))
