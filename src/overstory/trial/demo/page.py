"""The HTML page of the demonstration: one file that loads nothing from elsewhere, and its pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from overstory.experiments.rappor import figure_1
from overstory.files.io import writing_text
from overstory.presentation import figures
from overstory.presentation.charts import against_truth
from overstory.presentation.pages import templates
from overstory.presentation.svg import Picture
from overstory.privacy.statements import statement
from overstory.privacy.text import epsilon_text
from overstory.trial.demo.run import DemoResult
from overstory.trial.demo.summary import as_json, rows, words


def shares(result: DemoResult) -> Picture:
    """Draw truth against estimate with its 95% interval, a row per state."""
    decoded, n = result.decoded, len(result.respondents)
    order = np.argsort(-result.truth, kind="stable")
    low, high = (100 * bound[order] / n for bound in decoded.interval(0.95))
    svg = against_truth(
        [decoded.values[i] for i in order],
        truth=100 * result.truth[order] / n,
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
    value = result.respondents.states[int(result.respondents.symbols[0])]
    return figure_1.draw(result.mechanism, figure_1.live(result.mechanism, value, result.seed))


def privacy_spent(result: DemoResult, most: int = 30) -> Picture:
    """Draw the exact epsilon of n reports of one value, and the ceiling it never passes."""
    mechanism, numbers = result.mechanism, list(range(1, most + 1))
    figure, axes = figures.panels(7.2, 2.6)
    axes.plot(numbers, [mechanism.epsilon_n(n) for n in numbers], "o-", color=figures.OURS, markersize=4, linewidth=1.2)
    ever = mechanism.epsilon_permanent
    if np.isfinite(ever):
        axes.axhline(ever, color=figures.THEIRS, linestyle="--", linewidth=1.2)
        ceiling = "ceiling: all reports of one value, for ever"
        figures.label(axes, most, ever, ceiling, xytext=(0, -13), ha="right")
    axes.set(ylim=(0, None), xlabel="reports that one device sent of one value", ylabel="epsilon (nats)")
    caption = "Exact epsilon of n reports of one value."
    return figures.picture(figure, "demo-spent", caption, "Epsilon rises with the number of reports to its ceiling.")


def write_page(result: DemoResult, command: str) -> Path:
    """Write ``demo.html`` beside the collection's files and return its path."""
    known = as_json(result, None)
    environment = templates("overstory.trial.demo")
    environment.filters["epsilon"] = epsilon_text
    template = environment.get_template("demo.html")
    html = template.render(
        **{
            key: known[key] for key in ("epsilon_report", "epsilon_permanent", "rmse", "limit", "inside_95", "detected")
        },
        n=len(result.respondents),
        total=len(result.decoded),
        rows=rows(result),
        shares=shares(result),
        life=life_of_a_report(result),
        spent=privacy_spent(result),
        plain_words=statement(result.mechanism).plain_words(),
        lines=[line for line in words(result) if line and not line.startswith("Privacy")],
        command=command,
    )
    page = result.paths.folder / "demo.html"
    with writing_text(page) as text:
        text.write(html)
    return page
