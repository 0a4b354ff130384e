"""A range of numbers that is not cut into symbols."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from overstory.protocol.domains import finite, limits, refusal
from overstory.protocol.errors import ParameterError


@dataclass(frozen=True)
class Interval:
    """A range of numbers that is not cut into symbols: what the numeric randomizers take.

    Parameters
    ----------
    minimum, maximum
        Finite, in order.
    outside
        "clamp" or "reject", for finite values beyond the range. NaN and infinities are always refused.

    Raises
    ------
    ParameterError
        When the limits are not in order, or too far apart for a float.

    Examples
    --------
    >>> Interval(-1, 1).share(0.5)
    Fraction(3, 4)
    """

    minimum: float
    maximum: float
    outside: Literal["clamp", "reject"] = "clamp"

    def __post_init__(self) -> None:
        if self.outside not in {"clamp", "reject"}:
            raise ParameterError(f"outside = {self.outside!r}: choose clamp or reject")
        for name, limit in zip(("minimum", "maximum"), limits(self.minimum, self.maximum), strict=True):
            object.__setattr__(self, name, limit)
        if math.isinf(self.width):
            raise ParameterError(f"the range {self.minimum} .. {self.maximum} is too large for floats")

    @property
    def width(self) -> float:
        """Maximum less minimum."""
        return self.maximum - self.minimum

    def share(self, value: Any) -> Fraction:
        """Return exactly how far along the range `value` lies, from 0 to 1."""
        number = Fraction(finite("value", value))
        low, high = Fraction(self.minimum), Fraction(self.maximum)
        if not low <= number <= high and self.outside == "reject":
            raise refusal(value, self.minimum, self.maximum)
        return (min(max(number, low), high) - low) / (high - low)

    def canonical(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        return {"domain": "interval", "min": self.minimum, "max": self.maximum, "outside": self.outside}
