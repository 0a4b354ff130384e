"""A plan, and a ranking of oracles, as tables: a terminal and a page show the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from overstory.presentation.document import Column, Table
from overstory.presentation.formats import seconds_text, thousands
from overstory.privacy.payloads.shared import bits_text
from overstory.privacy.text import epsilon_text

if TYPE_CHECKING:
    from overstory.analysis.comparison.measurement import Measured
    from overstory.analysis.comparison.ranking import Choice
    from overstory.planning.plan import Comparison, Plan

EPSILONS_SHOWN: Final = (2, 5, 10)


def plan_table(plan: Plan) -> Table:
    """Return the plan, and the paper's parameters where they are compared, as columns."""
    plans: list[Plan | Comparison] = [plan, *([plan.comparison] if plan.comparison else [])]
    several = [(f"epsilon of {n} reports of one value", [of.epsilon_n[n] for of in plans]) for n in EPSILONS_SHOWN]
    changes = [(f"epsilon of a change in {n} reports", [of.change_leak[n] for of in plans]) for n in plan.change_leak]
    central = plan.shuffled
    among = f"the same, shuffled among {central.reports:,} (delta {central.delta:g})"
    influences = [plan.mechanism.influence, *([] if plan.comparison is None else [plan.comparison.influence])]
    also = [] if plan.comparison is None else [plan.comparison.epsilon_shuffled]
    epsilons = [
        ("epsilon of one report", [of.epsilon_report for of in plans]),
        *several,
        ("epsilon of any number of them", [of.epsilon_permanent for of in plans]),
        (among, [central.epsilon, *also]),
        *changes,
    ]
    letters = (" ".join(f"{letter}={of.parameters[letter]:.4g}" for letter in "khmpqf") for of in plans)
    rows = [
        ("parameters", *letters),
        *((name, *map(epsilon_text, numbers)) for name, numbers in epsilons),
        ("votes of one crafted report, at most", *(f"{votes.up:.1f}" for votes in influences)),
        ("standard error of a rare count", *(thousands(of.standard_error) for of in plans)),
        ("share detected half the time", *(f"{of.detectable_frequency:.3%}" for of in plans)),
    ]
    columns = (
        Column("figure", "figure", is_left=True),
        Column("plan", "this plan"),
        Column("paper", "the paper's parameters"),
    )
    named = columns[: 1 + len(plans)]
    keys = [column.name for column in named]
    return Table("", named, [dict(zip(keys, row, strict=True)) for row in rows])


def ranking_table(ranking: Sequence[Choice], measured: Sequence[Measured] | None = None, caption: str = "") -> Table:
    """Return a ranking of oracles; with what simulated collections came to, where they were made."""
    errors: Sequence[Measured | None] = measured or [None] * len(ranking)
    rows = [_row(choice, ranking[0], error) for choice, error in zip(ranking, errors, strict=True)]
    columns = (
        Column("name", "oracle", is_left=True),
        Column("standard_error", "std. error", "{:.3e}".format),
        Column("over_best", "over best", "{:.1%}".format),
        Column("report_bits", "bits"),
        Column("same"),
        Column("alike"),
        Column("influence", "a liar's votes", "{:.1f}".format),
        Column("core_seconds", "core-seconds", seconds_text),
        Column("decoding", is_left=True),
        *([Column("measured")] if measured is not None else []),
    )
    return Table(caption, columns, rows)


def _row(choice: Choice, first: Choice, measured: Measured | None) -> dict[str, Any]:
    error = "" if measured is None else f"{measured.error:.3e}"
    spread = "" if measured is None or measured.standard_error is None else f" +/- {measured.standard_error:.1e}"
    return {
        "name": choice.name,
        "standard_error": choice.standard_error,
        "over_best": math.sqrt(choice.variance / first.variance) - 1,
        "report_bits": choice.report_bits,
        "same": bits_text(choice.linkable.bits).split()[0],
        "alike": bits_text(choice.linkable.shared(1)).split()[0],
        "influence": choice.influence.up,
        "core_seconds": choice.core_seconds,
        "decoding": choice.decoding,
        "measured": error + spread,
    }
