"""The tail of the chi-square distribution, without SciPy: it takes a fifth of a second to load.

A small file is decoded in less.
"""

from __future__ import annotations

import math
from typing import Final

_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_LARGE: Final = 10.0
"""From here on Stirling's series gives the gamma function to the last place."""


def chi2_tail(degrees: float, value: float) -> float:
    """Return the probability that chi-square with as many degrees of freedom exceeds a value.

    It is the incomplete gamma function Q(degrees / 2, value / 2): one minus its power series below the mean, and
    Legendre's continued fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31).
    """
    a, x = degrees / 2, value / 2
    if x <= 0:
        return 1.0
    if math.isinf(x):
        return 0.0
    density = _gamma_density(a, x)
    return 1.0 - density * _series(a, x) if x < a + 1 else density * _continued_fraction(a, x)


def _gamma_density(a: float, x: float) -> float:
    """Return x^a exp(-x) / gamma(a), without the large numbers whose difference its logarithm is."""
    if a < _LARGE:
        return math.exp(a * math.log(x) - x) / math.gamma(a)
    excess = (x - a) / a
    if excess <= -1.0:  # x is nothing next to a, and the density less than any float
        return 0.0
    rest = sum(term / a ** (2 * power + 1) for power, term in enumerate(_STIRLING))
    return math.sqrt(a / (2 * math.pi)) * math.exp(a * (math.log1p(excess) - excess) - rest)


def _series(a: float, x: float) -> float:
    total = term = 1 / a
    above = a
    while term > total * 1e-17:
        above += 1
        term *= x / above
        total += term
    return total


def _continued_fraction(a: float, x: float) -> float:
    """Return 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by Lentz's method."""
    below = x + 1 - a
    over, under = 1e300, 1 / below
    fraction = under
    for step in range(1, 1_000_000):
        # Lentz: numerators and denominators of the convergents enter as two ratios, which cannot overflow.
        numerator = step * (a - step)
        below += 2
        under = 1 / (numerator * under + below)
        over = below + numerator / over
        fraction *= over * under
        if abs(over * under - 1) < 1e-16:
            break
    return fraction
