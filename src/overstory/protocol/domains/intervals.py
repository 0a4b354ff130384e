"""A range of numbers that is not cut into symbols: what the randomizers of numbers take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.domains.numbers import Number, finite, limits, refusal
from overstory.protocol.errors import ParameterError

SOME_STEPS: Final = 100
"""The number of steps that the range is divided into for examples."""


@dataclass(frozen=True)
class Interval(AnyDomain):
    """A range of numbers that is not cut into symbols.

    Parameters
    ----------
    minimum, maximum
        The ends of the range: finite, the minimum below the maximum.
    outside
        "clamp" or "reject", for finite values beyond the range. NaN and infinities are always refused.

    Raises
    ------
    ParameterError
        When the limits are not in order, or too far apart for a float.

    Examples
    --------
    >>> Interval(-1, 1).share(0.5), Interval(-1, 1).encode(7)
    (Fraction(3, 4), 1.0)
    """

    minimum: float
    maximum: float
    outside: Literal["clamp", "reject"] = "clamp"

    value_type = float
    size = None
    labels = ()
    ordered = True
    families = ("numbers",)

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

    @property
    def refuses(self) -> bool:
        """Whether numbers outside are rejected."""
        return self.outside == "reject"

    def share(self, value: Any) -> Fraction:
        """Return exactly how far along the range `value` lies, from 0 to 1."""
        low, high = Fraction(self.minimum), Fraction(self.maximum)
        return (Fraction(self.encode(value)) - low) / (high - low)

    def encode(self, value: Any) -> Number:
        """Return the number, or the nearest end of the range; see `AnyDomain.encode`."""
        number = finite("value", value)
        if self.minimum <= number <= self.maximum:
            return number
        if self.outside == "reject":
            raise refusal(value, self.minimum, self.maximum)
        return self.minimum if number < self.minimum else self.maximum

    def completes(self, metric: str) -> dict[str, Any]:  # noqa: ARG002 - whatever the metric
        """Return the ends of the range, and what happens to numbers outside."""
        return {"minimum": self.minimum, "maximum": self.maximum, "outside": self.outside}

    def label(self, encoded: Any) -> str:
        """Return the number."""
        return f"{float(encoded):.12g}"

    def encoded_text(self, encoded: Any) -> str:
        """Return the number, in words."""
        return f"the number {self.label(encoded)}"

    def examples(self) -> tuple[float, ...]:
        """Return a hundred and one numbers, equally far apart."""
        low, high = Fraction(self.minimum), Fraction(self.maximum)
        return tuple(float(low + (high - low) * step / SOME_STEPS) for step in range(SOME_STEPS + 1))

    def encodings(self, labels: object) -> tuple[Any, ...]:  # noqa: ARG002 - numbers are not estimated one by one
        """Return nothing: no single number is estimated."""
        return ()

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - there are no candidates
        """Say which numbers, and what happens to others."""
        outside = "counts as the nearest end" if self.outside == "clamp" else "is reported as nothing"
        return f"a number from {self.minimum:g} to {self.maximum:g}; one outside {outside}"

    def canonical(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        return {"domain": "interval", "min": self.minimum, "max": self.maximum, "outside": self.outside}
