"""Packed reports (.ovsb): wire batches one after the other, read and written one at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

from overstory.analysis.reports import ReportBatch
from overstory.files.opening import reading, writing
from overstory.protocol.errors import FormatError, WireError
from overstory.protocol.wire import HEADER, Batch, batch_length, decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overstory.files.opening import Advance, FilePath
    from overstory.files.records import Skipped

LONGEST_BATCH = 1 << 28
"""Bytes of one batch at most; writers make them about a megabyte."""


def write_packed(path: FilePath, batches: Iterable[bytes]) -> None:
    """Write encoded batches, in a stream."""
    with writing(path) as stream:
        for batch in batches:
            stream.write(batch)


def read_packed(path: FilePath, *, skipped: Skipped | None = None, advance: Advance | None = None) -> Iterator[Batch]:
    """Yield the batches, in a stream; several files put end to end are one file.

    With `skipped`, a damaged batch is counted and passed over, as long as its header says where the next one starts.

    Raises
    ------
    FormatError
        When the file is empty or cut short, or (unless skipped) a batch is damaged.
    """
    source = os.fspath(path)
    with reading(path, advance) as stream:
        number = 0
        while header := stream.read(HEADER.size):
            number += 1
            raw = header + _rest(stream, header, f"batch {number}", source)
            try:
                yield decode_batch(raw)
            except WireError as error:
                refusal = FormatError(f"batch {number}: {error.problem}", source=source)
                if skipped is None:
                    raise refusal from error
                skipped.add(refusal)
        if not number:
            raise FormatError("the file is empty: expected at least one packed batch", source=source)


def _rest(stream: BinaryIO, header: bytes, name: str, source: str) -> bytes:
    """Read what follows the header, in pieces: a length that lies does not claim memory."""
    try:
        missing = batch_length(header) - len(header)
    except WireError as error:
        raise FormatError(f"{name}: {error.problem}", source=source) from error
    if missing > LONGEST_BATCH:
        raise FormatError(f"{name}: it announces {missing} bytes; expected at most {LONGEST_BATCH}", source=source)
    pieces = []
    while missing and (piece := stream.read(min(missing, 1 << 20))):
        pieces.append(piece)
        missing -= len(piece)
    if missing:
        raise FormatError(f"{name}: the file ends {missing} bytes before the batch does", source=source)
    return b"".join(pieces)


def as_reports(batch: Batch) -> ReportBatch:
    """Return a wire batch as arrays."""
    return ReportBatch.from_wire(batch)
