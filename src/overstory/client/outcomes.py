"""What the client answers, instead of raising."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overstory.client.delivering import Round
    from overstory.client.policy import Effective


class Outcome(StrEnum):
    """What `Client.record` did.

    Attributes
    ----------
    RECORDED
        The report is in memory; it is durable after the next flush.
    ALREADY
        This period has its report, from here or from another process.
    CAPPED
        One distinct value too many: the metric's rule is to drop it.
    OFF
        Something forbids it; `status` tells what.
    NOT_ASKED
        The person has not been asked, or not about this metric as it is now.
    UNKNOWN
        The registry lists no such metric.
    UNFIT
        The value is outside the metric's domain.
    EXPIRED
        The metric has expired.
    PAST
        The clock says a time so long ago that nobody remembers whether it had its report.
    UNAVAILABLE
        The state cannot be used; `status` tells why.
    CLOSED
        The client was closed.
    """

    RECORDED = "recorded"
    ALREADY = "already"
    CAPPED = "capped"
    OFF = "off"
    NOT_ASKED = "not-asked"
    UNKNOWN = "unknown-metric"
    UNFIT = "unfit"
    EXPIRED = "expired"
    PAST = "past"
    UNAVAILABLE = "unavailable"
    CLOSED = "closed"


@dataclass(frozen=True)
class Flushed:
    """What `Client.flush` did.

    Attributes
    ----------
    written
        What became of the reports that were in memory: how many were "queued", "kept" for the person alone, too many
        ("already", "capped"), "withdrawn" because consent was, or "altered".
    sent
        What the round of sending did; None when nothing was to be sent, or nobody to send it to.
    problem
        What went wrong; None when nothing did.
    """

    written: Mapping[str, int] = field(default_factory=dict)
    sent: Round | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Status:
    """What `Client.status` found.

    Attributes
    ----------
    effective
        What may be done now, and its cause.
    missing
        Metrics that the person has not been asked about.
    folder
        Where the state lies, or would.
    pending
        Reports in memory alone.
    outbox
        Reports in the outbox by state: waiting, sent, dropped, local.
    counts
        What happened so far, by word.
    problem
        Why the state cannot be used, or the last thing that went wrong; None when all is well.
    """

    effective: Effective
    missing: tuple[str, ...]
    folder: Path
    pending: int = 0
    outbox: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
