"""A collection in numbers and plain words: what the terminal prints and `--json` gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from overstory.analysis.tables.output import not_detected, share_interval
from overstory.planning import plan_from_parameters
from overstory.presentation.document import Block, Column, Lines, Table
from overstory.presentation.formats import if_detected, thousands
from overstory.privacy.statements import statement
from overstory.trial.demo.run import DemoResult

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


def blocks(result: DemoResult) -> Iterator[Block]:
    """Return the table and what it means."""
    most = max(row["frequency"] for row in result.decoded.rows(1)) or 1.0
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
        f"Who: {who}.",
        f"How: {how}.",
        f"Sent: {sent}.",
        f"Learned: {learned}; {held}.",
        f"Error: {error} {bound}.",
    ]
    lines.append(f"Privacy: {cost}")
    return lines + [f"Note: {note}" for note in decoded.notes]
