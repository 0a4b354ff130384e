"""Who reports what: the populations of RAPPOR's sections 5.2 to 5.4. bench/decode_accuracy.py draws from them, too."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

PRESENT: Final = 100
"""Strings that somebody has, in section 5.2 and figure 2; as many more nobody has."""
HEAVY_HOMEPAGES: Final = 43
HOMEPAGES: Final = 8616


def exponential() -> F64:
    """Shares of section 5.2's 200 strings: ``exp(-5 (i - 1) / 99)`` for i = 1 .. 100, and 100 that nobody has.

    The paper draws the curve and prints twenty true counts; this law fits them (chi-square 21 on 20).

    Examples
    --------
    >>> shares = exponential()
    >>> [round(float(share), 4) for share in shares[[0, 32, 99, 100]]]
    [0.0496, 0.0098, 0.0003, 0.0]
    """
    shares = np.concatenate((np.exp(-5.0 * np.arange(PRESENT) / (PRESENT - 1)), np.zeros(PRESENT)))
    return np.asarray(shares / shares.sum())


def heavy_homepages() -> F64:
    """Shares of section 5.4's 43 frequent homepages: 85% together, geometric, the largest eight times the smallest.

    The paper says that less than 0.5% of 8,616 candidates were found and hold about 85%; the spread is our choice.

    Examples
    --------
    >>> shares = heavy_homepages()
    >>> round(float(shares.sum()), 9), round(float(shares[0]), 4), round(float(shares[-1]), 4)
    (0.85, 0.0466, 0.0058)
    """
    shares = 8.0 ** (-np.arange(HEAVY_HOMEPAGES) / (HEAVY_HOMEPAGES - 1))
    return np.asarray(shares * (0.85 / shares.sum()))


def homepages() -> F64:
    """Shares of the 8,616 candidates, none of the rest listed, and then of as many strings that hold the other 15%."""
    rest = HOMEPAGES - HEAVY_HOMEPAGES
    return np.concatenate((heavy_homepages(), np.zeros(rest), np.full(rest, 0.15 / rest)))
