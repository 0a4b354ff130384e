"""What a metric reveals: its mechanism's statement, for the reports and the values that the registry allows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from overstory.privacy.approximate import DELTA
from overstory.privacy.statement import PrivacyStatement, statement
from overstory.protocol.metrics import Metric

SHOWN: Final = (1, 2, 3, 5, 10)
MOST_CHANGES: Final = 100
"""Up to this window the leak of a change is computed unasked: within a second."""


def metric_statement(metric: Metric, *, reports: Iterable[int] = (), delta: float = DELTA) -> PrivacyStatement:
    """Return the privacy statement of a metric: for a few reports, for its window, and for any others asked about.

    Examples
    --------
    >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
    >>> said = metric_statement(parse_registry(EXAMPLE)["colour"], reports=[20])
    >>> sorted(said.epsilon_n)
    [1, 2, 3, 5, 10, 20]
    """
    asked, window = set(reports), metric.window or 1
    changes = {2, *asked, window if window <= MOST_CHANGES else 2} - {1}
    numbers = sorted({*SHOWN, *asked, window})
    return statement(metric.mechanism, reports=numbers, change_reports=sorted(changes), delta=delta)
