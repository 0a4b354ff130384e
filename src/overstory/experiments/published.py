"""What a paper prints: a number with its printed rounding, a bound, or a statement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from overstory.protocol.errors import ParameterError

EQUAL: Final = "equal"
AT_LEAST: Final = "at least"
AT_MOST: Final = "at most"


@dataclass(frozen=True)
class Published:
    """A published number or statement.

    Attributes
    ----------
    value
        The number, or the statement in words.
    where
        Section, table or figure.
    within
        How far from `value` still rounds to what is printed, or is still "about" it; in the number's unit.
    sense
        ``equal``, ``at least`` or ``at most``: what the paper says of the number.
    """

    value: float | str
    where: str
    within: float = 0.0
    sense: str = EQUAL

    def __post_init__(self) -> None:
        if self.sense not in {EQUAL, AT_LEAST, AT_MOST}:
            raise ParameterError(f"sense = {self.sense!r}: give equal, at least or at most")
        if not isinstance(self.value, str) and not math.isfinite(self.value):
            raise ParameterError(f"published value {self.value!r}: give a finite number, or words")

    def admits(self, low: float, high: float) -> bool:
        """Whether a quantity that lies in ``low .. high`` is what the paper says of a number.

        Examples
        --------
        >>> printed("1.07", "section 5").admits(1.0743, 1.0743)
        True
        >>> at_least(35.0, "section 6").admits(20.0, 30.0)
        False
        """
        if isinstance(self.value, str):
            raise ParameterError("a statement in words is compared with words")
        slack = self.within + 1e-12 * abs(self.value)
        reached, not_passed = high >= self.value - slack, low <= self.value + slack
        return {EQUAL: reached and not_passed, AT_LEAST: reached, AT_MOST: not_passed}[self.sense]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"value": self.value, "where": self.where, "within": self.within, "sense": self.sense}


def printed(text: str, where: str) -> Published:
    """Return a number as printed: it stands for all that round to it.

    Examples
    --------
    >>> printed("0.5343", "section 5.2")
    Published(value=0.5343, where='section 5.2', within=5e-05, sense='equal')
    """
    number = Decimal(text.replace(",", ""))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return Published(float(number), where, within=float(Decimal(5).scaleb(exponent - 1)))


def about(value: float, where: str, share: float = 0.1) -> Published:
    """Return a number that the paper calls "about": within a tenth, unless said otherwise."""
    return Published(value, where, within=share * abs(value))


def at_least(value: float, where: str) -> Published:
    """Return a lower bound that the paper claims."""
    return Published(value, where, sense=AT_LEAST)


def at_most(value: float, where: str) -> Published:
    """Return an upper bound that the paper claims."""
    return Published(value, where, sense=AT_MOST)
