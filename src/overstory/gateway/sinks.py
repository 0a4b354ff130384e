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
    """A collector that takes several periods in one request, and so sees that they are of one device."""

    most_uploads: int = 500


class FileSink:
    """A file of consecutive uploads, which is the body of a request to a collector. It has each report once.

    A file that is there is continued. What a run that was killed had half written is cut off, and what it had written
    without remembering so is not written again.
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
