"""What a metric reveals: its mechanism's statement, for the reports and the values that the registry allows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from overstory.privacy.approximate import DELTA
from overstory.privacy.claims import SAME_PATTERN, Claim
from overstory.privacy.kinds import terms_of
from overstory.privacy.registry_changes import lifetime_epsilon, most_responses
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


def lifetime_claim(metric: Metric) -> Claim:
    """Return what all that one device may ever report reveals, under the metric's cap on values.

    Examples
    --------
    >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
    >>> colour = lifetime_claim(parse_registry(EXAMPLE)["colour"])
    >>> colour.about, round(colour.epsilon, 4)
    ('all that one device may ever report: 3 distinct values and nothing', 4.0)
    """
    terms = terms_of(metric.mechanism)
    most = min((n for n in (metric.max_values, terms.most_values) if n is not None), default=None)
    about = "all that one device may ever report"
    if terms.fresh:
        return Claim(about, math.inf, "Nothing is memoized: reports add up for as long as the metric is collected.")
    if most is None:
        return Claim(about, math.inf, "The metric has no cap on distinct values, and each further one costs the same.")
    values = f"{most} distinct value{'s' * (most != 1)}"
    values += " and nothing" if (most_responses(metric) or 0) > most else ""
    words = f"A device reports at most {values}, however often; {SAME_PATTERN}"
    return Claim(f"{about}: {values}", lifetime_epsilon(metric), words)
