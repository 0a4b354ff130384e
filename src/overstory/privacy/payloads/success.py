"""What the best attacker achieves, instead of what odds move: a guess that is right, a suspicion that is confirmed.

*Guess.* d values are equally likely before. Whoever sees a report names the likeliest, and is right with probability
(1/d) times the sum over reports of the largest P(report | value): in closed form for every oracle, by counting which
reports some value makes likely. For filters, whose candidates are anybody's choice, and for numbers it is at most
e^epsilon / (e^epsilon + d - 1): the share of a value whose likelihood is e^epsilon times that of each of the others.

*True positives.* Somebody who asks "is it this value or that one?", and accepts to be wrong for 1% of those who hold
that one, is right for so many of those who hold this one: the test of Neyman and Pearson between the two values that
are easiest to tell apart, one report's trade-off function at 1%. For numbers: at most min(.01 e^eps, 1 - .99 e^-eps).

*Any number of reports of an unchanged value* show the permanent response at most: the same for the first round alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Final

from overstory.privacy.histories.pairs import PRECISE
from overstory.privacy.text import rounded_up
from overstory.protocol.probability import as_decimal, round_up

CANDIDATES: Final = 100
"""Among how many strings, or positions of a number, the attacker guesses, where no domain says."""
FALSE_POSITIVES: Final = Fraction(1, 100)

Atom = tuple[Decimal, Decimal]
"""P(report | this value), P(report | that value) of reports that are alike."""


@dataclass(frozen=True)
class Success:
    """Probabilities, rounded up."""

    guess: float  # that the best guess among the values is right
    true_positives: float  # that the worst pair's value is recognized, at 1% false positives

    def to_json(self) -> dict[str, float]:
        """Return JSON values."""
        return {"guess": self.guess, "true_positives_at_1_percent": self.true_positives}


@dataclass(frozen=True)
class Attack:
    """What the best attacker achieves on a device whose value does not change.

    Attributes
    ----------
    values
        d, all equally likely before: the domain, or `CANDIDATES` strings or positions of a number.
    report
        What one report lets the attacker guess or suspect.
    unchanged
        The same from any number of reports of the unchanged value.
    exact
        Whether the guesses are what the best attacker achieves; otherwise they are bounds: where strings, or numbers,
        may be any, and for hashes, whose worst function is meant.
    """

    values: int
    report: Success
    unchanged: Success
    exact: bool

    @property
    def prior(self) -> float:
        """What a guess without a report achieves."""
        return 1 / self.values

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        given = {"values": self.values, "prior": self.prior, "exact": self.exact}
        return given | self.report.to_json() | {"unchanged": self.unchanged.to_json()}

    def plain_words(self) -> str:
        """Say it to a person."""
        most = "" if self.exact else "at most "
        one, ever = self.report, self.unchanged
        return (
            f"The best guess among {self.values:,} equally likely values is right in {percent(self.prior)} of cases "
            f"without a report, in {most}{percent(one.guess)} with one, and in {most}{percent(ever.guess)} with any "
            "number of reports of an unchanged value. Somebody who suspects one of two values, and is wrong about 1% "
            f"of those who hold the other, recognizes at most {percent(one.true_positives)} of those who hold it from "
            f"one report, and {percent(ever.true_positives)} from any number."
        )


def percent(share: float) -> str:
    """Return a probability in percent, rounded up to two digits after the point, or to three digits below 1%.

    Examples
    --------
    >>> percent(0.25), percent(0.10001), percent(1 / 65536)
    ('25.00%', '10.01%', '0.00153%')
    """
    step = Decimal(10) ** (Decimal(share).adjusted() - 2 if 0 < share < 0.01 else -4)
    shown = rounded_up(share, step) * 100
    return f"{shown:.2f}%" if share >= 0.01 else f"{shown.normalize():f}%"


def bounded(values: int, epsilon_report: float, epsilon_permanent: float) -> Attack:
    """Return the bounds on an attack that hold for every mechanism of these epsilons."""
    one, ever = (
        Success(most_guess(epsilon, values), _most_positives(epsilon))
        for epsilon in (epsilon_report, epsilon_permanent)
    )
    return Attack(values, one, ever, exact=False)


def _most_positives(epsilon: float) -> float:
    if epsilon > 700:
        return 1.0
    with localcontext(PRECISE):
        odds, wrong = Decimal(epsilon).exp(), as_decimal(FALSE_POSITIVES)
        # Trade-off function of pure epsilon-DP at false positives a: min(a e^eps, 1 - (1 - a) e^-eps).
        return round_up(min(odds * wrong, 1 - (1 - wrong) / odds))


def most_guess(epsilon: float, values: int) -> float:
    """Return e^epsilon / (e^epsilon + d - 1): one value is e^epsilon times as likely as each of the others."""
    if epsilon > 700:
        return 1.0
    with localcontext(PRECISE):
        odds = Decimal(epsilon).exp()
        return round_up(odds / (odds + values - 1))


def share(total: Decimal, values: int) -> float:
    """Return the chance of a right guess: 1/d of the sum over reports of the largest likelihood."""
    return min(round_up(total / values), 1.0)


def true_positives(atoms: Iterable[Atom]) -> float:
    """Return the true positives at 1% false ones (Neyman and Pearson): the most telling reports first.

    The last of them is taken with the probability that uses the 1% up.
    """
    pairs = [(this, that) for this, that in atoms if this or that]
    best = Decimal(0)
    with localcontext(PRECISE):
        for way in (pairs, [(that, this) for this, that in pairs]):
            left, recognized = as_decimal(FALSE_POSITIVES), Decimal(0)
            for this, that in sorted(way, key=lambda atom: atom[1] / (atom[0] + atom[1])):
                taken = min(left / that, Decimal(1)) if that else Decimal(1)
                recognized, left = recognized + taken * this, left - taken * that
            best = max(best, recognized)
    return min(round_up(best), 1.0)
