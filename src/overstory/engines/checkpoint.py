"""What a run has finished, in a file: a run that was killed goes on from there.

The file holds which units are done and the sum of their counts, and a checksum; it is replaced as a unit, and on the
disk before it is. It belongs to one job over the same files: their names, sizes and times, and what is counted, are in
its fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.engines.results import decode_counts, encode_counts
from overstory.files.io import replacing
from overstory.protocol.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from overstory.analysis.reports import SupportCounts
    from overstory.engines.places import Place
    from overstory.engines.units import Job, Tally, Unit

EVERY: Final = 2.0
"""Seconds between two writes, at least."""
SHARE: Final = 0.05
"""Of the time is spent on writing, at most."""
CHECKSUM: Final = 4
"""Bytes at the end of the file: the CRC-32 of all before them."""


def fingerprint(job: Job, places: Sequence[Place], units: Sequence[Unit]) -> str:
    """Return what a run is of: equal for equal files, units and questions, and where checksums are compared in both."""
    digest = hashlib.blake2b(digest_size=16)
    asked = [(name, value) for name, value in vars(job).items() if name != "packed"]
    for part in (type(job).__name__, job.mechanism().digest, *asked, *places, *units):
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


class Checkpoint:
    """The file of one run."""

    def __init__(self, path: str | Path, fingerprint: str) -> None:
        self.path, self._fingerprint = Path(path), fingerprint
        self._next = time.monotonic() + EVERY

    def belongs(self) -> bool:
        """Whether the file is of this run, or there is none."""
        return not self.path.exists() or self._header()[0].get("run") == self._fingerprint

    def read(self) -> tuple[dict[Tally, SupportCounts], set[int]] | None:
        """Return the counts and the numbers of the units they are of; None where there are none of this run.

        There are counts for each collection and range of values that units count.

        Raises
        ------
        FormatError
            When the file is damaged, or is none of a run.
        """
        if not self.path.exists():
            return None
        header, body = self._header()
        if header.get("run") != self._fingerprint:
            return None
        try:
            return self._decoded(header, body)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._damaged() from error

    def _decoded(self, header: dict[str, Any], body: bytes) -> tuple[dict[Tally, SupportCounts], set[int]]:
        numbers = {number for first, stop in header["units"] for number in range(first, stop)}
        parts: dict[Tally, SupportCounts] = {}
        at = 0
        for collection, values, size in header["parts"]:
            tally = collection, None if values is None else tuple(values)
            parts[tally], num_finished = decode_counts(body[at : at + size])
            at += size
            if num_finished != len(numbers):
                raise self._damaged()
        return parts, numbers

    def write(self, parts: Mapping[Tally, SupportCounts], finished: set[int], *, at_once: bool = False) -> None:
        """Write what is finished, now and then unless it must be written at once."""
        started = time.monotonic()
        if started < self._next and not at_once:
            return
        ranges: list[list[int]] = []
        for number in sorted(finished):
            if ranges and ranges[-1][1] == number:
                ranges[-1][1] = number + 1
            else:
                ranges.append([number, number + 1])
        encoded = [(tally, encode_counts(counts, len(finished))) for tally, counts in parts.items()]
        sizes = [[*tally, len(raw)] for tally, raw in encoded]
        header = json.dumps({"run": self._fingerprint, "units": ranges, "parts": sizes}).encode()
        content = header + b"\n" + b"".join(raw for _, raw in encoded)
        with replacing(self.path) as name, Path(name).open("wb") as file:
            file.write(content)
            file.write(zlib.crc32(content).to_bytes(CHECKSUM))
        ended = time.monotonic()
        self._next = ended + max(EVERY, (ended - started) / SHARE)

    def remove(self) -> None:
        """The run is complete; a file that is none of this run stays, whoever wrote it."""
        try:
            is_own = self.belongs()
        except FormatError:
            is_own = False
        if is_own:
            self.path.unlink(missing_ok=True)

    def _header(self) -> tuple[dict[str, Any], bytes]:
        raw = self.path.read_bytes()
        content = raw[:-CHECKSUM]
        if zlib.crc32(content).to_bytes(CHECKSUM) != raw[-CHECKSUM:]:
            raise self._damaged()
        line, _, body = content.partition(b"\n")
        try:
            header = json.loads(line)
        except ValueError:
            header = None
        if not isinstance(header, dict):
            raise self._damaged()
        return header, body

    def _damaged(self) -> FormatError:
        return FormatError(
            "this is no file of a run that was cut short, or a damaged one: remove it, or name another",
            source=str(self.path),
        )
