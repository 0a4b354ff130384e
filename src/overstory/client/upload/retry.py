"""Decides what happens to a queued report, from its row, the collector's answer and the time. No I/O.

A report waits until it is **sent** or **dropped**; "What the collector answers" in docs/how-to/client.md says what each
answer does. A refusal is the collector's own when its body is a JSON refusal whose reason this version defines, with
the status of that reason.

Each report draws its own delay from a Retry-After, uniform from once to twice as long. If it came back in the minute
asked for, a collector could recognize a device by the minute that it assigned to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from overstory.client.state.rows import OutboxRow, RowState
from overstory.client.upload.http import Response, parse_object
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.wire.reasons import KEY_PROBLEM, Reason, is_own_problem

Uniform = Callable[[], float]  # draws from [0, 1)

Covers = Callable[[Metric], bool]  # returns whether the person's consent covers a metric as it is now

Failures = Mapping[str, int]  # consecutive failures of the collector, and consecutive refusals of each metric

COLLECTOR: Final = ""  # the key of the collector among those of the metrics

RETRIED: Final = frozenset({408, 425, 429})
DAY: Final = 86_400.0
_REASON: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_STRANGER: Final = re.compile(r"http-[0-9]+, .*")
RELAY: Final = "relay: "  # how the answer of a decision begins when it came from a relay, or none came
RELAYED: Final = "relayed"
NO_RELAY: Final = "none in the registry"
NO_KEY: Final = "no usable key"
KEYS_REFUSED: Final = "keys refused"
UNOPENED: Final = "an answer that does not open"
_RELAY_PROBLEMS: Final = {
    f"{RELAY}{NO_RELAY}": "the registry names no relay",
    f"{RELAY}{NO_KEY}": "this version can use no key of the registry",
    f"{RELAY}{KEYS_REFUSED}": "the collector refuses the registry's keys",
    f"{RELAY}{UNOPENED}": "the answers are encrypted for another request",
}
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class RetryPolicy:
    """How long a device waits before it sends again, in seconds."""

    first: float = 60.0  # the backoff after one failure: the upper end of a uniform draw
    longest: float = 6 * 3600.0  # the most that it grows to
    longest_asked: float = 24 * 3600.0  # that a Retry-After can make a report wait: half of it is obeyed at most
    lease: float = 120.0  # for which reports belong to the process that took them; a crash delays them by it at most


@dataclass(frozen=True)
class Decision:
    """What happens to a row next."""

    state: RowState  # sent, dropped, or still waiting
    answer: str  # why, in a word or a few
    due: float = 0.0  # when to try again; meaningless unless it waits
    resume: float | None = None  # nothing else is sent to this collector before; None when it takes reports
    pause: float = 0.0  # over how many seconds after `resume` the reports that have to wait for it are spread
    of_metric: bool = False  # whether `resume` and `pause` hold for the row's metric alone


def backoff(failures: int, policy: RetryPolicy, uniform: Uniform) -> float:
    """Return the seconds to wait after consecutive failures: full jitter, uniform from 0; the upper end doubles."""
    doublings = min(max(failures - 1, 0), 64)
    return uniform() * min(policy.longest, policy.first * 2.0**doublings)


def retry_after(response: Response, now: float, policy: RetryPolicy) -> float:
    """Return the bounded seconds that Retry-After asks for, or 0; a date is measured against the response's Date."""
    asked = response.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(asked):
        wished = float(asked)
    else:
        until, since = _date(asked), _date(response.headers.get("date", ""))
        wished = 0.0 if until is None else until - (now if since is None else since)
    return min(max(wished, 0.0), policy.longest_asked)


def _date(text: str) -> float | None:
    import datetime as dt
    from email.utils import parsedate_to_datetime

    try:
        read = parsedate_to_datetime(text)
        return (read if read.tzinfo else read.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def decide_before_sending(
    row: OutboxRow,
    metric: Metric | None,  # None where it is not listed
    now: float,
    covers: Covers = lambda _: True,
    *,
    has_relay: bool = False,
) -> Decision | None:
    """Return a decision on a row that is too late, not covered or without its relay; None when it has to be sent."""
    if metric is None:
        return Decision(RowState.DROPPED, Reason.UNKNOWN_METRIC)
    begins = metric.period.start(row.period)  # in the future only after the clock was set back
    if now < begins:
        return Decision(RowState.WAITING, Reason.PERIOD_FUTURE, min(begins, now + DAY))
    if metric.expired(begins) or now >= metric.accept_until(row.period):
        return Decision(RowState.DROPPED, Reason.METRIC_EXPIRED if metric.expired(begins) else Reason.PERIOD_CLOSED)
    if not covers(metric):
        return Decision(RowState.WAITING, NOT_ASKED, now + HELD)
    if metric.is_oblivious and not has_relay:
        return Decision(RowState.WAITING, f"{RELAY}{NO_RELAY}", now + HELD)
    return None


NOT_ASKED: Final = "not asked about as it is now"
HELD: Final = 3600.0  # seconds until a report that may not be sent is looked at again


def decide(
    row: OutboxRow,  # its `attempts` do not count this one
    response: Response,
    *,
    now: float,
    failures: Failures,  # without this one
    policy: RetryPolicy,
    uniform: Uniform,
) -> Decision:
    """Return what an answer means for a row."""
    state, why = _judge(response, row.batch)
    if state is not RowState.WAITING:
        return Decision(state, why)
    reason = parse_reason(why)
    of_metric = response.relay or (reason is not None and reason.of_metric)
    in_a_row = failures.get(row.metric if of_metric else COLLECTOR, 0)
    asked = min(retry_after(response, now, policy), policy.longest_asked / 2)
    again = now + asked * (1 + uniform()) + backoff(max(row.attempts, in_a_row) + 1, policy, uniform)
    if reason is Reason.PERIOD_FUTURE:
        return Decision(RowState.WAITING, why, again)
    rest = asked + backoff(in_a_row + 1, policy, uniform)
    return Decision(RowState.WAITING, why, again, resume=now + rest, pause=rest, of_metric=of_metric)


def parse_reason(word: object) -> Reason | None:
    """Return the reason of this name; None where there is none."""
    return Reason(word) if isinstance(word, str) and word in set(Reason) else None


def problem_words(why: str, metric: str = "") -> str | None:
    """Describe what is wrong by the `answer` of a decision; None for what passes by itself, such as a lost network."""
    if why.startswith(RELAY):
        problem = _RELAY_PROBLEMS.get(why)
        if problem is None and _STRANGER.fullmatch(why.removeprefix(RELAY)):
            problem = f"the answers are not a relay's ({why.removeprefix(RELAY)})"
        return f"{problem} for {metric}" if problem and metric else problem
    reason = parse_reason(why)
    if reason is not None and not reason.passing:
        return f"the collector refuses{metric and ' '}{metric} ({why})"
    return f"the answers are not the collector's ({why})" if _STRANGER.fullmatch(why) else None


def _judge(response: Response, batch: bytes) -> tuple[RowState, str]:
    """Return the new state of a batch after a response, and the reason in a few words."""
    if response.relay:
        return _judge_relay(response)
    if response.status is None:
        return RowState.WAITING, response.error or "no answer"
    body = parse_object(response) or {}
    refusal = _refusal(body, response.status)
    results = body.get("results") if refusal is not None or 200 <= response.status < 300 else None
    listed = results if isinstance(results, list) else []
    result = next((each for each in listed if isinstance(each, dict) and each.get("batch") == batch.hex()), None)
    if result is not None:
        return _read_result(result) or (RowState.WAITING, _describe_stranger(response))
    if refusal is None or results:  # it refuses other batches, and not this one
        return RowState.WAITING, _describe_stranger(response)
    return _end_state(refusal), refusal


def _judge_relay(response: Response) -> tuple[RowState, str]:
    """Likewise, of what a relay answered: it has stored the message, or there is a problem that passes."""
    if response.status == 202 and not response.body:
        return RowState.SENT, RELAYED
    if response.status is None:
        return RowState.WAITING, f"{RELAY}{response.error or 'no answer'}"
    if (parse_object(response) or {}).get("type") == KEY_PROBLEM:
        return RowState.WAITING, f"{RELAY}{KEYS_REFUSED}"
    return RowState.WAITING, f"{RELAY}{_describe_stranger(response)}"


def _refusal(body: dict[str, Any], status: int) -> Reason | None:
    reason = parse_reason(body.get("reason"))
    if reason is None or reason.status != status or not isinstance(body.get("results"), list):
        return None
    return reason if is_own_problem(body, reason) else None


def _read_result(result: dict[str, Any]) -> tuple[RowState, str] | None:
    """Return the state and reason that a collector gives for one batch; None where its reason is not defined here."""
    if result.get("duplicate") is True:
        return RowState.SENT, "duplicate"
    accepted, rejected = result.get("accepted"), result.get("rejected")
    if isinstance(accepted, int) and accepted > 0:
        return RowState.SENT, "accepted"
    first = rejected[0] if isinstance(rejected, list) and rejected and isinstance(rejected[0], dict) else result
    reason = parse_reason(first.get("reason"))
    return None if reason is None else (_end_state(reason), reason)


def _end_state(reason: Reason) -> RowState:
    return RowState.DROPPED if reason.final else RowState.WAITING


def _describe_stranger(response: Response) -> str:
    """Describe a response that no collector sent: its status, and the kind of its body."""
    status = f"http-{response.status}"
    if response.status in RETRIED or 500 <= (response.status or 0) < 600:
        return status  # busy or broken, a relay or the collector
    body, start = parse_object(response), response.body.lstrip()[:1]
    if body is not None:
        reason = body.get("reason")
        return f"{status}, {reason if isinstance(reason, str) and _REASON.fullmatch(reason) else 'JSON'}"
    return f"{status}, {'a page' if start == b'<' else 'other bytes' if start else 'empty'}"
