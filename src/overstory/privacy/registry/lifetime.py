"""All that a device may ever report of a metric: how many permanent responses, and what they cost together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.terms import add_up

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric


def most_responses(metric: Metric) -> int | None:
    """Return how many permanent responses a device ever reports, at most: those of the values, and nothing's.

    A value that cannot be reported is reported as nothing, by a response of its own; where the metric caps the values
    and does not drop them, it takes one of the cap's places.
    """
    terms = terms_of(metric.mechanism)
    if terms.once:
        return 1
    values = metric.num_values if terms.most_values is None else terms.most_values
    responses = None if values is None else values + 1
    return min((number for number in (metric.max_responses, responses) if number is not None), default=None)


def lifetime_epsilon(metric: Metric) -> float:
    """Return what all that a device may ever report costs together, however often; infinite without a bound.

    It holds between histories with the same pattern of equal and different permanent responses: see
    `Terms.epsilon_values`.
    """
    most = most_responses(metric)
    return math.inf if most is None else add_up([(most, terms_of(metric.mechanism).epsilon_permanent)])
