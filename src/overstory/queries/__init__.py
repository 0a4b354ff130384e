"""Counts and estimates of a store or of a collector's address; no HTTP server code.

Each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.queries.comparison import Comparison, compare_ranges, parse_span
    from overstory.queries.counts import CountsStore, PeriodCounts, parse_range, read_store
    from overstory.queries.estimates import EstimateSeries, read_estimates
    from overstory.queries.readings import EstimateOptions, PeriodEstimate
    from overstory.queries.sources.remote import RemoteError, read_remote, read_remote_metric

__all__ = [
    "Comparison",
    "CountsStore",
    "EstimateOptions",
    "EstimateSeries",
    "PeriodCounts",
    "PeriodEstimate",
    "RemoteError",
    "compare_ranges",
    "parse_range",
    "parse_span",
    "read_estimates",
    "read_remote",
    "read_remote_metric",
    "read_store",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EstimateOptions": "queries.readings",
        "PeriodCounts": "queries.counts",
        "CountsStore": "queries.counts",
        "PeriodEstimate": "queries.readings",
        "EstimateSeries": "queries.estimates",
        "RemoteError": "queries.sources.remote",
        "Comparison": "queries.comparison",
        "compare_ranges": "queries.comparison",
        "parse_range": "queries.counts",
        "parse_span": "queries.comparison",
        "read_estimates": "queries.estimates",
        "read_remote": "queries.sources.remote",
        "read_remote_metric": "queries.sources.remote",
        "read_store": "queries.counts",
    },
)
