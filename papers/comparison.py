"""What a paper printed and what we find: a verdict is computed from the two, never written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import NormalDist, fmean, stdev
from typing import Any, Final

from overstory.analysis.selection import clopper_pearson
from overstory.protocol.errors import ParameterError

EQUAL: Final = "equal"
AT_LEAST: Final = "at least"
AT_MOST: Final = "at most"


@dataclass(frozen=True)
class Published:
    """A published number or statement."""

    value: float | str  # the number, or the statement in words
    where: str  # section, table or figure
    within: float = 0.0  # in the number's unit: what is this near still rounds to the printed number, or is "about" it
    sense: str = EQUAL  # ``equal``, ``at least`` or ``at most``: what the paper says of the number

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
    """Return a number as printed: it means every number that rounds to it.

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


AGREES: Final = "agrees"
DIFFERS: Final = "differs"
NEW: Final = "new"
LEVEL: Final = 0.99
REACH: Final = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""Standard errors to either side that hold a normal variable at `LEVEL`."""


@dataclass(frozen=True)
class Comparison:
    """One quantity: what the paper says, and ours with its interval.

    Make it with `exact`, `simulated`, `proportion` or `stated`, where one of them fits.
    """

    name: str  # what is compared, for a reader who has only this line
    ours: float | str  # words for a statement
    low: float | None  # the interval of ours; for an exact quantity both ends are `ours`
    high: float | None
    unit: str = ""  # such as ``reports``; empty for a plain number
    published: Published | None = None  # what the paper says; None where it says nothing
    because: str = ""  # why it differs, where a difference is expected

    def __post_init__(self) -> None:
        if isinstance(self.ours, str):
            fits = self.low is None and self.high is None
        else:
            fits = self.low is not None and self.high is not None and self.low <= self.ours <= self.high
        if not fits or (
            self.published is not None and isinstance(self.published.value, str) != isinstance(self.ours, str)
        ):
            raise ParameterError(
                f"{self.name}: {self.ours!r} in {self.low} .. {self.high} cannot be compared with {self.published}"
            )

    @property
    def verdict(self) -> str:
        """`agrees`, `differs` or `new`."""
        if self.published is None:
            return NEW
        if isinstance(self.ours, str):
            return AGREES if self.ours == self.published.value else DIFFERS
        assert self.low is not None
        assert self.high is not None
        return AGREES if self.published.admits(self.low, self.high) else DIFFERS

    @property
    def unexplained(self) -> bool:
        """Whether it differs without a reason."""
        return self.verdict == DIFFERS and not self.because

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "name": self.name,
            "unit": self.unit,
            "published": None if self.published is None else self.published.to_json(),
            "ours": self.ours,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
            "because": self.because if self.verdict == DIFFERS else "",
            "could_differ_because": self.because,
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Comparison:
        """Read back `to_json`; the verdict is computed again."""
        published = None if saved["published"] is None else Published(**saved["published"])
        fields = {name: saved[name] for name in ("name", "ours", "low", "high", "unit")}
        return cls(**fields, published=published, because=saved["could_differ_because"])


def exact(
    name: str, ours: float, published: Published | None = None, *, unit: str = "", because: str = ""
) -> Comparison:
    """Compare a quantity that is computed, not simulated: agreement is within the paper's printed rounding.

    Examples
    --------
    >>> exact("epsilon", 1.07429, printed("1.07", "section 5")).verdict
    'agrees'
    """
    return Comparison(name, float(ours), float(ours), float(ours), unit, published, because)


def simulated(
    name: str,
    runs: Sequence[float],
    published: Published | None = None,
    *,
    averaged: int = 1,
    unit: str = "",
    because: str = "",
) -> Comparison:
    """Compare the mean of independent runs; the interval is where a further such number falls 99 times in 100.

    The paper's number is itself random: one run, or the average of `averaged` runs. With R runs of ours, mean x and
    standard deviation s, it falls in ``x +- t s sqrt(1 / averaged + 1 / R)`` (Student's t, R - 1 degrees of freedom).

    Examples
    --------
    >>> simulated("strings", [41, 44, 39, 42, 40], Published(47, "figure 5")).verdict
    'agrees'
    """
    from scipy.stats import t

    if len(runs) < 2:
        raise ParameterError(f"{name}: {len(runs)} runs have no spread; give at least two")
    mean, spread = fmean(runs), stdev(runs)
    far = float(t.ppf((1 + LEVEL) / 2, len(runs) - 1)) * spread * math.sqrt(1 / averaged + 1 / len(runs))
    return Comparison(name, mean, mean - far, mean + far, unit, published, because)


def proportion(
    name: str,
    hits: int,
    trials: int,
    published: Published | None = None,
    *,
    level: float = LEVEL,
    unit: str = "",
    because: str = "",
) -> Comparison:
    """Compare how often something happened in independent trials; the interval is `clopper_pearson`'s."""
    low, high = clopper_pearson(hits, trials, level)
    return Comparison(name, hits / trials, low, high, unit, published, because)


def stated(name: str, ours: str, published: Published | None = None, *, because: str = "") -> Comparison:
    """Compare a statement in words, computed from results, with the paper's."""
    return Comparison(name, ours, None, None, "", published, because)
