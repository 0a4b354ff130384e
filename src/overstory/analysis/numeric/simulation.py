"""Numeric reports of many simulated people at once, with the same integer thresholds; for experiments and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric.means import Duchi, Hybrid, Piecewise
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.square_wave import SquareWave
from overstory.protocol.numeric.windows import WindowChannel
from overstory.protocol.probability import ONE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Payloads = NDArray[np.int64]


def simulate(randomizer: NumericRandomizer, values: ArrayLike, rng: np.random.Generator) -> Payloads:
    """Return one report's payload for each value.

    Positions are computed in floating point, so a value within a rounding error of a position's edge may fall on the
    other side than on a device; what is drawn is exact.

    Parameters
    ----------
    randomizer
        The device's half.
    values : array_like, shape (n,)
        Numbers of its domain.
    rng
        Where all randomness comes from.

    Raises
    ------
    ParameterError
        When a value is not finite, or outside a domain that rejects such values.

    Examples
    --------
    >>> reports = simulate(SquareWave(1.0, resolution=100), [0.5, 0.5], np.random.default_rng(1))
    >>> reports.shape, bool((reports < 100 + 51).all())
    ((2,), True)
    """
    return _draw(randomizer, _positions(randomizer, _shares(randomizer, values)), rng)


def _shares(randomizer: NumericRandomizer, values: ArrayLike) -> NDArray[np.float64]:
    given, domain = np.asarray(values, np.float64), randomizer.domain
    if given.ndim != 1 or not np.isfinite(given).all():
        raise ParameterError("values must be a list of finite numbers")
    if domain.outside == "reject" and given.size and not domain.minimum <= given.min() <= given.max() <= domain.maximum:
        raise ParameterError(f"values must lie in {domain.minimum} .. {domain.maximum}: this domain rejects others")
    return np.asarray((np.clip(given, domain.minimum, domain.maximum) - domain.minimum) / domain.width)


def _positions(randomizer: NumericRandomizer, shares: NDArray[np.float64]) -> Payloads:
    steps = shares * randomizer.resolution
    if isinstance(randomizer, SquareWave):
        return np.minimum(steps.astype(np.int64), randomizer.resolution - 1)
    return np.floor(steps + 0.5).astype(np.int64)


def _draw(randomizer: NumericRandomizer, positions: Payloads, rng: np.random.Generator) -> Payloads:
    if isinstance(randomizer, SquareWave | Piecewise):
        return _cells(randomizer.channel, positions, rng)
    if isinstance(randomizer, Duchi):
        return _ends(randomizer, positions, rng)
    if isinstance(randomizer, Hybrid):
        first = rng.integers(ONE, size=positions.size) < randomizer.piecewise_threshold
        pieces, ends = (_draw(part, positions, rng) for part in (randomizer.piecewise, randomizer.duchi))
        return np.where(first, pieces << 1 | 1, ends << 1)
    raise ParameterError(f"there is no bulk form of {type(randomizer).__name__}")


def _cells(channel: WindowChannel, positions: Payloads, rng: np.random.Generator) -> Payloads:
    near = rng.integers(ONE, size=positions.size) < channel.threshold
    within, anywhere = (rng.integers(size, size=positions.size) for size in (channel.window, channel.num_cells))
    return np.where(near, positions + within, anywhere)


def _ends(duchi: Duchi, positions: Payloads, rng: np.random.Generator) -> Payloads:
    ends = rng.integers(duchi.resolution, size=positions.size) < positions
    kept = rng.integers(ONE, size=positions.size) < int(duchi.channel.alpha * ONE)
    drawn: NDArray[Any] = np.where(kept, ends, rng.integers(2, size=positions.size))
    return drawn.astype(np.int64)
