"""What every reading states of its range: how many reports, of whom, at which cost; as JSON values and as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from overstory.privacy.text import epsilons_text, plural

if TYPE_CHECKING:
    from overstory.queries.counts import PeriodCounts

NO_REPORTS: Final = "there are no reports in this range"
HOW: Final = {"total": "over all of them", "per-period": "each period alone", "cumulative": "over all reports so far"}
"""By aggregation: what is estimated."""
MOST_NOTES: Final = 12


class Part(Protocol):
    """One estimate of a range of periods."""

    @property
    def first(self) -> int:
        """The first period."""
        ...

    @property
    def last(self) -> int:
        """The last one."""
        ...


def ends_of(counted: PeriodCounts, part: Part) -> dict[str, Any]:
    """Return the labels of a part's first and last period."""
    return {"from": counted.label(part.first), "to": counted.label(part.last)}


def range_facts(
    counted: PeriodCounts, kind: str, interval: str | None, notes: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Return the facts that all parts of a reading have in common, as JSON values; `more` comes after the interval."""
    built = counted.metric.mechanism
    ever = built.epsilon_permanent
    return {
        "metric": counted.metric.id,
        "title": counted.metric.title,
        "oracle": built.name,
        "period": str(counted.metric.period),
        **({} if counted.group is None else {"group": counted.group}),
        "from": counted.label(counted.first),
        "to": counted.label(counted.last),
        "reading": kind,
        "reports": counted.num_reports,
        "periods_with_reports": len(counted.periods),
        "interval": interval,
        **more,
        "epsilon_report": built.epsilon_report,
        "epsilon_permanent": ever if math.isfinite(ever) else None,
        "notes": list(notes),
        "other_parameters": counted.others_json(),
    }


def range_sentences(counted: PeriodCounts, how: str, intervals: str) -> list[str]:
    """Return what was read, how, and what it costs, in sentences."""
    first, last = (counted.label(end) for end in (counted.first, counted.last))
    between = f" between {first} and {last}" if first else ""
    built, of = counted.metric.mechanism, counted.metric.id
    of += "" if counted.group is None else f" in the group {counted.group}"
    if not counted.periods:
        return [f"no reports of {of}{between}"]
    epsilons = {name: getattr(built, name) for name in ("epsilon_report", "epsilon_permanent")}
    periods = plural(len(counted.periods), "period")
    return [
        f"{plural(counted.num_reports, 'report')} of {of} in {periods}{between}; {how}",
        f"intervals: {intervals}",
        f"privacy: {built.name}, {epsilons_text(epsilons)}",
    ]


def note_lines(counted: PeriodCounts, notes: Iterable[str]) -> list[str]:
    """Return notes as lines, each once; that there are no reports stands in the sentences already."""
    shown = [note for note in dict.fromkeys(notes) if counted.periods or note != NO_REPORTS]
    left_out = [f"{len(shown) - MOST_NOTES} more: see --json"] if len(shown) > MOST_NOTES else []
    return [f"note: {note}" for note in [*shown[:MOST_NOTES], *left_out]]
