"""What a collector takes at most: bounds on one request, and on everything that waits to be committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds; what is beyond one of them is answered with a reason, never kept.

    Attributes
    ----------
    json_bytes
        The same of a body in JSON, inflated or not: it takes far longer to read, and some twenty times its size.
    uploads, reports
        Of one request.
    queue_reports, queue_bytes
        Of everything that waits for its commit, what is being committed included.
    reading_bytes
        Of all bodies that are being received, or wait to be inflated or parsed, at one moment.
    """

    body_bytes: int = 8 * MEBIBYTE  # of a request's body as it travels
    json_bytes: int = MEBIBYTE
    inflated_bytes: int = 16 * MEBIBYTE  # of a compressed body once inflated. Inflating stops there.
    uploads: int = 1_000
    reports: int = 100_000
    queue_reports: int = 1_000_000
    queue_bytes: int = 128 * MEBIBYTE
    reading_bytes: int = 128 * MEBIBYTE
    reading_seconds: float = 30.0  # for a request to arrive whole
    taking_seconds: float = 30.0  # for a sender to take an answer
    head_bytes: int = 32 * 1024  # of a request's head, and of its trailers
