"""Homes and their half-hour readings: a population made up after smart meters.

The thesis draws N homes at random from the Low Carbon London readings (UK Power Networks: kWh per half hour), each of
which reports ten times. A home here is ten consecutive readings of one meter, already in bins.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.protocol.domains.numbers import Bins

READINGS: Final = 10
BINS: Final = 100
MOST_KWH: Final = 2.0

# Half-hour consumption is close to lognormal between homes and within one; a home's readings hang together.
MEDIAN_LOG: Final = -1.9
BETWEEN_HOMES: Final = 0.65
WITHIN_HOME: Final = 0.65
PERSISTENCE: Final = 0.8

Symbols = NDArray[np.int32]


DESCRIPTION: Final = (
    f"made up: lognormal readings (log median {MEDIAN_LOG}, deviation {BETWEEN_HOMES} between homes and "
    f"{WITHIN_HOME} within, correlation {PERSISTENCE} from one half hour to the next)"
)


def draw(number: int, rng: np.random.Generator) -> Symbols:
    """Return the bins of `number` homes' readings: shape (READINGS, number)."""
    return binned(made_up(number, rng), BINS)


def made_up(number: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return readings in kWh, shape (READINGS, number)."""
    level = rng.normal(MEDIAN_LOG, BETWEEN_HOMES, number).astype(np.float32)
    now = rng.standard_normal(number, np.float32)
    out = np.empty((READINGS, number), np.float32)
    for step in range(READINGS):
        out[step] = np.exp(level + WITHIN_HOME * now)
        now = PERSISTENCE * now + np.sqrt(1 - PERSISTENCE**2, dtype=np.float32) * rng.standard_normal(
            number, np.float32
        )
    return out


def binned(readings: NDArray[np.float32], bins: int) -> Symbols:
    """Return each reading's bin, by the shipped domain's own edges; values past the range go to the last bin."""
    edges = np.array(Bins(0, MOST_KWH, bins).edges[1:-1], np.float32)
    return np.searchsorted(edges, readings, side="right").astype(np.int32)


def frequencies(symbols: Symbols, bins: int) -> NDArray[np.float64]:
    """Return the share of each bin."""
    return np.bincount(symbols.ravel(), minlength=bins) / symbols.size
