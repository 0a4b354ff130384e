"""What the decision about a request hands to the store: batches of reports, and the message that each came in."""

from __future__ import annotations

from typing import NamedTuple


class Released(NamedTuple):
    """Where a batch came in a message that a shuffling relay released together with others.

    Parameters
    ----------
    release
        16 bytes, drawn by the relay for each release.
    message
        A number that batches of one message share, and those of others in the same call do not.

    Examples
    --------
    >>> Released(bytes(16), 3).message
    3
    """

    release: bytes
    message: int


class Received(NamedTuple):
    """One accepted batch of reports.

    A tuple because a collector makes one for each request, and a frozen dataclass takes several times as long.

    Parameters
    ----------
    metric, period
        The metric's id, the number of its period.
    batch, digest
        The batch's id, 16 bytes from the sender's secret or drawn: it is stored once, however often it is sent. The
        digest of the mechanism that made the reports, 16 bytes.
    num_bits, num_cohorts, num_reports
        The payload bits of a report, the mechanism's cohorts, and the reports in the batch.
    cohorts, bits
        Its columns as they travel; see `overstory.protocol.wire.upload.Batch`.
    forget_after
        Unix time in seconds after which no copy of the batch can be accepted any more.
    ends
        Unix time in seconds at which its period ends: with the batch's own bytes it never changes, whatever the
        registry says of late reports.
    group
        The group of its devices; empty where the upload named none.
    released
        The message that it came in, where a shuffling relay released it; None for any other way.

    Examples
    --------
    >>> size, times = (8, 1, 1), (1_730_678_400, 1_728_086_400)
    >>> batch = Received("colour", 20_000, bytes(16), bytes(16), *size, bytes(2), bytes(1), *times)
    >>> batch.metric, batch.num_reports
    ('colour', 1)
    """

    metric: str
    period: int
    batch: bytes
    digest: bytes
    num_bits: int
    num_cohorts: int
    num_reports: int
    cohorts: bytes
    bits: bytes
    forget_after: int
    ends: int
    group: str = ""
    released: Released | None = None
