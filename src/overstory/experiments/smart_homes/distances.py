"""How far an estimate is from the truth, in five measures.

Each takes two lists of shares (or counts) of the same symbols. What it needs of them is checked, for a distance
between things that are no distributions looks like any other number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    F64 = NDArray[np.float64]

# Two totals this close, relatively, are one total.
SAME_TOTAL: Final = 1e-6


def mean_squared_error(first: ArrayLike, second: ArrayLike) -> float:
    """Sum of squared differences over the number of symbols (the thesis, section 5.2).

    Examples
    --------
    >>> round(mean_squared_error([0.5, 0.5], [0.7, 0.3]), 6)
    0.04
    """
    a, b = _pair(first, second)
    return float(np.mean((a - b) ** 2))


def maximum_error(first: ArrayLike, second: ArrayLike) -> float:
    """Largest absolute difference (the lecture's error of a frequency oracle).

    Examples
    --------
    >>> maximum_error([0, 1, 0], [0, 0.5, 0.25])
    0.5
    """
    a, b = _pair(first, second)
    return float(np.abs(a - b).max())


def total_variation(first: ArrayLike, second: ArrayLike) -> float:
    """Half the sum of absolute differences: the largest difference in any event's share.

    Examples
    --------
    >>> total_variation([1, 0, 0], [0, 0.5, 0.5])
    1.0
    """
    a, b = _pair(first, second)
    _check_totals(a, b, "total variation")
    return float(np.abs(a - b).sum() / 2)


def jensen_shannon(first: ArrayLike, second: ArrayLike) -> float:
    """Jensen-Shannon distance: the root of the divergence, in base 2, so from 0 to 1 (the thesis, section 5.2).

    Each is divided by its own total first, as SciPy does; so the thesis's Est_Freq, which does not add up to one,
    has a distance too.

    Examples
    --------
    >>> jensen_shannon([1, 0], [0, 1]), jensen_shannon([1, 3], [0.25, 0.75])
    (1.0, 0.0)
    """
    a, b = _pair(first, second)
    if min(a.min(), b.min()) < 0 or not (a.any() and b.any()):
        raise ParameterError(
            "the Jensen-Shannon distance is between distributions, and there are negative shares or none: "
            "post-process the estimate first (norm-sub)"
        )
    a, b = a / a.sum(), b / b.sum()
    middle = (a + b) / 2
    divergence = (_relative_entropy(a, middle) + _relative_entropy(b, middle)) / 2
    return float(np.sqrt(np.clip(divergence, 0.0, 1.0)))


def wasserstein(first: ArrayLike, second: ArrayLike, *, width: float = 1.0) -> float:
    """Earth mover's distance of an ordered domain: the sum of differences of cumulated shares, times `width`.

    Parameters
    ----------
    first, second
        Shares of symbols that lie `width` apart.
    width
        Distance between neighbouring symbols: 1 / d measures a range as 1.

    Examples
    --------
    >>> wasserstein([1, 0, 0], [0, 0, 1])
    2.0
    """
    a, b = _pair(first, second)
    _check_totals(a, b, "the Wasserstein distance")
    return float(np.abs(np.cumsum(a - b)[:-1]).sum() * width)


DISTANCES: Final[Mapping[str, Callable[[ArrayLike, ArrayLike], float]]] = MappingProxyType(
    {
        "mse": mean_squared_error,
        "jensen-shannon": jensen_shannon,
        "total-variation": total_variation,
        "wasserstein": wasserstein,
        "maximum-error": maximum_error,
    }
)


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[F64, F64]:
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1 or not a.size:
        raise ParameterError(f"two lists of shares of the same symbols are compared, not shapes {a.shape}, {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ParameterError("shares must be finite numbers")
    return a, b


def _check_totals(a: F64, b: F64, what: str) -> None:
    one, other = float(a.sum()), float(b.sum())
    if abs(one - other) > SAME_TOTAL * max(abs(one), abs(other)):
        raise ParameterError(f"{what} is between equal totals, not {one:.6g} and {other:.6g}: normalize first")


def _relative_entropy(a: F64, reference: F64) -> float:
    """Sum of a log2(a / reference), 0 log 0 being 0."""
    held = a > 0
    return float((a[held] * np.log2(a[held] / reference[held])).sum())
