"""The packed batch: how reports travel. Columns of one mechanism's reports, self-describing, checked, nothing spare.

    magic "OVSB" | version u8 | zero u8 | num_bits u16 | num_cohorts u32 | num_reports u32 | digest 16 bytes
    cohort column  u16 x num_reports (u32 when there are more than 2**16 cohorts: hash seeds, matrix rows)
    bit column     ceil(num_bits / 8) bytes x num_reports, bit i of a report in byte i // 8, place i % 8
    CRC-32 of all the above, u32

All integers are little-endian. The decoder consumes everything or refuses: trailing bytes, a cohort that does not
exist, a bit past the last one, and any damage are one `WireError` each.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from overstory.protocol.encodings.base import MAX_COHORTS, SEEDS, check_cohort, check_count
from overstory.protocol.errors import WireError
from overstory.protocol.mechanisms.base import Report

MAGIC: Final = b"OVSB"
VERSION: Final = 1
HEADER: Final = struct.Struct("<4sBBHII16s")
TRAILER: Final = struct.Struct("<I")


@dataclass(frozen=True)
class Batch:
    """A decoded batch: raw little-endian columns, to be viewed as arrays or read one by one.

    Parameters
    ----------
    cohorts, bits
        The two columns' bytes.
    """

    digest: bytes
    num_bits: int
    num_cohorts: int
    num_reports: int
    cohorts: bytes
    bits: bytes

    def __iter__(self) -> Iterator[Report]:
        width, cohort_bytes = (self.num_bits + 7) // 8, cohort_width(self.num_cohorts)
        for i in range(self.num_reports):
            cohort = int.from_bytes(self.cohorts[i * cohort_bytes : (i + 1) * cohort_bytes], "little")
            yield Report(cohort, int.from_bytes(self.bits[i * width : (i + 1) * width], "little"))


def cohort_width(num_cohorts: int) -> int:
    """Return how many bytes a cohort travels in.

    Examples
    --------
    >>> cohort_width(16), cohort_width(1 << 31)
    (2, 4)
    """
    return 2 if num_cohorts <= MAX_COHORTS else 4


def encode_columns(digest: bytes, num_bits: int, num_cohorts: int, cohorts: bytes, bits: bytes) -> bytes:
    """Write a batch from its columns."""
    header = HEADER.pack(MAGIC, VERSION, 0, num_bits, num_cohorts, len(cohorts) // cohort_width(num_cohorts), digest)
    body = b"".join((header, cohorts, bits))
    return body + TRAILER.pack(zlib.crc32(body))


class Sender(Protocol):
    """What a batch must know of whose reports it holds: a mechanism, or what takes numbers."""

    @property
    def digest(self) -> bytes:
        """Of the parameters."""
        ...

    @property
    def payload_bits(self) -> int:
        """Width of a report."""
        ...

    @property
    def num_cohorts(self) -> int:
        """How many values its public part can take."""
        ...


def encode_reports(mechanism: Sender, reports: Iterable[Report]) -> bytes:
    """Write `reports` of `mechanism` as one batch.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> basic = mechanism("basic-rappor", domain_size=4)
    >>> list(decode_batch(encode_reports(basic, [Report(0, 5)])))
    [Report(cohort=0, bits=5)]
    """
    num_bits, num_cohorts = mechanism.payload_bits, mechanism.num_cohorts
    width, cohort_bytes, most = (num_bits + 7) // 8, cohort_width(num_cohorts), (1 << num_bits) - 1
    cohorts, bits = bytearray(), bytearray()
    for report in reports:
        check_cohort(report.cohort, num_cohorts)
        check_count("a report's bits", report.bits, 0, most)
        cohorts += report.cohort.to_bytes(cohort_bytes, "little")
        bits += report.bits.to_bytes(width, "little")
    return encode_columns(mechanism.digest, num_bits, num_cohorts, bytes(cohorts), bytes(bits))


def batch_length(header: bytes) -> int:
    """Return the whole length in bytes of the batch that starts with these `HEADER.size` bytes."""
    if len(header) < HEADER.size:
        raise WireError("short", f"a batch's header has {HEADER.size} bytes; {len(header)} are here")
    magic, version, zero, num_bits, num_cohorts, num_reports, _ = HEADER.unpack_from(header)
    if magic != MAGIC:
        raise WireError("magic", f"a batch starts with {MAGIC!r}, this with {magic!r}")
    if version != VERSION or zero:
        raise WireError("version", f"this reads batches of version {VERSION}, not {version}.{zero}")
    length: int = HEADER.size + num_reports * (cohort_width(num_cohorts) + (num_bits + 7) // 8) + TRAILER.size
    return length


def decode_batch(raw: bytes) -> Batch:
    """Read one batch, all of `raw`."""
    expected = batch_length(raw[: HEADER.size])
    if len(raw) != expected:
        raise WireError("length", f"the header announces a batch of {expected} bytes; {len(raw)} are here")
    body = len(raw) - TRAILER.size
    if zlib.crc32(memoryview(raw)[:body]) != TRAILER.unpack_from(raw, body)[0]:
        raise WireError("checksum", "the batch was damaged on its way: its checksum does not match")
    _, _, _, num_bits, num_cohorts, num_reports, digest = HEADER.unpack_from(raw)
    split = HEADER.size + cohort_width(num_cohorts) * num_reports
    batch = Batch(digest, num_bits, num_cohorts, num_reports, raw[HEADER.size : split], raw[split:body])
    _check_columns(batch)
    return batch


def _check_columns(batch: Batch) -> None:
    cohorts = array("H" if cohort_width(batch.num_cohorts) == 2 else "I", batch.cohorts)
    if struct.pack("=H", 1) != struct.pack("<H", 1):  # pragma: no cover - big-endian machines
        cohorts.byteswap()
    if batch.num_bits == 0:
        raise WireError("bits", "a report has at least one bit")
    if not 1 <= batch.num_cohorts <= SEEDS:
        raise WireError("cohort", f"a collection has 1 to {SEEDS} cohorts, not {batch.num_cohorts}")
    if cohorts and max(cohorts) >= batch.num_cohorts:
        raise WireError("cohort", f"cohort {max(cohorts)} does not exist: cohorts are 0 .. {batch.num_cohorts - 1}")
    width, spare = (batch.num_bits + 7) // 8, -batch.num_bits % 8
    if spare and batch.num_reports and max(batch.bits[width - 1 :: width]) >> (8 - spare):
        raise WireError("bits", f"a report has bits past its {batch.num_bits}")
