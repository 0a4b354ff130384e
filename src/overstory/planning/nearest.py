"""Where a share is too small to be detected: the nearest needs with which it is, by more devices or larger epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from overstory.presentation.formats import share as percentage
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.calibration import least_noise

COMMON_SHARE: Final = 0.1
"""A share that a collection should at least show, where none is asked for and none would be detected."""
HUNDREDTHS: Final = 100  # epsilons are proposed to two decimals
MOST_EPSILON: Final = 10  # A larger epsilon protects nobody: none is proposed
MOST_DEVICES: Final = 1 << 62

DevicesNeeded = Callable[[float, float | None, int], int | None]
"""(epsilon, permanent epsilon, devices that are planned for) -> devices that detect the share; None where none do."""


@dataclass(frozen=True)
class Nearest:
    """Needs near the given ones with which a share is detected."""

    share: float  # that the needs do not let a collection detect
    num_reports: int | None  # with the same epsilons: so many devices, to three digits; None: no number is enough
    epsilon_report: float | None  # with the same devices, to two decimals; None: 10 is not enough
    epsilon_permanent: float | None  # with it; None where none was given, too
    smallest_share: float | None  # what the needs as they are would detect; None: no share

    def plain_words(self) -> str:
        """Say what would be possible."""
        more = "no number of devices" if self.num_reports is None else f"{self.num_reports:,} devices"
        epsilon = f"no epsilon up to {MOST_EPSILON}" if self.epsilon_report is None else self._epsilons()
        smallest = "no share" if self.smallest_share is None else f"a share of {percentage(self.smallest_share)}"
        return (
            f"A share of {percentage(self.share)} is too small for these needs: the smallest that they detect is "
            f"{smallest}. With the same epsilon {more} would be enough; with the same devices {epsilon} would be."
        )

    def _epsilons(self) -> str:
        held = "" if self.epsilon_permanent is None else f", and a permanent epsilon of {self.epsilon_permanent:g},"
        return f"an epsilon of {self.epsilon_report:g}{held}"

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def nearest(
    devices_needed: DevicesNeeded,  # falls when an epsilon rises
    epsilon: float,
    epsilon_permanent: float | None,
    num_reports: int,
    *,
    share: float,
    smallest_share: float | None,
    # how far the permanent epsilon must be above the other; it rises only where the other would come nearer
    apart: float = 0.0,
) -> Nearest:
    """Return the nearest needs with which a share is detected."""

    def permanent(larger: float) -> float | None:
        return None if epsilon_permanent is None else max(epsilon_permanent, round(larger + apart, 2))

    @cache
    def asked(larger: float, ceiling: float | None, number: int) -> int | None:
        try:
            return devices_needed(larger, ceiling, number)
        except ParameterError:  # no oracle at these epsilons
            return None

    def ratio(larger: float) -> float:
        return (asked(larger, permanent(larger), num_reports) or math.inf) / num_reports

    enough = _least_epsilon(ratio, epsilon)
    return Nearest(
        share=share,
        num_reports=_enough_devices(asked, epsilon, epsilon_permanent, num_reports),
        epsilon_report=enough,
        epsilon_permanent=None if enough is None else permanent(enough),
        smallest_share=smallest_share,
    )


def _enough_devices(
    devices_needed: DevicesNeeded, epsilon: float, epsilon_permanent: float | None, num_reports: int
) -> int | None:
    """Plan for as many as are needed, again and again: what is best, and so what is needed, depends on how many."""
    planned, enough = num_reports, None
    for _ in range(10):
        needed = devices_needed(epsilon, epsilon_permanent, planned)
        if needed is None or needed > MOST_DEVICES // 2:
            break
        enough = min(enough or planned, planned) if needed <= planned else enough
        if planned == (planned := _three_digits(needed)):
            break
    return enough


def _three_digits(number: int) -> int:
    """Round a whole number up to three digits."""
    step: int = 10 ** max(0, len(str(number)) - 3)
    return -(-number // step) * step


def _least_epsilon(ratio: Callable[[float], float], epsilon: float) -> float | None:
    """Return the least epsilon with two decimals whose ratio of devices needed to devices there are is at most 1."""
    low, high = math.floor(HUNDREDTHS * epsilon) + 1, HUNDREDTHS * MOST_EPSILON
    if low > high or ratio(MOST_EPSILON) > 1:
        return None
    return least_noise(lambda hundredths: math.log(ratio(hundredths / HUNDREDTHS)), 0.0, low, high) / HUNDREDTHS
