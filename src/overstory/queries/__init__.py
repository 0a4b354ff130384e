"""Counts and estimates of a store or of a collector's address; no HTTP server code.

Each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.queries.counts import (
        Counted,
        CountsStore,
        RemoteError,
        counted_from_json,
        parse_range,
        read_remote,
        read_remote_metric,
        read_store,
    )
    from overstory.queries.estimates import Choices, Part, Reading, estimate_counts, read_estimates

__all__ = [
    "Choices",
    "Counted",
    "CountsStore",
    "Part",
    "Reading",
    "RemoteError",
    "counted_from_json",
    "estimate_counts",
    "parse_range",
    "read_estimates",
    "read_remote",
    "read_remote_metric",
    "read_store",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Choices": "queries.estimates",
        "Counted": "queries.counts",
        "CountsStore": "queries.counts",
        "Part": "queries.estimates",
        "Reading": "queries.estimates",
        "RemoteError": "queries.counts",
        "counted_from_json": "queries.counts",
        "estimate_counts": "queries.estimates",
        "parse_range": "queries.counts",
        "read_estimates": "queries.estimates",
        "read_remote": "queries.counts",
        "read_remote_metric": "queries.counts",
        "read_store": "queries.counts",
    },
)
