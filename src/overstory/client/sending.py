"""What becomes of a queued report: pure decisions, from a row, an answer and a clock to what happens next.

A report waits, and ends **sent** or **dropped**, once. What the collector answers decides:

====================================  =========================================================================
2xx that names the batch              sent; a duplicate is a success: an earlier answer was lost
2xx that does not                     waits: something on the way answered, not a collector
4xx but 408, 425, 429                 dropped, with the collector's reason: the same bytes would be refused again
408, 425, 429, 5xx, all else          waits: exponential backoff with full jitter, and Retry-After at least
no answer                             waits, likewise
the period is closed                  dropped unasked: the collector would refuse it by now
====================================  =========================================================================

A time that the collector asks for is no timetable: each report draws its own, uniform from once to twice as long. If
it came back in the minute asked for, a collector could tell a device again by the minute that it gave it.

Nothing here looks at a socket, a file or a clock, and a retry is no decision about bytes: they are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from overstory.client.outbox import OutboxRow, RowState
from overstory.client.upload import Answer, said
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.reasons import Reason

Uniform = Callable[[], float]
"""Draws from [0, 1)."""

RETRIED: Final = frozenset({408, 425, 429})
PASSING: Final = frozenset(str(reason) for reason in Reason if not reason.final)
DAY: Final = 86_400.0
_REASON: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Pace:
    """How patient a device is, in seconds.

    Attributes
    ----------
    first, longest
        The backoff after one failure, and the most it grows to; both are the upper end of a uniform draw.
    longest_asked
        The longest that a Retry-After can make a report wait, the draw included: up to half as much is believed.
    lease
        How long reports belong to the process that took them to send. A crash costs that much, no more.
    """

    first: float = 60.0
    longest: float = 6 * 3600.0
    longest_asked: float = 24 * 3600.0
    lease: float = 120.0


@dataclass(frozen=True)
class Decision:
    """What happens to a row next.

    Attributes
    ----------
    state
        Sent, dropped, or still waiting.
    answer
        Why, in a word or a few.
    due
        When to try again; meaningless unless it waits.
    resume
        The time before which nothing else is sent to this collector either; None when it is well.
    pause
        Over how many seconds after `resume` the reports that have to wait for it are spread.
    """

    state: RowState
    answer: str
    due: float = 0.0
    resume: float | None = None
    pause: float = 0.0


def backoff(failures: int, pace: Pace, uniform: Uniform) -> float:
    """Return how long to wait after so many failures in a row: full jitter, uniform from 0 to twice as much each time.

    Examples
    --------
    >>> [backoff(n, Pace(), lambda: 0.5) for n in (1, 2, 3, 1000)]
    [30.0, 60.0, 120.0, 10800.0]
    """
    doublings = min(max(failures - 1, 0), 64)
    return uniform() * min(pace.longest, pace.first * 2.0**doublings)


def retry_after(answer: Answer, now: float, pace: Pace) -> float:
    """Return how many seconds an answer asks to be left alone, bounded; 0 where it asks nothing that can be read.

    A date is measured against the answer's own, so that a wrong clock here does not matter.

    Examples
    --------
    >>> retry_after(Answer(429, {"retry-after": "120"}), 0.0, Pace())
    120.0
    >>> date, until = "Sat, 21 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:05:00 GMT"
    >>> retry_after(Answer(503, {"retry-after": until, "date": date}), 0.0, Pace())
    300.0
    """
    asked = answer.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(asked):
        wished = float(asked)
    else:
        until, since = _date(asked), _date(answer.headers.get("date", ""))
        wished = 0.0 if until is None else until - (now if since is None else since)
    return min(max(wished, 0.0), pace.longest_asked)


def _date(text: str) -> float | None:
    import datetime as dt
    from email.utils import parsedate_to_datetime

    try:
        read = parsedate_to_datetime(text)
        return (read if read.tzinfo else read.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def unasked(row: OutboxRow, metric: Metric | None, now: float) -> Decision | None:
    """Return what happens to a row without asking the collector; None when it is to be sent.

    Parameters
    ----------
    row
        What waits.
    metric
        Its metric; None when the registry no longer lists it.
    now
        The time, in unix seconds.
    """
    if metric is None:
        return Decision(RowState.DROPPED, Reason.UNKNOWN_METRIC)
    begins = metric.period.start(row.period)  # in the future only after the clock was set back
    if now < begins:
        return Decision(RowState.WAITING, Reason.PERIOD_FUTURE, min(begins, now + DAY))
    if metric.expired(begins):
        return Decision(RowState.DROPPED, Reason.METRIC_EXPIRED)
    return Decision(RowState.DROPPED, Reason.PERIOD_CLOSED) if now >= metric.accept_until(row.period) else None


def decide(row: OutboxRow, answer: Answer, *, now: float, failures: int, pace: Pace, uniform: Uniform) -> Decision:
    """Return what an answer means for a row.

    Parameters
    ----------
    row
        What was sent; its `attempts` do not count this one.
    answer
        What came back.
    now
        The time, in unix seconds.
    failures
        How many attempts in a row this collector has failed, this one apart.
    pace
        How patient to be.
    uniform
        Draws the jitter.

    Examples
    --------
    >>> row = OutboxRow(1, bytes(16), "colour", 7, b"...", 0.0, 0, RowState.WAITING, None)
    >>> decide(row, Answer(404), now=0.0, failures=0, pace=Pace(), uniform=lambda: 0.5)
    Decision(state=<RowState.DROPPED: 'dropped'>, answer='http-404', due=0.0, resume=None, pause=0.0)
    >>> decide(row, Answer(503), now=0.0, failures=0, pace=Pace(), uniform=lambda: 0.5).due
    30.0
    """
    status = answer.status
    if status is not None and 200 <= status < 300:
        ended = _ended(_result(answer, row.batch))
        if ended is not None:
            return ended
    elif status is not None and 400 <= status < 500 and status not in RETRIED:
        return Decision(RowState.DROPPED, _reason(said(answer) or {}, f"http-{status}"))
    asked = min(retry_after(answer, now, pace), pace.longest_asked / 2)
    again = asked * (1 + uniform()) + backoff(max(row.attempts, failures) + 1, pace, uniform)
    rest = asked + backoff(failures + 1, pace, uniform)
    return Decision(RowState.WAITING, _why(answer), now + again, resume=now + rest, pause=rest)


def _ended(result: dict[str, Any] | None) -> Decision | None:
    """Return how a batch ended that the collector answers for by name; None when it must be tried again."""
    if result is None:
        return None
    if result.get("duplicate") is True:
        return Decision(RowState.SENT, "duplicate")
    accepted = result.get("accepted")
    if isinstance(accepted, int) and accepted > 0:
        return Decision(RowState.SENT, "accepted")
    if result.get("reason") in PASSING:
        return None
    rejected = result.get("rejected")
    first = rejected[0] if isinstance(rejected, list) and rejected and isinstance(rejected[0], dict) else result
    reason = _reason(first, "")
    return Decision(RowState.DROPPED, reason) if reason else None


def _result(answer: Answer, batch: bytes) -> dict[str, Any] | None:
    found = said(answer)
    results = found.get("results") if found else None
    listed = results if isinstance(results, list) else []
    return next((entry for entry in listed if isinstance(entry, dict) and entry.get("batch") == batch.hex()), None)


def _reason(found: dict[str, Any], otherwise: str) -> str:
    reason = found.get("reason")
    return reason if isinstance(reason, str) and _REASON.fullmatch(reason) else otherwise


def _why(answer: Answer) -> str:
    if answer.status is None:
        return answer.trouble or "no answer"
    if 200 <= answer.status < 300:
        return "the answer is not a collector's"
    return f"http-{answer.status}"
