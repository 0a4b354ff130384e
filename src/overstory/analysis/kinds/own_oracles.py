"""The server's half of an oracle whose sets are written down: `overstory.OwnSets`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Cohorts, Words
from overstory.analysis.kinds.symbols import CountedByValue, OutputSupport
from overstory.analysis.kinds.work import Work
from overstory.analysis.reports import ReportBatch
from overstory.kernels.devices import StreamKey, below, in_tiles, stream_starts, stream_words
from overstory.protocol.channels import ONE


class ListedSupport(CountedByValue, OutputSupport):
    """An output supports the values that own it."""

    work = Work("n + d outputs each", value=1e-7)

    @property
    def inside(self) -> int:
        return int(self.mechanism.inside * ONE)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:  # noqa: ARG002
        """Draw outputs; they are memoized, so all reports of a device are one."""
        (outputs, own, _), held = self.encoding.sizes, table[symbols]
        owned = np.array(self.encoding.owned)
        # A value's own outputs, then all others.
        order = np.array([np.concatenate([own, np.setdiff1d(np.arange(outputs), own)]) for own in owned])
        drawn = np.empty(held.size, np.uint64)

        def draw(rows: slice, devices: NDArray[np.int64]) -> None:
            starts = stream_starts(stream.key, b"listed-1", devices, held[rows])
            is_inside = stream_words(starts, 0) >> np.uint64(32) < np.uint64(self.inside)
            place = below(stream_words(starts, 1), np.where(is_inside, own, outputs - own)).astype(np.int64)
            drawn[rows] = order[held[rows], np.where(is_inside, place, own + place)]

        in_tiles(draw, stream, held.size)
        return drawn.reshape(-1, 1)

    def supports(self, batch: ReportBatch) -> NDArray[np.intp]:
        histogram = np.bincount(self.outputs(batch), minlength=self.num_outputs)
        return histogram[np.array(self.encoding.owned)].sum(axis=1)
