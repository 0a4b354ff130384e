"""What a worker returns: the counts of a unit, as bytes with a checksum; and taking results as they end."""

from __future__ import annotations

import struct
import zlib
from concurrent.futures import FIRST_COMPLETED, wait
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from overstory.analysis.reports import SupportCounts
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

Given = TypeVar("Given")
Result = TypeVar("Result")

HEADER: Final = struct.Struct("<4sIIQI")
MAGIC: Final = b"OVSC"


def encode_counts(counts: SupportCounts, num_reports: int) -> bytes:
    """Write counts, and how many reports were read for them.

    Examples
    --------
    >>> decode_counts(encode_counts(SupportCounts([2], [[1, 0]]), 2))
    (SupportCounts(2 reports, num_cohorts=1, num_bits=2), 2)
    """
    body = counts.totals.astype("<i8").tobytes() + counts.ones.astype("<i8").tobytes()
    return HEADER.pack(MAGIC, counts.num_cohorts, counts.num_bits, num_reports, zlib.crc32(body)) + body


def decode_counts(raw: bytes) -> tuple[SupportCounts, int]:
    """Read what `encode_counts` wrote.

    Raises
    ------
    FormatError
        When these are no counts, or damaged ones.
    """
    if len(raw) < HEADER.size:
        raise FormatError(f"counts have a header of {HEADER.size} bytes; {len(raw)} are here")
    magic, cohorts, bits, num_reports, checksum = HEADER.unpack_from(raw)
    body = raw[HEADER.size :]
    if magic != MAGIC or len(body) != 8 * cohorts * (bits + 1) or zlib.crc32(body) != checksum:
        raise FormatError("these bytes are no counts, or were damaged on their way")
    numbers = np.frombuffer(body, "<i8")
    return SupportCounts(numbers[:cohorts], numbers[cohorts:].reshape(cohorts, bits)), num_reports


def results_of(
    pool: Executor, function: Callable[[Given], Result], given: Iterable[Given], *, ahead: int
) -> Iterator[Result]:
    """Call a function in a pool, and yield the results as they end.

    Parameters
    ----------
    ahead
        How many calls are waiting, running, or ended and not yet taken, at most: memory does not grow with their
        number, however slowly the results are taken.
    """
    calls = iter(given)
    running = {pool.submit(function, one) for one in islice(calls, ahead)}
    ended: set[Future[Result]] = set()
    try:
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            while ended:
                result = ended.pop().result()
                running |= {pool.submit(function, one) for one in islice(calls, 1)}
                yield result
                del result
    finally:
        for waiting in running | ended:
            waiting.cancel()
