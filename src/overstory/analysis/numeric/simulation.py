"""Numeric reports of many simulated people at once, with the same integer thresholds; for experiments and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis.support.simulation import Rng, generator
from overstory.protocol.channels import ONE
from overstory.protocol.errors import ParameterError
from overstory.protocol.numeric.means import Duchi, Hybrid, Piecewise
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.windows import SquareWave, WindowChannel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Payloads = NDArray[np.int64]


def simulate(randomizer: NumericRandomizer, values: ArrayLike, rng: Rng = None) -> Payloads:
    """Return one report's payload for each value.

    Parameters
    ----------
    values : array_like, shape (n,)
        Numbers of its domain.
    rng
        Where all randomness comes from: a seed, a generator, or None for a fresh one.

    Examples
    --------
    >>> reports = simulate(SquareWave(1.0, resolution=100), [0.5, 0.5], np.random.default_rng(1))
    >>> reports.shape, bool((reports < 100 + 51).all())
    ((2,), True)
    """
    return _draw(randomizer, positions(randomizer, values), generator(rng))


def positions(randomizer: NumericRandomizer, values: ArrayLike) -> Payloads:
    """Return each value's position, as a device has it.

    In floating point; where that comes near a position's edge, exactly, by the device's own code.
    """
    given, domain = np.asarray(values, np.float64), randomizer.domain
    if given.ndim != 1 or not np.isfinite(given).all():
        raise ParameterError("values must be a list of finite numbers")
    if domain.outside == "reject" and given.size and not domain.minimum <= given.min() <= given.max() <= domain.maximum:
        raise ParameterError(f"values must lie in {domain.minimum} .. {domain.maximum}: this domain rejects others")
    clamped = np.clip(given, domain.minimum, domain.maximum)
    last = randomizer.position(domain.maximum)  # resolution - 1 where positions are pieces, resolution where points
    steps = (clamped - domain.minimum) / domain.width * randomizer.resolution + (last - randomizer.resolution + 1) / 2
    places = np.minimum(np.floor(steps).astype(np.int64), last)
    # Rounding moves `steps` by about the machine's precision times this scale: near an edge the device's code decides.
    scale = 1 + max(abs(domain.minimum), abs(domain.maximum)) / domain.width
    near = np.abs(steps - np.rint(steps)) < 1e-14 * scale * randomizer.resolution
    exact, where = np.unique(clamped[near], return_inverse=True)
    places[near] = np.array([randomizer.position(value) for value in exact.tolist()], np.int64)[where]
    return places


def _draw(randomizer: NumericRandomizer, places: Payloads, rng: np.random.Generator) -> Payloads:
    if isinstance(randomizer, SquareWave | Piecewise):
        return _cells(randomizer.channel, places, rng)
    if isinstance(randomizer, Duchi):
        return _ends(randomizer, places, rng)
    if isinstance(randomizer, Hybrid):
        first = rng.integers(ONE, size=places.size) < randomizer.piecewise_threshold
        pieces, ends = (_draw(part, places, rng) for part in (randomizer.piecewise, randomizer.duchi))
        return np.where(first, pieces << 1 | 1, ends << 1)
    raise ParameterError(f"there is no bulk form of {type(randomizer).__name__}")


def _cells(channel: WindowChannel, places: Payloads, rng: np.random.Generator) -> Payloads:
    near = rng.integers(ONE, size=places.size) < channel.threshold
    within, anywhere = (rng.integers(size, size=places.size) for size in (channel.window, channel.num_cells))
    return np.where(near, places + within, anywhere)


def _ends(duchi: Duchi, places: Payloads, rng: np.random.Generator) -> Payloads:
    ends = rng.integers(duchi.resolution, size=places.size) < places
    unchanged = rng.integers(ONE, size=places.size) < int(duchi.channel.alpha * ONE)
    drawn: NDArray[Any] = np.where(unchanged, ends, rng.integers(2, size=places.size))
    return drawn.astype(np.int64)
