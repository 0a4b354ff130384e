"""Who is asked: people with a confirmed infection on 18 April 2021, in 26 states; the answer is the state's name."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.experiments.data.covid import CONFIRMED
from overstory.experiments.rappor.collections import collected
from overstory.protocol.mechanisms.payloads import BitMechanism

ELSEWHERE: Final = {
    "American Samoa",
    "Diamond Princess",
    "Grand Princess",
    "Guam",
    "Northern Mariana Islands",
    "Virgin Islands",
}
STATES: Final = tuple(sorted(set(CONFIRMED) - ELSEWHERE))[::2]
"""Every second one, by alphabet, of the states, the District of Columbia and Puerto Rico: the paper names none."""
CASES: Final = np.array([CONFIRMED[state] for state in STATES])
CLOSE: Final = 0.95
"""Share of the variance between the states (R squared) from which we call a fit close."""

PICKED: Final = """
The paper samples 26 states and does not say which; ours are every other one by alphabet. Nor are its parameters
known: ours are those of RAPPOR's section 5.2 (k = 128, h = 2, m = 16, f = 0.5, p = 0.5, q = 0.75).
"""


def mechanism() -> BitMechanism:
    """Return the RAPPOR that the respondents use."""
    return collected(0.5)


def asked(share: float = 1.0) -> NDArray[np.int32]:
    """Return each respondent's state, as an index: everybody infected, or the same share of each state.

    Examples
    --------
    >>> len(STATES), len(asked()), len(asked(0.1))
    (26, 19053805, 1905369)
    """
    return np.repeat(np.arange(len(STATES), dtype=np.int32), np.floor(CASES * share + 1e-9).astype(np.int64))


def fitted(estimated: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return R squared of estimated frequencies about the line of equality: 1 is perfect, below 0 worse than none.

    Examples
    --------
    >>> fitted(np.array([0.1, 0.9]), np.array([0.1, 0.9])), fitted(np.array([0.5, 0.5]), np.array([0.1, 0.9]))
    (1.0, 0.0)
    """
    return float(1 - ((estimated - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
