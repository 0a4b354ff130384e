"""Any kind of mechanism by its exact likelihoods: the law of a report, and the worst ratio over all of them."""

from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise

from overstory.protocol.kinds.base import Kind, Report

PRECISE = Context(prec=60)


def payloads_of(built: Kind, cohort: int) -> list[int]:
    """Every payload of a cohort: of a mechanism that is split, those of the part that answers there."""
    place_of = getattr(built, "place_of", None)
    limit = built.payload_limit if place_of is None else built.parts[place_of(cohort)[0]].payload_limit  # type: ignore[attr-defined]
    return [payload for payload in range(limit) if built.valid(payload)]


def law_of(built: Kind, value, cohort: int) -> list[Fraction]:
    """P(payload | value), in the order of `payloads_of`."""
    return [built.likelihood(Report(cohort, payload), value) for payload in payloads_of(built, cohort)]


def some_cohorts(built: Kind, most: int = 8) -> list[int]:
    """As many of the cohorts: the ends of every range of them, and some between."""
    stops = getattr(built, "bounds", [0, *(stop for stop, _ in built.zones)])
    ends = {end for start, stop in pairwise(stops) for end in (start, stop - 1)}
    spread = {built.num_cohorts * i // most for i in range(most)}
    return sorted(ends | spread)


def exact_epsilon_of(built: Kind, values, cohorts: Iterable[int] | None = None) -> Decimal:
    """The worst log ratio of one report over all payloads and pairs of values, in the worst of some cohorts."""
    ratios = [
        worst_ratio([law_of(built, value, cohort) for value in values])
        for cohort in (some_cohorts(built) if cohorts is None else cohorts)
    ]
    return Decimal("Infinity") if None in ratios else log_of(max(ratio for ratio in ratios if ratio is not None))


def worst_ratio(likelihoods: Iterable[Iterable[int | Fraction]]) -> Fraction | None:
    """Largest P(y | v) / P(y | w) over outputs y and inputs v, w, an input a row; None when it is infinite."""
    worst = Fraction(1)
    for column in zip(*likelihoods, strict=True):
        high, low = max(column), min(column)
        if low == 0 and high > 0:
            return None
        if low and high * worst.denominator > low * worst.numerator:
            worst = Fraction(high) / Fraction(low)
    return worst


def log_of(ratio: Fraction) -> Decimal:
    """The natural logarithm, to 60 digits."""
    return PRECISE.ln(PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
