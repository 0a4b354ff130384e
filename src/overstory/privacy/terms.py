"""Terms: the integers that a mechanism's privacy depends on, and what follows: epsilons, the best attacker's success.

Terms are what a ledger keeps of a mechanism, so they outlive it: they are frozen, have a canonical form, are read back
without the registry, and never change their meaning. A kind of mechanism names its class of terms
(`Kind.terms_place`), which `terms_of` makes, and `terms_from_json` reads back.

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

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from overstory.presentation.formats import rounded_up
from overstory.privacy.shared import NO_LIKENESS, Constant, Likeness
from overstory.protocol.channels import as_decimal, log_ratio, round_up
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Kind

if TYPE_CHECKING:
    from overstory.protocol.kinds.base import Report
    from overstory.protocol.metrics import Metric


PRECISE: Final = Context(prec=100)
MAX_REPORTS: Final = 10_000
SLACK: Final = 1e-9  # what a bound in floats is raised by, relatively: more than its arithmetic can be wrong


class Worst(NamedTuple):
    """Epsilon between any two histories, rounded up, and whether it is the exact one or a bound."""

    epsilon: float
    exact: bool


class Terms(ABC):
    """What privacy depends on; a subclass is a frozen dataclass.

    Unless it says more, there is one memoized output: all reports of a value are the same, and another one proves a
    change.
    """

    kind: ClassVar[str]  # the name that the canonical form begins with
    kinds: ClassVar[dict[str, type[Terms]]] = {}  # every class that is loaded, by that name
    once: ClassVar[bool] = False  # whether a device sends one report by these parameters, and then no other
    # After how many distinct values a further one costs nothing: the domain, the hash's range, the sampled bits.
    most_values: int | None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            cls.kinds[cls.kind] = cls

    @property
    def fresh(self) -> bool:
        """Whether nothing is memoized: all of a report's noise is drawn afresh (the window mechanisms, f = 0)."""
        return False

    @property
    @abstractmethod
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value, rounded up."""

    @property
    def proves_changes(self) -> bool:
        """Whether all reports of one value are the same, so that two different ones prove a change."""
        return not self.fresh and not self.once and self.epsilon_n(1) == self.epsilon_permanent

    @property
    def even_bits(self) -> tuple[int, tuple[int, int]] | None:
        """How many bits two values lower and raise, and P(1|1), P(1|0); None where no one pair is the worst."""
        return None

    def canonical(self) -> dict[str, Any]:
        return {"kind": self.kind} | {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type] # a dataclass

    def _few(self, reports: int) -> float:  # noqa: ARG002 - one output, however often it is sent
        """Exact epsilon of up to `MAX_REPORTS` reports of one value."""
        return self.epsilon_permanent

    def epsilon_n(self, reports: int) -> float:
        """Epsilon of `reports` reports of one value, rounded up; exact up to `MAX_REPORTS`, and never below."""
        if not isinstance(reports, int) or isinstance(reports, bool) or reports < 1:
            raise ParameterError(f"reports = {reports!r}: give a whole number, at least 1")
        if reports <= MAX_REPORTS:
            return _exact(self, reports)
        return add_up([(reports, _exact(self, 1))]) if self.fresh else self.epsilon_permanent

    def epsilon_any(self, reports: int) -> float:
        """Epsilon between any two histories of `reports` reports, changing or not, rounded up."""
        return self._any_two(reports).epsilon

    def epsilon_any_is_exact(self, reports: int) -> bool:
        """Whether `epsilon_any` is what the worst two histories of `reports` reports come to, and not a bound above."""
        return self._any_two(reports).exact

    def _any_two(self, reports: int) -> Worst:
        if self.fresh or reports == 1:
            return Worst(self.epsilon_n(reports), exact=True)
        self.epsilon_n(reports)  # says so when this is no number of reports
        return _worst(self, reports)

    def _worst(self, reports: int) -> Worst:  # noqa: ARG002 - a report is the permanent response
        """Epsilon between any two histories of `reports` reports, at least two, where responses are memoized."""
        return Worst(math.inf, exact=True)

    def epsilon_values(self, values: int, *, reports: int | None = None) -> float:
        """Epsilon of D distinct values against a history of the same pattern: D epsilon_permanent, rounded up."""
        distinct = min(n for n in (values, reports, self.most_values) if n is not None)
        if distinct < 1:
            within = "" if reports is None else f" in {reports} reports"
            raise ParameterError(f"{values} values{within}: give at least one")
        if self.fresh and reports is not None:
            return self.epsilon_any(reports)
        return add_up([(distinct, self.epsilon_permanent)])


@dataclass(frozen=True)
class AfreshTerms(Terms):
    """Reports of which each has noise of its own, whatever their mechanism memoizes elsewhere: a panel's answers."""

    kind: ClassVar[str] = "afresh"
    epsilon: float  # of one report
    most_values: int | None

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ParameterError(f"epsilon = {self.epsilon!r}: give a number above 0")

    @property
    def fresh(self) -> bool:
        return True

    @property
    def epsilon_permanent(self) -> float:
        return math.inf

    def _few(self, reports: int) -> float:
        return add_up([(reports, self.epsilon)])


def add_up(epsilons: Iterable[tuple[int, float]]) -> float:
    """Return the sum of times * epsilon, exact and then rounded up: to infinity, where floats end."""
    exact = Fraction(0)
    for times, epsilon in epsilons:
        if math.isinf(epsilon):
            return epsilon
        exact += times * Fraction(epsilon)
    try:
        near = float(exact)
    except OverflowError:
        return math.inf
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


@lru_cache(maxsize=4096)
def _exact(terms: Terms, reports: int) -> float:
    return terms._few(reports)  # noqa: SLF001 - its own class's


@lru_cache(maxsize=4096)
def _worst(terms: Terms, reports: int) -> Worst:
    return terms._worst(reports)  # noqa: SLF001 - its own class's


CANDIDATES: Final = 100  # among how many strings, or positions of a number, the attacker guesses, where no domain says
FALSE_POSITIVES: Final = Fraction(1, 100)

Atom = tuple[Decimal, Decimal]  # P(report | this value), P(report | that value) of reports that are alike


@dataclass(frozen=True)
class Success:
    """Probabilities, rounded up."""

    guess: float  # that the best guess among the values is right
    true_positives: float  # that the worst pair's value is recognized, at 1% false positives

    def to_json(self) -> dict[str, float]:
        return {"guess": self.guess, "true_positives_at_1_percent": self.true_positives}


@dataclass(frozen=True)
class Attack:
    """What the best attacker achieves on a device whose value does not change."""

    values: int  # d, all equally likely before: the domain, or `CANDIDATES` strings or positions of a number
    report: Success  # what one report lets the attacker guess or suspect
    unchanged: Success  # the same from any number of reports of the unchanged value
    # whether the guesses are what the best attacker achieves; otherwise they are bounds: where strings, or numbers, may
    # be any, and for hashes, whose worst function is meant
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


def bounded(values: int, mechanism: Kind) -> Attack:
    """Return the bounds on an attack that hold for every mechanism of its epsilons."""
    single, ever = (
        Success(most_guess(epsilon, values), _most_positives(epsilon))
        for epsilon in (mechanism.epsilon_report, mechanism.epsilon_permanent)
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
    """Return the true positives at 1% false ones (Neyman and Pearson): the most telling reports first, one in part."""
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


Evidence = Callable[[Any], Decimal]
"""From a value to the logarithm of its likelihood, up to a constant that is the same for all values."""


class PayloadTerms(Terms):
    """Terms of a kind of mechanism: nothing else in this package, nor above it, asks what kind of payload it has."""

    blankets: ClassVar[str] = (
        ""  # which of `payloads.shuffle.BLANKETS` its reports have; without, the bound of any mechanism holds
    )

    @classmethod
    @abstractmethod
    def of(cls, mechanism: Any) -> Terms:
        """Return the integers that the mechanism's privacy depends on."""

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        """Return what the best attacker achieves, among so many values where no domain says how many there are."""
        return bounded(mechanism.domain_size or candidates, mechanism)

    @classmethod
    def permanent_response(cls, mechanism: Any) -> Constant:
        """Return the permanent response of a value with its cohort, as a distribution over devices."""
        raise NotImplementedError

    @classmethod
    def always(cls, mechanism: Any) -> Constant:
        """Return what is the same in every report of every value: the cohort, which is uniform."""
        cohorts = mechanism.num_cohorts
        return Constant.uniform(cohorts) if cohorts > 1 else Constant()

    @classmethod
    def unchanged(cls, mechanism: Any) -> Constant:
        """Return what is the same in every report of one value."""
        return cls.permanent_response(mechanism) if mechanism.repeats and not mechanism.once else cls.always(mechanism)

    @classmethod
    def likeness(cls, mechanism: Any) -> Likeness:  # noqa: ARG003 - of most kinds
        """Return what reports share that are drawn afresh from one permanent response."""
        return NO_LIKENESS

    @classmethod
    def evidence(cls, mechanism: Any, reports: Sequence[Report]) -> Evidence:
        """Return the function from a value to ln P(reports | value), up to one constant, for reports of one cohort."""
        if len({report.bits for report in reports}) > 1:
            raise ParameterError("no device sends these reports of one value: its response is always the same")
        return lambda value: log_ratio(mechanism.likelihood(reports[0], value), Fraction(1))


class OfSets(PayloadTerms):
    """A report of a set: the bounds among all sets, or among the candidates; no blanket is computed."""

    blankets: ClassVar[str] = ""

    @classmethod
    def attack(cls, mechanism: Any, candidates: int) -> Attack:
        return bounded(min(1 << min(mechanism.encoding.domain_size, 60), candidates), mechanism)


def terms_class(mechanism: Kind) -> type[PayloadTerms]:
    """Return the class of terms that says what a mechanism's reports disclose."""
    place = getattr(mechanism, "terms_place", None)
    if place is None:
        raise ParameterError(f"nothing is known of the privacy of a {type(mechanism).__name__}")
    module, _, name = place.partition(":")
    found: type[PayloadTerms] = getattr(import_module(f"overstory.{module}"), name)
    return found


MODULES: Final = ("bits", "symbols")  # where the classes of terms are that a canonical form may name


def terms_of(mechanism: Kind) -> Terms:
    """Return the terms of a mechanism, or of what takes numbers (of a range tree: its worst level's).

    Parameters
    ----------
    mechanism
        A frequency oracle's mechanism, or a numeric randomizer.

    Raises
    ------
    ParameterError
        When its kind is unknown.

    Examples
    --------
    >>> from overstory.protocol.kinds.symbols import grr
    >>> terms_of(grr(domain_size=4, epsilon=1.0))
    SymbolTerms(num_symbols=4, permanent=1290591209, instantaneous=4294967296, most_values=4)
    """
    return terms_class(mechanism).of(mechanism)


def metric_terms(metric: Metric) -> Terms:
    """Return the terms of a metric: those of its mechanism or, in a panel, of answers with noise of their own."""
    terms = terms_of(metric.mechanism)
    return terms if metric.panel is None else AfreshTerms(terms.epsilon_n(1), terms.most_values)


def attack(mechanism: Kind, values: int | None = None) -> Attack:
    """Return what the best attacker achieves against a mechanism.

    Parameters
    ----------
    mechanism
        The mechanism, or what takes numbers.
    values
        How many values are equally likely before; ignored where there is a domain. None: `CANDIDATES`.

    Raises
    ------
    ParameterError
        When `values` is not at least two.

    Examples
    --------
    >>> from overstory.protocol.kinds.registry import mechanism
    >>> from overstory.privacy.terms import percent
    >>> grr = attack(mechanism("grr", domain_size=4, epsilon=1.0))
    >>> percent(grr.prior), percent(grr.report.guess), percent(grr.report.true_positives)
    ('25.00%', '47.54%', '2.72%')
    """
    if values is not None and (not isinstance(values, int) or isinstance(values, bool) or values < 2):
        raise ParameterError(f"values = {values!r}: give a whole number, at least 2")
    return terms_class(mechanism).attack(mechanism, values or CANDIDATES)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def terms_from_json(read: Mapping[str, Any]) -> Terms:
    """Return the terms that `canonical` wrote."""
    for module in MODULES:
        import_module(f"overstory.privacy.payloads.{module}")
    if not isinstance(read, Mapping) or read.get("kind") not in Terms.kinds:
        raise FormatError(f"expected terms of a kind {', '.join(sorted(Terms.kinds))}, found {read!r}", field="terms")
    kind = Terms.kinds[read["kind"]]
    try:
        terms = kind(**{name: _tuples(value) for name, value in read.items() if name != "kind"})
        usable = terms.most_values is None or terms.most_values >= 1
        usable = usable and terms.epsilon_n(1) <= terms.epsilon_permanent
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FormatError(f"these are no terms of {kind.kind}: {error}", field="terms") from error
    if not usable:
        raise FormatError(f"these are no terms of {kind.kind}: they promise nothing", field="terms")
    return terms
