"""Whole numbers of a range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from overstory.protocol.domains.domain import Domain, check_size
from overstory.protocol.domains.limits import Outside, beyond, check_outside, whole, with_ends


@dataclass(frozen=True)
class Integers(Domain):
    """The whole numbers from `minimum` to `maximum`.

    Parameters
    ----------
    minimum, maximum
        Both included.
    outside
        What happens to other whole numbers: "clamp" to the nearest, "reject", or "separate" symbols for those below
        (the first symbol) and above (the last).

    Raises
    ------
    ParameterError
        When the limits are no whole numbers or not in order.

    Examples
    --------
    >>> dice = Integers(1, 6, outside="separate")
    >>> [dice.symbol(x) for x in (0, 1, 6, 99)], dice.labels[0], dice.labels[-1]
    ([0, 1, 6, 7], 'below 1', 'above 6')
    """

    minimum: int
    maximum: int
    outside: Outside = "clamp"

    def __post_init__(self) -> None:
        check_outside(self.outside, get_args(Outside))
        for name in ("minimum", "maximum"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        check_size(self.maximum - self.minimum + 1, "whole numbers from minimum to maximum")

    @property
    def size(self) -> int:
        """The whole numbers, and the symbols for those outside."""
        return self.maximum - self.minimum + 1 + 2 * (self.outside == "separate")

    @property
    def ordered(self) -> bool:
        """Always."""
        return True

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The numbers in decimal digits."""
        inside = tuple(str(x) for x in range(self.minimum, self.maximum + 1))
        return with_ends(inside, self.outside, self.minimum, self.maximum)

    def symbol(self, value: Any) -> int:
        """Return how far the number is above the minimum."""
        number = whole("value", value)
        if self.minimum <= number <= self.maximum:
            return number - self.minimum + (self.outside == "separate")
        return beyond(number, number < self.minimum, self)

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"domain": "integers", "min": self.minimum, "max": self.maximum, "outside": self.outside}
