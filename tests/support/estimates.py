"""Estimates of given numbers, without the reports that they would come from."""

import numpy as np

from overstory.analysis.estimate import Estimate


def estimate_of(counts, errors=10.0, *, values=None, reports: int = 1_000, **more) -> Estimate:
    """Return an estimate of these counts, raw and final, of v0, v1, ... or the values that are named."""
    counts = np.asarray(counts, float)
    given = {"raw_counts": counts, "standard_errors": np.full(counts.shape, errors)} | more
    values = [f"v{i}" for i in range(counts.size)] if values is None else values
    return Estimate(values=values, counts=counts, num_reports=reports, **given)
