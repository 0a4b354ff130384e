"""Equal bins over a range of numbers."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, get_args

from overstory.protocol.domains.domain import Domain, check_size
from overstory.protocol.domains.limits import Outside, beyond, check_outside, finite, limits, whole, with_ends
from overstory.protocol.errors import ParameterError


@dataclass(frozen=True)
class Bins(Domain):
    """Equal bins over a range of numbers: the thesis's discrete unary encoding (DUE, chapter 4).

    **Which bin owns an edge.** Bin i is ``edges[i] <= value < edges[i + 1]``; the last bin also owns its upper edge.
    An edge is the float nearest to ``minimum + i (maximum - minimum) / count``, computed exactly from the decimal
    numbers that the limits were written as; values are compared with edges, never divided. So 0.3 lies in the bin
    that starts at 0.3, on every machine.

    Parameters
    ----------
    minimum, maximum
        Finite, in order.
    count
        The number of bins; 1 is allowed only with symbols outside.
    outside
        What happens to finite values beyond the range: "clamp" to the nearest bin, "reject", or "separate" symbols
        for those below (the first symbol) and above (the last). NaN and infinities are always refused.

    Raises
    ------
    ParameterError
        When the limits are not in order, or so close that bins would be empty.

    Examples
    --------
    >>> energy = Bins(0, 1, 10)
    >>> [energy.symbol(x) for x in (0.0, 0.29999, 0.3, 1.0, 7)]
    [0, 2, 3, 9, 9]
    >>> energy.labels[3], energy.labels[9]
    ('[0.3, 0.4)', '[0.9, 1.0]')
    """

    minimum: float
    maximum: float
    count: int
    outside: Outside = "clamp"

    def __post_init__(self) -> None:
        check_outside(self.outside, get_args(Outside))
        object.__setattr__(self, "count", whole("count", self.count))
        for name, limit in zip(("minimum", "maximum"), limits(self.minimum, self.maximum), strict=True):
            object.__setattr__(self, name, limit)
        if self.count < 1:
            raise ParameterError(f"count = {self.count}: give at least 1 bin")
        check_size(self.size, "bins")
        if any(a >= b for a, b in pairwise(self.edges)):
            raise ParameterError(
                f"{self.count} bins from {self.minimum} to {self.maximum} are narrower than floats are apart: use fewer"
            )

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The count + 1 edges, ascending."""
        low, high = _as_written(self.minimum), _as_written(self.maximum)
        return tuple(float(low + (high - low) * i / self.count) for i in range(self.count + 1))

    @property
    def size(self) -> int:
        """The bins, and the symbols for values outside."""
        return self.count + 2 * (self.outside == "separate")

    @property
    def ordered(self) -> bool:
        """Always."""
        return True

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The bins as intervals."""
        edges = self.edges
        inside = [f"[{a!r}, {b!r})" for a, b in pairwise(edges)]
        inside[-1] = inside[-1][:-1] + "]"
        return with_ends(tuple(inside), self.outside, self.minimum, self.maximum)

    def symbol(self, value: Any) -> int:
        """Return the number of the bin that owns the value."""
        number = finite("value", value)
        if self.minimum <= number <= self.maximum:
            inside = min(bisect_right(self.edges, number) - 1, self.count - 1)
            return inside + (self.outside == "separate")
        return beyond(number, number < self.minimum, self)

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        limits = {"min": self.minimum, "max": self.maximum}
        return {"domain": "bins", **limits, "count": self.count, "outside": self.outside}


def _as_written(limit: float) -> Fraction:
    return Fraction(repr(limit)) if isinstance(limit, float) else Fraction(limit)
