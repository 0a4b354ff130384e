"""Support counts as bytes: as narrow as the largest of them allows, and checked when they are read.

    version u8 = 1 | bytes per count u8 | zero u16 | rows u32 | columns u32 | totals | ones, row by row | CRC-32 u32

All little-endian.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from overstory.collector.store.errors import StoreError

if TYPE_CHECKING:
    from overstory.analysis.counts import SupportCounts

HEADER: Final = struct.Struct("<BBHII")
TRAILER: Final = struct.Struct("<I")
VERSION: Final = 1


def pack_counts(counts: SupportCounts) -> bytes:
    """Write counts.

    Examples
    --------
    >>> from overstory.analysis.counts import SupportCounts
    >>> counts = SupportCounts([300], [[7, 299]])
    >>> len(pack_counts(counts)), unpack_counts(pack_counts(counts)) == counts
    (22, True)
    """
    import numpy as np

    width = np.min_scalar_type(int(counts.totals.max())).itemsize
    header = HEADER.pack(VERSION, width, 0, counts.num_cohorts, counts.num_bits)
    columns = [array.astype(f"<u{width}").tobytes() for array in (counts.totals, counts.ones)]
    body = b"".join((header, *columns))
    return body + TRAILER.pack(zlib.crc32(body))


def unpack_counts(raw: bytes) -> SupportCounts:
    """Read counts.

    Raises
    ------
    StoreError
        When they were damaged.
    """
    import numpy as np

    from overstory.analysis.counts import SupportCounts

    end = len(raw) - TRAILER.size
    if end < HEADER.size or zlib.crc32(raw[:end]) != TRAILER.unpack_from(raw, end)[0]:
        raise StoreError("stored counts are damaged: their checksum does not match; restore a backup")
    version, width, _, rows, columns = HEADER.unpack_from(raw)
    if version != VERSION or end != HEADER.size + width * rows * (1 + columns):
        raise StoreError(f"stored counts of version {version} cannot be read: upgrade overstory")
    numbers = np.frombuffer(raw, f"<u{width}", offset=HEADER.size, count=rows * (1 + columns))
    return SupportCounts(numbers[:rows], numbers[rows:].reshape(rows, columns))
