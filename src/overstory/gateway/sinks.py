"""The destinations of a gateway's reports: a collector, with several in a request, or a file to be sent later."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from overstory.client.state.rows import OutboxRow, RowState
from overstory.client.upload.delivery import Allowed, Collector
from overstory.client.upload.retry import Decision, Failures
from overstory.protocol.errors import OverstoryError
from overstory.protocol.wire.upload import UPLOAD_HEADER, UPLOAD_MAGIC


class GatewayError(OverstoryError):
    """Reports cannot be made, stored or delivered; earlier reports remain stored."""


@dataclass(frozen=True)
class CollectorSink(Collector):
    """A collector over HTTP.

    Several periods travel in one request, so the collector sees that they are of one device; see
    docs/how-to/gateway.md. Reports of an oblivious metric go through the registry's relay, each by itself. Where the
    registry has shards, the uploads of one request are of one shard.

    Attributes
    ----------
    server, token, transport
        Where, with which write token, and how.
    policy
        After how many seconds a failed request is tried again, and how often.
    timeout
        How long to wait for an answer, in seconds.
    most_uploads, most_bytes
        The most uploads, and the most bytes, of one request.
    uniform
        Draws a number from 0 to 1, for the random part of a retry's delay.
    metrics
        The registry, whose shards decide to which path an upload goes; the gateway sets it.
    clock
        The time of day, in unix seconds, by which an answer is judged; the gateway sets it.
    until
        After which time, by `time.monotonic`, no request begins, in seconds; a gateway sets no such end.
    """

    most_uploads: int = 500


class FileSink:
    """A file of consecutive uploads, which is the body of a request to a collector. It has each report once.

    A file that is there is continued. What a run that was killed had half written is cut off, and what it had written
    without remembering so is not written again.

    Parameters
    ----------
    path
        The file; it is made when it does not exist, and continued when it does.

    Raises
    ------
    GatewayError
        When the file cannot be written, or holds something else than uploads.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = FileSink(f"{folder}/reports.ovsu")
    ...     sink.path.name, sink.path.stat().st_size
    ...     sink.close()
    ('reports.ovsu', 0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._there, self._end = _scan(self.path)
        # Unbuffered, so that nothing waits to be written once a write has failed.
        self._file = self.path.open("r+b" if self.path.exists() else "wb", buffering=0)
        try:
            self._cut()
        except OSError as error:
            self._file.close()
            raise self._unwritable(error) from error

    def deliver(
        self,
        rows: Sequence[OutboxRow],
        now: float,  # noqa: ARG002 - a file is written at once
        failures: Failures,  # noqa: ARG002 - and never refuses
        allowed: Allowed,
    ) -> dict[int, Decision]:
        """Write the rows that the file lacks; they are on the disk when this returns."""
        if not allowed():
            return {}
        new = [row for row in rows if row.batch not in self._there]
        self._append(b"".join(row.body for row in new))
        self._there.update(row.batch for row in new)
        return {row.id: Decision(RowState.SENT, "written") for row in rows}

    def _append(self, content: bytes) -> None:
        """Append and wait for the disk; if that fails, cut off what was written."""
        left = memoryview(content)
        try:
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._cut()
            raise self._unwritable(error) from error
        self._end += len(content)

    def _cut(self) -> None:
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def _unwritable(self, error: OSError) -> GatewayError:
        return GatewayError(f"{self.path}: reports cannot be written there: {error.strerror or error}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _scan(path: Path) -> tuple[set[bytes], int]:
    """Return the batch ids in a file of uploads, and the end of its last complete upload."""
    if not path.exists():
        return set(), 0
    ids, end, size = set[bytes](), 0, path.stat().st_size
    with path.open("rb") as file:
        while end + UPLOAD_HEADER.size <= size:
            file.seek(end)
            header = UPLOAD_HEADER.unpack(file.read(UPLOAD_HEADER.size))
            magic, _, _, id_length, group_length, batch, _, length = header
            if magic != UPLOAD_MAGIC:
                raise GatewayError(f"{path}: byte {end} starts no upload: this file is not a gateway's; name another")
            after = end + UPLOAD_HEADER.size + id_length + group_length + length
            if after > size:
                break
            ids.add(batch)
            end = after
        file.seek(0)
        may_be_cut = file.read(len(UPLOAD_MAGIC)) == UPLOAD_MAGIC[:size]
    if end == 0 and size > 0 and not may_be_cut:
        raise GatewayError(f"{path}: this file is not a gateway's; name another")
    return ids, end
