"""Small batches of reports put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.analysis.reports import ReportBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ENOUGH: Final = 1 << 21
"""Bytes of reports that are counted in one call: what a call costs by itself is then a hundredth of it."""


def joined(batches: Iterable[ReportBatch], enough: int = ENOUGH) -> Iterator[ReportBatch]:
    """Put small batches of one mechanism together until they have `enough` bytes, in a stream."""
    waiting: list[ReportBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.bits.nbytes
        if size >= enough:
            yield _one_batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _one_batch(waiting)


def _one_batch(parts: list[ReportBatch]) -> ReportBatch:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    cohorts, bits = (np.concatenate([getattr(part, name) for part in parts]) for name in ("cohorts", "bits"))
    return ReportBatch(cohorts, bits, first.num_bits, first.num_cohorts)
