"""The table of a metric of two variables whose reports are linked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory.analysis.association.linked import linked_cells
from overstory.protocol.domains import Table
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.joint import JointMechanism

if TYPE_CHECKING:
    from overstory.analysis.association.table import TableEstimate
    from overstory.analysis.reports import SupportCounts
    from overstory.analysis.selection import IntervalKind
    from overstory.protocol.metrics import Metric


def linked_tables(metric: Metric, counts: SupportCounts, per_device: float, kind: IntervalKind) -> list[TableEstimate]:
    """Return the table of the two variables."""
    domain, mechanism = metric.domain, metric.mechanism
    if not isinstance(domain, Table) or not isinstance(mechanism, JointMechanism):
        raise ParameterError(f"{metric.id} is no metric of two variables whose reports are linked")
    labels = [part.labels for part in domain.of]
    return [linked_cells(mechanism, counts, domain.names, labels, reports_per_device=per_device, interval_kind=kind)]
