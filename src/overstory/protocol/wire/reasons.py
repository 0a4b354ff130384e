"""Why a collector refuses: one list of reasons, with a status and a sentence each, for both sides.

Bearer tokens, as they go into a header: what a device, a gateway and a reader of counts show to a collector.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Self

from overstory.protocol.errors import ParameterError, WireError

_FINAL: Final = "final"
_OF_METRIC: Final = "of a metric"
_AGAIN: Final = "send the same bytes again after Retry-After."


class Reason(StrEnum):
    """A reason code, as it stands in an answer.

    `status` is the HTTP status that an answer with it has, `detail` says it in one sentence, with what to do about it.
    It is `final` where nothing makes a collector take the same bytes: a device drops them. Others wait.
    It is `of_metric` where it holds for every report of a metric, and for no other: the two sides' registries differ.

    >>> Reason.PERIOD_CLOSED.value, Reason.PERIOD_CLOSED.status
    ('period-closed', 410)
    >>> Reason("queue-full").detail
    'The collector has more reports waiting than it takes: send the same bytes again after Retry-After.'
    """

    status: int
    detail: str
    final: bool
    of_metric: bool

    # A look-up, `Reason(code)`, gives the code alone.
    def __new__(cls, code: str, status: int = 0, detail: str = "", about: str = "") -> Self:
        reason = str.__new__(cls, code)
        reason._value_, reason.status, reason.detail = code, status, detail
        reason.final, reason.of_metric = about == _FINAL, about == _OF_METRIC
        return reason

    DAMAGED = "damaged", 400, "The bytes are no batch of reports, or were damaged on their way.", _FINAL
    TOO_LARGE = "too-large", 413, "The request is larger than this collector takes: send smaller batches.", _FINAL
    TOO_MANY = (
        *("too-many", 413),
        "The request holds more uploads or reports than this collector takes: send fewer at once.",
        _FINAL,
    )
    WRONG_TYPE = (
        "wrong-type",
        415,
        "The content type is not one that this collector reads, or the body has a Content-Encoding.",
    )
    NO_TOKEN = "no-token", 401, "The request has no write token: send it as Authorization: Bearer."
    UNKNOWN_TOKEN = "unknown-token", 401, "The write token is not known here, was revoked, or has expired."
    UNKNOWN_METRIC = "unknown-metric", 404, "The registry of this collector does not list the metric.", _OF_METRIC
    WRONG_PARAMETERS = (
        *("wrong-parameters", 409),
        "The reports were made with other parameters than the registry's.",
        _OF_METRIC,
    )
    UNKNOWN_GROUP = (
        *("unknown-group", 409),
        "The registry of this collector does not list the group for this metric.",
        _OF_METRIC,
    )
    WRONG_TRANSPORT = (
        *("wrong-transport", 403),
        "Reports of this metric are taken only through a relay, sealed: the collector must not see who sends them.",
        _FINAL,
    )
    METRIC_EXPIRED = "metric-expired", 410, "The metric has expired: it is no longer collected.", _OF_METRIC
    PERIOD_CLOSED = "period-closed", 410, "The period ended too long ago: its reports are no longer taken.", _FINAL
    PERIOD_FUTURE = "period-future", 400, "The period has not begun: the sender's clock is wrong."
    COHORT = "cohort", 400, "A report names a cohort that does not exist.", _FINAL
    BITS = "bits", 400, "A report has bits that the metric's reports do not have.", _FINAL
    QUEUE_FULL = "queue-full", 429, f"The collector has more reports waiting than it takes: {_AGAIN}"
    CLOSING = "closing", 503, f"The collector is shutting down: {_AGAIN}"
    STORE = "store", 503, f"The collector cannot write to its store: {_AGAIN}"
    FAULT = "fault", 503, f"The collector has a fault of its own: {_AGAIN}"

    @property
    def passing(self) -> bool:
        """Whether it ends by itself; what is neither passing nor final waits for an operator, or for the clock."""
        return self.status in {429, 503}

    @classmethod
    def of(cls, error: WireError) -> Reason:
        """Return the reason of an error of the wire: the one of its name, else `damaged`."""
        return cls(error.reason) if error.reason in set(cls) else cls.DAMAGED


# Where the words of the reason are not clear enough.
_TITLES: Final = {
    "damaged": "Damaged request body",
    "too-large": "Request too large",
    "too-many": "Too many uploads or reports",
    "wrong-type": "Unsupported content type",
    "period-future": "Period has not begun",
    "cohort": "No such cohort",
    "bits": "Bits that no report has",
    "closing": "Collector is shutting down",
    "store": "Store unavailable",
    "fault": "Internal error",
    "slow": "Request timeout",
    "method": "Method not allowed",
    "parameters": "Invalid parameters",
    "request": "Invalid request",
    "http": "Invalid HTTP request",
    "head": "Request headers too large",
    "transfer-encoding": "Unsupported transfer encoding",
}


def problem_type(reason: str) -> str:
    """Return the `type` of a problem: a relative reference (RFC 9457), for overstory has no domain of its own."""
    return f"/problems/{reason}"


KEY_PROBLEM: Final = "https://iana.org/assignments/http-problem-types#ohttp-key"
"""The `type` of the problem that a collector opens no message that is sealed for this key (RFC 9458, section 5.3)."""


def problem_title(reason: str) -> str:
    """Return the `title` of a problem with that reason."""
    return _TITLES.get(reason) or reason.replace("-", " ").capitalize()


def problem_detail(problem: Mapping[str, Any]) -> str | None:
    """Return the sentence of a collector's problem details; None where there is none."""
    detail = problem.get("detail")
    return detail if isinstance(detail, str) else None


def is_own_problem(problem: Mapping[str, Any], reason: str) -> bool:
    """Whether a body with that reason is a collector's: anybody may answer with problem details, not of this `type`."""
    return problem.get("type") == problem_type(reason) and isinstance(problem.get("detail"), str)


def check_token(token: str) -> str:
    """Return `token`, or raise ParameterError unless it can stand in a header."""
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise ParameterError("token: give it as it was handed out, printable ASCII without spaces")
    return token
