"""What the reports of a mechanism disclose: the questions that a kind of payload answers.

A kind of payload is one subclass of `Disclosure` and one line in `overstory.privacy.payloads.registry`. Nothing else
in this package, nor above it, asks what kind of payload a mechanism has.

The best attacker's success: a guess that is right, a suspicion that is confirmed.

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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar, Final, Generic, TypeVar

from overstory.privacy.caveats import Positions
from overstory.privacy.histories.pairs import PRECISE
from overstory.privacy.payloads.shared import NO_LIKENESS, Constant, Likeness
from overstory.privacy.terms import Terms
from overstory.privacy.text import rounded_up
from overstory.protocol.channels import as_decimal, round_up
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Report

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
        """Return it as sentences for a person."""
        most = "" if self.exact else "at most "
        single, ever = self.report, self.unchanged
        return (
            f"The best guess among {self.values:,} equally likely values is right in {percent(self.prior)} of cases "
            f"without a report, in {most}{percent(single.guess)} with one, and in {most}{percent(ever.guess)} with any "
            "number of reports of an unchanged value. Somebody who suspects one of two values, and is wrong about 1% "
            f"of those who hold the other, recognizes at most {percent(single.true_positives)} of those who hold it "
            f"from one report, and {percent(ever.true_positives)} from any number."
        )


def percent(share: float) -> str:
    """Return a probability in percent, rounded up to two digits after the point, or to three digits below 1%."""
    step = Decimal(10) ** (Decimal(share).adjusted() - 2 if 0 < share < 0.01 else -4)
    shown = rounded_up(share, step) * 100
    return f"{shown:.2f}%" if share >= 0.01 else f"{shown.normalize():f}%"


def bounded(values: int, epsilon_report: float, epsilon_permanent: float) -> Attack:
    """Return the bounds on an attack that hold for every mechanism of these epsilons."""
    single, ever = (
        Success(most_guess(epsilon, values), _most_positives(epsilon))
        for epsilon in (epsilon_report, epsilon_permanent)
    )
    return Attack(values, single, ever, exact=False)


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


M_co = TypeVar("M_co", bound=LocalRandomizer, covariant=True)
Evidence = Callable[[Any], Decimal]
"""From a value to the logarithm of its likelihood, up to a constant that is the same for all values."""


@dataclass(frozen=True)
class Disclosure(ABC, Generic[M_co]):
    """What the reports of one mechanism disclose."""

    terms_type: ClassVar[type[Terms]]  # what a ledger keeps of such a mechanism
    mechanism: M_co

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """The integers that the mechanism's privacy depends on."""

    @abstractmethod
    def attack(self, candidates: int) -> Attack:
        """Return what the best attacker achieves, among so many values where no domain says how many there are."""

    @property
    @abstractmethod
    def payload(self) -> Constant:
        """The permanent response of a value with its cohort, as a distribution over devices."""

    @property
    def repeats(self) -> bool:
        """Whether all reports of an unchanged value have one payload."""
        return True

    @property
    def always(self) -> Constant:
        """What is the same in every report of every value: the cohort, which is uniform."""
        cohorts = self.mechanism.num_cohorts
        return Constant.uniform(cohorts) if cohorts > 1 else Constant()

    @property
    def unchanged(self) -> Constant:
        return self.payload if self.repeats else self.always

    @property
    def likeness(self) -> Likeness:
        """What reports share that are drawn afresh from one permanent response."""
        return NO_LIKENESS

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:  # noqa: ARG002 - of most kinds
        """Return the exact epsilon between two histories of values of one device, rounded up."""
        raise ParameterError(f"{self.mechanism.name}: how two histories differ is not computed for its reports")

    def evidence(self, reports: Sequence[Report]) -> Evidence:  # noqa: ARG002 - of most kinds
        """Return the function from a value to ln P(reports | value), up to one constant, for reports of one cohort."""
        raise ParameterError(f"{self.mechanism.name}: the likelihood of its reports is not computed")

    def on_map(self, positions: Positions) -> tuple[float, float]:  # noqa: ARG002 - of most kinds
        """Return epsilon of one report, and of any number of an unchanged value, between candidates of a fixed map."""
        raise ParameterError(f"{self.mechanism.name} has no candidate map: only Bloom filters have")

    def words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - where a payload names no value
        """Return a payload in words; `labels` are the names of the values, one of which the payload may be."""
        return f"output {payload}"

    def compared(self, before: int, after: int) -> str:
        """Return how a payload differs from an earlier one, in words that the earlier one's name completes."""
        return "the same as" if before == after else "another than"
