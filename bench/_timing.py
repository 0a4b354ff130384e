"""What all speed benchmarks time with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds(job: Callable[[], Any], times: int = 1) -> float:
    """Time of one call, as the mean of so many."""
    start = time.perf_counter()
    for _ in range(times):
        job()
    return (time.perf_counter() - start) / times
