"""An oracle of one's own: seven values on the Fano plane, as a block design (Park, Nam, Lee 2023) has it.

`overstory check-oracle examples/own_oracle.py` holds it against the laws of every oracle.
"""

from math import exp

import overstory


@overstory.oracle_kind("fano")
def fano(*, epsilon: float) -> overstory.OwnSets:
    """Seven values and seven points: each value owns the three points of a line, and any two lines share one point."""
    lines = [{value, (value + 1) % 7, (value + 3) % 7} for value in range(7)]
    own, other = exp(epsilon) / (3 * exp(epsilon) + 4), 1 / (3 * exp(epsilon) + 4)  # of one point
    # Of another value's three points, one is the device's own, and two are not.
    return overstory.OwnSets(lines, outputs=7, inside=3 * own, p_star=3 * own, q_star=own + 2 * other)


@overstory.oracle_kind("three-quarters")
def three_quarters(*, domain_size: int, epsilon: float) -> overstory.OwnBits:
    """A bit for each value: a 1 is kept with probability 3/4, and 0s are raised as rarely as epsilon has it."""
    return overstory.OwnBits(domain_size, keep=3 / 4, raised=3 / (3 + exp(epsilon)))
