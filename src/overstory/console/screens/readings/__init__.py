"""Pages of metrics that are read in another way than as shares of values."""

from __future__ import annotations

from overstory.console.screens.readings.pages import (
    WHOLE_RANGE,
    ReadingPage,
    compared_view,
    file_rows,
    is_shares,
    period_view,
    reading_words,
    refuse_options,
    series_view,
    unused_fields,
)

__all__ = [
    "WHOLE_RANGE",
    "ReadingPage",
    "compared_view",
    "file_rows",
    "is_shares",
    "period_view",
    "reading_words",
    "refuse_options",
    "series_view",
    "unused_fields",
]
