"""What the decision about a request hands to the store: batches of reports, and the message that each came in."""

from __future__ import annotations

from typing import NamedTuple


class Released(NamedTuple):
    """Where a batch came in a message that a shuffling relay released together with others."""

    release: bytes  # 16 bytes, drawn by the relay for each release
    message: int  # that batches of one message share, and those of others in the same call do not


class Received(NamedTuple):
    """One accepted batch of reports; a tuple, because a frozen dataclass takes several times as long to make."""

    metric: str
    period: int  # its number
    batch: bytes  # 16 bytes from the sender's secret or drawn: it is stored once, however often it is sent
    digest: bytes  # of the mechanism that made the reports, 16 bytes
    num_bits: int  # of a report's payload
    num_cohorts: int  # of the mechanism
    num_reports: int  # in the batch
    cohorts: bytes  # columns as they travel, as `bits`: see `overstory.protocol.wire.upload.Batch`
    bits: bytes
    forget_after: int  # unix time in seconds after which no copy of the batch can be accepted any more
    # Unix time at which its period ends: with the batch's own bytes it never changes, whatever the registry says.
    ends: int
    group: str = ""  # of its devices; empty where the upload named none
    released: Released | None = None  # the message that it came in, where a shuffling relay released it
