"""Values with their test results, from one question or several, joined under one selection rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overstory.analysis.selection import Correction
from overstory.discovery.bulk import Rows, values_of
from overstory.discovery.plans import Plan
from overstory.discovery.result import F64, Discovered
from overstory.discovery.support_tests import adjusted


@dataclass(frozen=True, eq=False)
class Found:
    """What one question says about values.

    Attributes
    ----------
    rows
        The values' codes.
    counts, standard_errors
        Among all devices.
    p_values
        Of the values in `rows`: the smallest of all that were tried.
    tried
        How many values were tried.
    source
        Which question.
    """

    rows: Rows
    counts: F64
    standard_errors: F64
    p_values: F64
    tried: int
    source: str


def joined(plan: Plan, parts: Sequence[Found], num_devices: int, alpha: float, correction: Correction) -> Discovered:
    """Return all values, most frequent first, tested together over all that any question tried."""
    tried = sum(part.tried for part in parts)
    counts, errors, p_values = (
        np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)])
        for name in ("counts", "standard_errors", "p_values")
    )
    q_values = adjusted(p_values, tried, correction)
    values = [value for part in parts for value in values_of(plan.domain, part.rows)]
    sources = [part.source for part in parts for _ in range(len(part.rows))]
    order = np.argsort(-counts, kind="stable")
    return Discovered(
        values=tuple(plan.domain.text(values[i]) for i in order),
        raw_values=tuple(values[i] for i in order),
        counts=counts[order],
        standard_errors=errors[order],
        p_values=p_values[order],
        q_values=q_values[order],
        sources=tuple(sources[i] for i in order),
        num_reports=num_devices,
        tried=tried,
        alpha=alpha,
        correction=correction,
        threshold=None,
        detectable_frequency=None,
        epsilon=plan.epsilon,
    )


def selection_level(result: Discovered) -> float:
    """Return the p-value that the least surely detected value had to reach.

    With k detected among m tried, Benjamini and Hochberg's rule asks for alpha k / m, Bonferroni's for alpha / m.
    """
    found = int(np.count_nonzero(result.detected())) if result.correction == "fdr" else 1
    return result.alpha * max(found, 1) / max(result.tried, found, 1)
