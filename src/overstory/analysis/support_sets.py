"""Support of reports that are drawn from the value's set: subset selection, projective geometry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.counts import SupportCounts
from overstory.analysis.positions import symbols_of
from overstory.analysis.reports import ReportBatch
from overstory.analysis.support import Cohorts, Simulation, Support, Words, chosen, pooled
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.sets import SetMechanism
from overstory.protocol.probability import ONE
from overstory.protocol.set_systems import Projective, Subsets


class SetSupport(Support[SetMechanism]):
    """A report supports the values whose sets hold it."""

    @property
    def inside(self) -> int:
        """P(the value's own set) over 2**32."""
        return int(self.mechanism.inside * ONE)

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the symbols themselves."""
        return symbols_of(values, self.domain_size or 0)


class SubsetSupport(SetSupport):
    """A subset supports its members."""

    cost = "n d bits added"

    @property
    def system(self) -> Subsets:
        """The subsets."""
        system = self.mechanism.encoding
        assert isinstance(system, Subsets)
        return system

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, whose: Simulation) -> Words:  # noqa: ARG002
        """Draw subsets; they are memoized, so all reports of a device are one."""
        from overstory.kernels.few import simulate_subsets

        return simulate_subsets(
            table[symbols],
            self.system.domain_size,
            self.system.subset_size,
            self.inside,
            whose.key,
            first_device=whose.first_device,
        )

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count bits.

        Raises
        ------
        ParameterError
            When a report has another number of members than every subset.
        """
        size, members = self.system.subset_size, np.bitwise_count(batch.bits).sum(axis=1)
        if (wrong := members[members != size]).size:
            raise ParameterError(f"a report of {self.mechanism.name} has {size} members, not {wrong[0]}")
        return chosen(batch.accumulate(), values)


class PointSupport(SetSupport):
    """A point supports the values on its hyperplane."""

    cost = "n + q t d"

    @property
    def space(self) -> Projective:
        """The projective space."""
        system = self.mechanism.encoding
        assert isinstance(system, Projective)
        return system

    @property
    def num_outputs(self) -> int:
        """The space's points."""
        return self.space.sizes[0]

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, whose: Simulation) -> Words:  # noqa: ARG002
        """Draw points; they are memoized, so all reports of a device are one."""
        from overstory.analysis.few_points import simulate_points

        points = simulate_points(table[symbols], self.space, self.inside, whose.key, first_device=whose.first_device)
        return points.astype(np.uint64).reshape(-1, 1)

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Sum the histogram of points over every value's hyperplane."""
        from overstory.analysis.few_points import count_plane_support

        histogram = np.bincount(self.outputs(batch), minlength=self.num_outputs)
        ones = count_plane_support(histogram, self.space)
        return chosen(pooled(ones, len(batch)), values)
