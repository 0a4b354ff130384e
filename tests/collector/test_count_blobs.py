"""Counts survive being stored, and no altered byte of them is believed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.analysis.reports import SupportCounts
from overstory.collector.store import StoreError
from overstory.collector.store.counts import pack_counts, unpack_counts


@given(
    rows=st.integers(1, 4),
    columns=st.integers(1, 70),
    most=st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62]),
    seed=st.integers(0, 99),
)
def test_counts_come_back(rows: int, columns: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    totals = rng.integers(0, most, rows, endpoint=True)
    totals[0] = most
    counts = SupportCounts(totals, rng.integers(0, totals[:, None], (rows, columns), endpoint=True))
    packed = pack_counts(counts)
    assert unpack_counts(packed) == counts
    assert len(packed) == 16 + rows * (1 + columns) * np.min_scalar_type(most).itemsize


@pytest.mark.parametrize("bit", range(8))
def test_an_altered_byte_is_noticed(bit: int) -> None:
    packed = pack_counts(SupportCounts([300, 5], [[7, 299, 0], [1, 2, 3]]))
    for place in range(len(packed)):
        altered = bytearray(packed)
        altered[place] ^= 1 << bit
        with pytest.raises(StoreError, match="stored counts"):
            unpack_counts(bytes(altered))


def test_what_is_cut_short_or_of_a_later_version_is_refused() -> None:
    import struct
    import zlib

    packed = pack_counts(SupportCounts([3], [[2]]))
    for length in range(len(packed)):
        with pytest.raises(StoreError, match="stored counts are damaged"):
            unpack_counts(packed[:length])
    later = b"\x02" + packed[1:-4]
    with pytest.raises(StoreError, match="version 2 cannot be read: upgrade overstory"):
        unpack_counts(later + struct.pack("<I", zlib.crc32(later)))
