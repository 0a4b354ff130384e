"""Populations, and how well a search did on them: the one check that good and broken searches are put to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


def zipf(num_devices: int, num_values: int, seed: int, *, bits: int = 64, exponent: float = 1.1) -> Any:
    """Devices whose values follow Zipf's law over random integers."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, num_values + 1) ** -exponent
    values = rng.integers(0, 1 << bits, num_values, dtype=np.uint64)
    return values[rng.choice(num_values, num_devices, p=weights / weights.sum())]


@dataclass(frozen=True)
class Score:
    recall: float  # of the most frequent, among as many listed first
    detected: float  # of the most frequent, among the detected
    false: int  # detected that nobody has
    found: int


def score(found: Any, values: Any, top: int) -> Score:
    present, counts = np.unique(values, return_counts=True)
    wanted = set(present[np.argsort(-counts, kind="stable")[:top]].tolist())
    detected = set(found.found())
    return Score(
        len(wanted & set(found.raw_values[:top])) / top,
        len(wanted & detected) / top,
        len(detected - set(present.tolist())),
        len(detected),
    )
