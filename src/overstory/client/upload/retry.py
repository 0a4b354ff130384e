"""What becomes of a queued report: pure decisions, from a row, an answer and a clock to what happens next.

A report waits, and ends **sent** or **dropped**, once. What the collector answers decides:

=====================================  ========================================================================
2xx that names the batch as taken      sent; a duplicate is a success: an earlier answer was lost
the collector's refusal, final         dropped, with its reason: nothing makes a collector take these bytes
its refusal of one metric              waits, and so do the other reports of the metric
its refusal of the period (too early)  waits by itself
its refusal of everything              waits, and so does all that goes to this collector: exponential backoff with
                                       full jitter, and Retry-After at least
anybody else's answer, any status      waits, likewise: a portal, a proxy, another server
no answer                              waits, likewise
the period is closed                   dropped unasked: so every wait ends with the metric's grace
=====================================  ========================================================================

A refusal is the collector's own when its body is the JSON of one, with a reason that is known here and the status that
belongs to it.

A time that the collector asks for is no timetable: each report draws its own, uniform from once to twice as long. If
it came back in the minute asked for, a collector could tell a device again by the minute that it gave it.

Nothing here looks at a socket, a file or a clock, and a retry is no decision about bytes: they are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from overstory.client.state.outbox import OutboxRow, RowState
from overstory.client.upload.http import Answer, said
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.wire.reasons import Reason

Uniform = Callable[[], float]
"""Draws from [0, 1)."""

RETRIED: Final = frozenset({408, 425, 429})
DAY: Final = 86_400.0
_REASON: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_STRANGERS: Final = re.compile(r"http-[0-9]+, .*")
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
    resume
        The time before which nothing else is sent to this collector either; None when it is well.
    """

    state: RowState  # sent, dropped, or still waiting
    answer: str  # why, in a word or a few
    due: float = 0.0  # when to try again; meaningless unless it waits
    resume: float | None = None
    pause: float = 0.0  # over how many seconds after `resume` the reports that have to wait for it are spread
    of_metric: bool = False  # whether `resume` and `pause` hold for the row's metric alone


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


def decide(
    row: OutboxRow,
    answer: Answer,
    *,
    now: float,
    failures: int,
    pace: Pace,
    uniform: Uniform,
    metric_failures: int = 0,
) -> Decision:
    """Return what an answer means for a row.

    Parameters
    ----------
    row
        What was sent; its `attempts` do not count this one.
    now
        The time, in unix seconds.
    metric_failures
        How many reports in a row of this metric the collector has refused, this one apart.

    Examples
    --------
    >>> row = OutboxRow(1, bytes(16), "colour", 7, b"...", 0.0, 0, RowState.WAITING, None)
    >>> refused = Answer(410, {}, b'{"reason": "period-closed", "said": "...", "results": []}')
    >>> decide(row, refused, now=0.0, failures=0, pace=Pace(), uniform=lambda: 0.5).state
    <RowState.DROPPED: 'dropped'>
    >>> portal = decide(row, Answer(404, {}, b"<html>"), now=0.0, failures=0, pace=Pace(), uniform=lambda: 0.5)
    >>> portal.state, portal.answer, portal.due
    (<RowState.WAITING: 'waiting'>, 'http-404, a page', 30.0)
    """
    state, why = _verdict(answer, row.batch)
    if state is not RowState.WAITING:
        return Decision(state, why)
    reason = known(why)
    of_metric = reason is not None and reason.of_metric
    in_a_row = metric_failures if of_metric else failures
    asked = min(retry_after(answer, now, pace), pace.longest_asked / 2)
    again = now + asked * (1 + uniform()) + backoff(max(row.attempts, in_a_row) + 1, pace, uniform)
    if reason is Reason.PERIOD_FUTURE:
        return Decision(RowState.WAITING, why, again)
    rest = asked + backoff(in_a_row + 1, pace, uniform)
    return Decision(RowState.WAITING, why, again, resume=now + rest, pause=rest, of_metric=of_metric)


def known(word: object) -> Reason | None:
    """Return the reason of that name; None where there is none.

    Examples
    --------
    >>> known("bits"), known("not-found"), known(7)
    (<Reason.BITS: 'bits'>, None, None)
    """
    return Reason(word) if isinstance(word, str) and word in set(Reason) else None


def problem_words(why: str, metric: str = "") -> str | None:
    """Return what is wrong with the answers, in words; None for what passes by itself, as a lost network does.

    Parameters
    ----------
    why
        The `answer` of a decision.

    Examples
    --------
    >>> for why in ("unknown-token", "http-403, a page", "http-503"):
    ...     print(problem_words(why))
    the collector refuses (unknown-token)
    the answers are not the collector's (http-403, a page)
    None
    """
    reason = known(why)
    if reason is not None and not reason.passing:
        return f"the collector refuses{metric and ' '}{metric} ({why})"
    return f"the answers are not the collector's ({why})" if _STRANGERS.fullmatch(why) else None


def _verdict(answer: Answer, batch: bytes) -> tuple[RowState, str]:
    """Return what becomes of a batch by an answer, and why in a few words."""
    if answer.status is None:
        return RowState.WAITING, answer.trouble or "no answer"
    body = said(answer) or {}
    refusal = _refusal(body, answer.status)
    results = body.get("results") if refusal is not None or 200 <= answer.status < 300 else None
    named = _named(results, batch)
    if named is not None:
        return _of_result(named) or (RowState.WAITING, _strangers(answer))
    if refusal is None or results:  # a refusal that speaks of other batches, and not of this one, is not of it
        return RowState.WAITING, _strangers(answer)
    return _ended(refusal), refusal


def _refusal(body: dict[str, Any], status: int) -> Reason | None:
    """Return the reason of a collector's refusal; None where the body is none, or its status belongs to another."""
    reason = known(body.get("reason"))
    whole = isinstance(body.get("said"), str) and isinstance(body.get("results"), list)
    return reason if reason is not None and whole and reason.status == status else None


def _named(results: object, batch: bytes) -> dict[str, Any] | None:
    listed = results if isinstance(results, list) else []
    return next((entry for entry in listed if isinstance(entry, dict) and entry.get("batch") == batch.hex()), None)


def _of_result(result: dict[str, Any]) -> tuple[RowState, str] | None:
    """Return what a collector says of a batch by name; None where it says nothing that is known here."""
    if result.get("duplicate") is True:
        return RowState.SENT, "duplicate"
    accepted, rejected = result.get("accepted"), result.get("rejected")
    if isinstance(accepted, int) and accepted > 0:
        return RowState.SENT, "accepted"
    first = rejected[0] if isinstance(rejected, list) and rejected and isinstance(rejected[0], dict) else result
    reason = known(first.get("reason"))
    return None if reason is None else (_ended(reason), reason)


def _ended(reason: Reason) -> RowState:
    return RowState.DROPPED if reason.final else RowState.WAITING


def _strangers(answer: Answer) -> str:
    """Return what answered, where it was no collector: its status, and what kind of thing came with it."""
    status = f"http-{answer.status}"
    if answer.status in RETRIED or 500 <= (answer.status or 0) < 600:
        return status  # busy or broken, whoever it is
    body, start = said(answer), answer.body.lstrip()[:1]
    if body is not None:
        reason = body.get("reason")
        return f"{status}, {reason if isinstance(reason, str) and _REASON.fullmatch(reason) else 'JSON'}"
    return f"{status}, {'a page' if start == b'<' else 'other bytes' if start else 'empty'}"
