"""A collection in numbers and plain words: what the terminal prints and `--json` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.planning import plan_from_parameters
from overstory.presentation.streams import wrapped
from overstory.privacy.statements import statement
from overstory.trial.demo.run import DemoResult

if TYPE_CHECKING:
    from rich.console import Console

BAR = 10  # characters of the longest bar: the table then fits 80 columns


def rows(result: DemoResult) -> list[dict[str, Any]]:
    """Return a dictionary per state, most frequent first, the truth beside what was learned."""
    truth = dict(zip(result.decoded.values, result.truth.tolist(), strict=True))
    return [{"value": row["value"], "truth": truth[row["value"]], **row} for row in result.decoded.rows()]


def as_json(result: DemoResult, page: str | None) -> dict[str, Any]:
    """Return everything as JSON values."""
    said = statement(result.mechanism).to_json()
    reports = len(result.respondents)
    plan = plan_from_parameters(result.mechanism, reports, len(result.respondents.states))
    return {
        "population": result.respondents.description,
        "seed": result.seed,
        **result.decoded.summary(),
        "parameters": {letter: getattr(result.parameters, letter) for letter in "khmpqf"},
        **{key: said[key] for key in ("epsilon_report", "epsilon_permanent", "epsilon_n", "change_leak")},
        "standard_error": plan.standard_error,
        "detectable_frequency": plan.detectable_frequency,
        "rmse": result.rmse,
        "limit": result.limit,
        "inside_95": inside(result),
        "estimates": rows(result),
        "folder": str(result.paths.folder),
        "page": page,
    }


def inside(result: DemoResult) -> int:
    """How many of the 95% intervals, as they are shown, hold the truth."""
    low, high = result.decoded.interval(0.95)
    return int(np.count_nonzero((low <= result.truth) & (result.truth <= high)))


def show(result: DemoResult, console: Console) -> None:
    """Print the table and what it means."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title="What was true, and what was learned", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1))
    table.add_column("state", no_wrap=True)
    for heading in ("truth", "estimate", "95% interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows(result):
        estimate = f"{row['count']:,.0f}" if row["detected"] else "not detected"
        low, high = (100 * row[bound] for bound in ("frequency_low", "frequency_high"))
        table.add_row(row["value"], f"{row['truth']:,}", estimate, f"{low:.1f}–{high:.1f}%", _bar(row, result))
    console.print(table)
    for line in words(result):
        console.print(wrapped(line, console.width) if console.is_terminal else line, markup=False, soft_wrap=True)


def _bar(row: dict[str, Any], result: DemoResult) -> str:
    most = max(row["frequency"] for row in result.decoded.rows(1)) or 1.0
    return "█" * round(BAR * row["frequency"] / most) if row["detected"] else ""


def words(result: DemoResult) -> list[str]:
    """Say in a few sentences what was collected, learned and spent."""
    decoded, reports = result.decoded, len(result.respondents)
    detected = int(np.count_nonzero(decoded.detected()))
    p = result.parameters
    who = f"{reports:,} simulated respondents over {result.respondents.description}; seed {result.seed}"
    how = f"RAPPOR with k={p.k} bits, h={p.h} hashes, m={p.m} cohorts, f={p.f:g}, p={p.p:g}, q={p.q:g}"
    sent = "over HTTP to a collector on SQLite, each batch committed before it was acknowledged"
    learned = f"{detected} of {len(decoded)} states detected at a false discovery rate of {decoded.alpha:.0%}"
    held = f"{inside(result)} of {len(decoded)} intervals of these reports hold the truth"
    error = f"{result.rmse:,.0f} reports root mean square, {result.rmse / result.limit:.2f} times the"
    bound = f"{result.limit:,.0f} that theory allows the best unbiased decoder to expect"
    cost = statement(result.mechanism).plain_words()
    lines = [
        "",
        f"Who: {who}.",
        f"How: {how}.",
        f"Sent: {sent}.",
        f"Learned: {learned}; {held}.",
        f"Error: {error} {bound}.",
    ]
    lines.append(f"Privacy: {cost}")
    return lines + [f"Note: {note}" for note in decoded.notes]
