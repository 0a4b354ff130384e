"""What keeps reports waiting: when they are due, what the collector refuses, and the relay that some go through."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from overstory.client.state.outbox import LONGEST_DELAY, RowState
from overstory.client.upload.delivery import CollectorHealth
from overstory.client.upload.retry import DAY, RELAY, problem_words
from overstory.privacy.text import duration

if TYPE_CHECKING:
    from overstory.client.state.state import Rows
    from overstory.protocol.metrics import Metric
    from overstory.protocol.metrics.oblivious import ObliviousRoute


@dataclass(frozen=True)
class RelayStatus:
    """The relay of an application's oblivious metrics.

    Attributes
    ----------
    route
        The relay; None where the registry names none, so that nothing of these metrics can be sent.
    metrics
        The metrics whose reports go through it and no other way.
    waits
        By metric, what the relay answered last to a report that still waits.
    direct
        The other metrics.
    """

    route: ObliviousRoute | None
    metrics: tuple[str, ...]
    waits: Mapping[str, str] = field(default_factory=dict)
    direct: tuple[str, ...] = ()

    def words(self) -> Iterator[str]:
        """Say it to a person, a line at a time."""
        names = ", ".join(self.metrics)
        if self.route is None:
            yield f"reports of {names} wait: they go through a relay, and the registry names none"
        else:
            yield f"reports of {names} go there through the relay {self.route.described}, and never another way"
        if self.direct:
            yield f"reports of {', '.join(self.direct)} go there directly, from your device's address"
        for metric, why in self.waits.items():
            yield f"reports of {metric} wait: {why}"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        relay, operator = (None, None) if self.route is None else (self.route.relay, self.route.operator)
        return {"relay": relay, "operator": operator, "metrics": list(self.metrics), "waits": dict(self.waits)}


def relay_status(registry: Mapping[str, Metric], rows: Rows | None = None) -> RelayStatus | None:
    """Return the relay of a registry, and what waits for it; None where no metric is oblivious."""
    names = tuple(name for name, metric in registry.items() if metric.is_oblivious)
    if not names:
        return None
    answers = {name: _last_answer(rows, name) for name in names} if rows is not None else {}
    route: ObliviousRoute | None = getattr(registry, "oblivious", None)
    waits = {name: relay_problem(answer) for name, answer in answers.items() if answer and route is not None}
    return RelayStatus(route, names, waits, tuple(name for name in registry if name not in names))


def _last_answer(rows: Rows, metric: str) -> str | None:
    """Return what the relay answered to the report that was tried most often; None where all went well so far."""
    waiting = [row for row in rows.outbox.rows(metric, RowState.WAITING) if (row.answer or "").startswith(RELAY)]
    return max(waiting, key=lambda row: row.attempts).answer if waiting else None


def relay_problem(answer: str) -> str:
    """Say what an answer of a relay, or its silence, means.

    Examples
    --------
    >>> relay_problem("relay: keys refused")
    "the collector refuses the registry's keys"
    >>> relay_problem("relay: no answer in time")
    'the relay does not take them now (no answer in time)'
    """
    return problem_words(answer) or f"the relay does not take them now ({answer.removeprefix(RELAY)})"


def due_words(first: float, last: float) -> str:
    """Say when what waits is due.

    Examples
    --------
    >>> due_words(18_700, 18_700), due_words(0, 700), due_words(0, 0)
    ('due within 5 h 12 min', 'the first due now, all within 12 min', 'due now')
    """
    if last <= 0:
        return "due now"
    within = f"within {duration(last)}"
    if math.ceil(first / 60) == math.ceil(last / 60):
        return f"due {within}"
    return f"the first due {'now' if first <= 0 else f'within {duration(first)}'}, all {within}"


def due_in(times: Sequence[float], now: float) -> tuple[float, float] | None:
    """Return in how many seconds the first and the last of some times come; None where there are none."""
    # What is due later than any delay allows has seen another clock: it is sent at once.
    waits = [max(due - now, 0.0) if due <= now + LONGEST_DELAY else 0.0 for due in times]
    return (min(waits), max(waits)) if waits else None


def refusals(health: Mapping[str, CollectorHealth]) -> str | None:
    """Say what the collector refuses, or what answers in its place, and since when."""
    alike: dict[tuple[str, int], list[str]] = {}
    for name, health_there in health.items():
        alike.setdefault((health_there.problem, health_there.since), []).append(name)
    problems = ((since, problem_words(why, ", ".join(names))) for (why, since), names in alike.items())
    sentences = [f"{text} since {datetime.fromtimestamp(since * DAY, UTC).date()}" for since, text in problems if text]
    return "; ".join(sentences) or None
