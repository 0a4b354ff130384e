"""What a mechanism reveals: every epsilon as a claim with what it rests on, and in plain words.

A claim is how every page and command says an epsilon: of a mechanism, of a metric, of several metrics together.
A caution stands next to a number where a paper claims more than it proves, or where the same number means less.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from overstory.presentation.document import Block, Lines, Table
from overstory.presentation.formats import CERTAIN, MOST, epsilon_text, factor, finite, odds_text, plural
from overstory.privacy.approximate import DELTA, epsilon_at
from overstory.privacy.attacks import Linkability, linkability
from overstory.privacy.terms import Attack, Success, Terms, add_up, attack, metric_terms, terms_of
from overstory.protocol.channels import Influence
from overstory.protocol.kinds.base import Kind

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

ALWAYS: Final = "whatever you hold and however it changes"
UNCHANGED: Final = "only while the value never changes"
PATTERN: Final = "not counting which reports share their noise"
ONLY: Final = ", the only one that a device sends by these parameters"
NOT_BOUNDED: Final = "no bound on it is computed"
CHANGED: Final = "the same value always sends the same report, so two different ones prove a change"


@dataclass(frozen=True)
class Claim:
    """One epsilon, in nats and rounded up, with what it is about and what it rests on."""

    about: str  # what is revealed, and under which condition
    epsilon: float  # in nats, rounded up; infinite without a bound
    assumption: str  # what has to be true for that
    caution: str | None = None  # where a paper claims more than this, or the number means less than it seems to
    delta: float | None = None  # the chance but for which it is `epsilon_at_delta`
    # what it is but for that chance, where that is less: only where all noise is fresh
    epsilon_at_delta: float | None = None
    kind: str = "any"  # "any", "report", "years", "unchanged", "permanent" or "values"
    reason: str | None = None  # why there is no bound, where there is none

    @property
    def amount(self) -> str:
        """The epsilon as a line begins with it: "no bound" where it is infinite."""
        return "no bound" if math.isinf(self.epsilon) else f"epsilon {epsilon_text(self.epsilon)}"

    @property
    def words(self) -> str:
        """What it is about, with its condition, and how far the odds move."""
        if math.isinf(self.epsilon):
            return f"{self.about}; {self.reason or NOT_BOUNDED}"
        if self.epsilon > MOST:
            return f"{self.about}; somebody could be {CERTAIN}"
        most = "at most " if self.kind in {"any", "report", "years"} else ""  # the others hold under a condition
        return f"{self.about}; odds move by a factor of {most}{factor(self.epsilon)}"

    @property
    def sentence(self) -> str:
        """The line, as a sentence."""
        return f"{self.amount[:1].upper()}{self.amount[1:]}: {self.words}."

    @property
    def epsilon_words(self) -> str:
        """The epsilon as it is printed, and in the same line what it is but for a chance of delta."""
        plain, less = epsilon_text(self.epsilon), epsilon_text(self.epsilon_at_delta)
        is_less = self.delta is not None and self.epsilon_at_delta is not None and less != plain
        return f"{plain} ({less} at delta {self.delta:g})" if is_less else plain

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        plain = {"about": self.about, "epsilon": finite(self.epsilon), "assumption": self.assumption}
        approximate = {"delta": self.delta, "epsilon_at_delta": self.epsilon_at_delta} if self.delta else {}
        texts = {"reason": self.reason if math.isinf(self.epsilon) else None, "caution": self.caution}
        return {"kind": self.kind} | plain | approximate | {name: text for name, text in texts.items() if text}


@dataclass(frozen=True)
class Claims:
    """What the reports of a mechanism reveal, in the words of every page and command."""

    terms: Terms
    cautions: Mapping[str, str] = field(default_factory=dict)  # by what they are about

    @classmethod
    def of(cls, metric: Metric) -> Claims:
        terms = metric_terms(metric)
        return cls(terms, cautions(metric.mechanism, terms))

    def in_years(self, reports: int, years: int = 1, word: str = "report") -> Claim:
        """Say by how much any two histories of as many years can be told apart, with so many reports in each."""
        # Kept noise tells more together with the reports of earlier years.
        one = "any year" if self.terms.fresh or self.terms.once else "the first year"
        stretch = one if years == 1 else f"any {years} years"
        claim = self._of_any(f"{ALWAYS}, in {stretch}: {plural(reports * years, word)}", reports * years)
        return claim if years == 1 else replace(claim, kind="years")

    def any_history(self, reports: int, whose: str = "") -> Claim:
        """Say by how much any two histories of so many reports can be told apart."""
        only = ONLY if self.terms.once and reports == 1 else ""
        return self._of_any(f"{ALWAYS}: {whose}{plural(reports, 'report')}{only}", reports)

    def _of_any(self, about: str, reports: int) -> Claim:
        epsilon, why = self.terms.epsilon_any(reports), why_unbounded([self.terms])
        exact = self.terms.epsilon_any_is_exact(reports)
        rests = FRESH if self.terms.fresh else ANY_EXACT if exact else ANY_BOUND
        return Claim(about, epsilon, rests, self.cautions.get("any"), kind="any", reason=why)

    def unchanged(self, reports: int = 1, under: str = "") -> Claim:
        """Say what some reports of one unchanged value tell; of one report, whatever the value."""
        epsilon = self.terms.epsilon_n(reports)
        if reports == 1:
            return Claim(f"one report{under}", epsilon, REPORT, self.cautions.get("report"), kind="report")
        about, rests = f"{plural(reports, 'report')}, {UNCHANGED}", FRESH if self.terms.fresh else MEMO
        return Claim(about, epsilon, rests, self.cautions.get("several"), kind="unchanged")

    def permanent(self) -> Claim:
        epsilon = self.terms.epsilon_permanent
        rests = NO_CEILING if self.terms.fresh or math.isinf(epsilon) else PERMANENT
        return Claim(
            f"any number of reports, {UNCHANGED}", epsilon, rests, self.cautions.get("permanent"), kind="permanent"
        )


def why_unbounded(every: Iterable[Terms]) -> str:
    """Say why any two histories have no bound, where they have none."""
    certain = next((terms for terms in every if terms.proves_changes), None)
    return NOT_BOUNDED if certain is None else CHANGED


def claims_blocks(claims: Sequence[Claim]) -> Iterator[Block]:
    """Return the claims as a table, and what they rest on as numbered notes."""
    texts = dict.fromkeys(texts for claim in claims for texts in words_of(claim))
    numbers = {text: number for number, text in enumerate(texts, 1)}
    headings = ("what is seen of one device", "epsilon", "odds move", "rests on")
    rows = [
        (
            claim.about,
            claim.epsilon_words,
            odds_text(claim.epsilon),
            " ".join(f"[{numbers[w]}]" for w in words_of(claim)),
        )
        for claim in claims
    ]
    yield Table.of_cells("", headings, rows, left=(headings[0], headings[3]))
    yield Lines(*(f"[{number}] {text}" for text, number in numbers.items()))


def words_of(claim: Claim) -> tuple[str, ...]:
    """Return what a claim rests on, and means less by: first why it has no bound, where it has none."""
    reason = f"No bound: {claim.reason}." if math.isinf(claim.epsilon) and claim.reason else None
    return tuple(text for text in (reason, claim.assumption, claim.caution) if text)


@dataclass(frozen=True)
class PrivacyStatement:
    """What a mechanism reveals, exactly; every number is in nats and rounded up."""

    mechanism: str  # the mechanism's registry name, such as grr
    parameters: Mapping[str, Any]  # by name, as the registry builds it from them
    epsilon_report: float  # one report (RAPPOR's eps_1)
    epsilon_n: Mapping[int, float]  # n reports of one unchanged value, by n
    epsilon_permanent: float  # any number of reports of one unchanged value (RAPPOR's eps_infinity)
    terms: Terms  # the integers that all of it follows from
    attack: Attack  # what the best attacker achieves: a guess, and a suspicion at 1% false positives
    linkable: Linkability  # what the reports of a device have in common, in bits
    # n reports between any two histories, changing or not, by n: exact or a bound, see `Terms.epsilon_any_is_exact`
    epsilon_any: Mapping[int, float] = field(default_factory=dict)
    delta: float = DELTA  # the chance of `epsilon_at_delta`
    # as `epsilon_any`, but for a chance of delta, by n, where all noise is fresh
    epsilon_at_delta: Mapping[int, float] = field(default_factory=dict)
    cautions: Mapping[str, str] = field(default_factory=dict)  # where a paper claims more than it proves, by claim
    domain_size: int | None = None  # how many values there are, where that is known
    # how many votes a crafted report is worth; None where no single values are counted
    influence: Influence | None = None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every epsilon with its assumption."""
        return tuple(self._claims())

    def _claims(self) -> Iterator[Claim]:
        claims = Claims(self.terms, self.cautions)
        bounded = [n for n, epsilon in self.epsilon_any.items() if math.isfinite(epsilon)]
        # Where two reports prove a change, that is all there is to say of any two histories.
        for n in bounded or [*self.epsilon_any][:1]:
            less = self.epsilon_at_delta.get(n, math.inf)
            spared = less < self.epsilon_any[n] - 1e-4
            claim = claims.any_history(n)
            yield replace(claim, delta=self.delta, epsilon_at_delta=less) if spared else claim
        yield from (claims.unchanged(n) for n in sorted({1, *self.epsilon_n}))
        if self.terms.once:
            about = "all that a device ever reports by these parameters"
            yield Claim(about, self.epsilon_permanent, ONCE, kind="permanent")
            return
        yield claims.permanent()
        if not self.terms.fresh:
            most = "" if self.terms.most_values is None else f" and {self.terms.most_values}"
            rests = (
                f"D distinct values cost D times as much, D being at most the number of reports{most}; {SAME_PATTERN}"
            )
            about, caution = f"each further distinct value, {PATTERN}", self.cautions.get("values")
            yield Claim(about, self.epsilon_permanent, rests, caution, kind="values")

    def plain_words(self) -> str:
        """Say it to a person: first what holds whatever the person does."""
        return " ".join((*self._sentences(), self.attack.plain_words()))

    def _sentences(self) -> Iterator[str]:
        number = max((n for n, epsilon in self.epsilon_any.items() if math.isfinite(epsilon)), default=1)
        if number > 1:
            yield (
                f"Any {number} reports of one device, whatever it holds and however that changes, can change anyone's "
                f"guess between two histories {_by_factor(self.epsilon_any[number])}."
            )
        if self.epsilon_at_delta.get(number, math.inf) < self.epsilon_any.get(number, 0.0):
            yield f"But for a chance of {self.delta:g} it is {_by_factor(self.epsilon_at_delta[number])}."
        yield f"One report can change anyone's guess between two values {_by_factor(self.epsilon_report)}."
        number = max(self.epsilon_n, default=1)
        if number > 1 and self.epsilon_n[number] < self.epsilon_permanent:
            yield f"After {number} reports of the same value it is {_by_factor(self.epsilon_n[number])}."
        if self.terms.once:
            yield (
                "A device sends one report by these parameters, and no other: however its value changes, this is all "
                "that it ever reveals by them."
            )
        elif math.isinf(self.epsilon_permanent):
            yield "There is no permanent noise: enough reports of one value give it away."
        else:
            yield (
                f"However many reports of the same value there are, it is {_by_factor(self.epsilon_permanent)}; "
                "each different value adds the same amount."
            )
        if self.terms.proves_changes:
            yield "A change of value can be certain from 2 reports: the same value always sends the same report."

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        return {
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "epsilon_report": finite(self.epsilon_report),
            "epsilon_permanent": finite(self.epsilon_permanent),
            "epsilon_n": by_number(self.epsilon_n),
            "epsilon_any": by_number(self.epsilon_any),
            "epsilon_any_exact": [n for n in self.epsilon_any if self.terms.epsilon_any_is_exact(n)],
            "delta": self.delta if self.epsilon_at_delta else None,
            "epsilon_at_delta": by_number(self.epsilon_at_delta),
            "attack": self.attack.to_json(),
            "most_values": self.terms.most_values,
            "domain_size": self.domain_size,
            "claims": [claim.to_json() for claim in self.claims],
            "linkable": self.linkable.to_json(),
            "influence": None if self.influence is None else self.influence.to_json(),
            "plain_words": self.plain_words(),
        }


def statement(
    mechanism: Kind,
    *,
    reports: Iterable[int] = (1, 2, 3, 5, 10),
    delta: float = DELTA,
    terms: Terms | None = None,
) -> PrivacyStatement:
    """Return the privacy statement of a mechanism, or of what takes numbers.

    Parameters
    ----------
    mechanism
        A frequency oracle's mechanism, or a numeric randomizer.
    reports
        For which n to state `epsilon_n` and `epsilon_any`.
    delta
        The chance for which `epsilon_at_delta` is stated; ignored where responses are memoized.
    terms
        Those of a metric, whose panel may draw afresh what the mechanism memoizes; the mechanism's unless given.

    Raises
    ------
    ParameterError
        When a number of reports or `delta` is out of range, or the map does not fit the mechanism.

    Examples
    --------
    >>> from overstory.protocol.kinds.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> said = statement(rappor)
    >>> round(said.epsilon_report, 4), round(said.epsilon_permanent, 4)
    (1.0743, 4.3944)
    >>> round(said.terms.epsilon_values(3), 3)
    13.183
    >>> round(said.epsilon_any[2], 2), said.terms.epsilon_any_is_exact(2)
    (9.68, True)
    """
    by_itself = terms_of(mechanism)
    terms = by_itself if terms is None else terms
    achieved = attack(mechanism)
    if terms != by_itself:  # enough answers with noise of their own give an unchanged value away
        achieved = replace(achieved, unchanged=Success(1.0, 1.0))
    epsilons = (1,) if terms.once else tuple(reports)
    # Any two histories: of as many reports as are asked for, of a window's and of ten windows'.
    window: int | None = mechanism.parameters.get("window")
    numbers = {n for n in (*epsilons, *((window, 10 * window) if window else ())) if n > 1}
    together = {n: terms.epsilon_any(n) for n in sorted(numbers)}
    approximate = {n: epsilon_at(terms, n, delta) for n in together} if terms.fresh else {}
    return PrivacyStatement(
        mechanism=mechanism.name,
        parameters=MappingProxyType(dict(mechanism.parameters)),
        epsilon_report=mechanism.epsilon_report,
        epsilon_n=MappingProxyType({n: terms.epsilon_n(n) for n in epsilons}),
        epsilon_permanent=mechanism.epsilon_permanent if terms == by_itself else terms.epsilon_permanent,
        terms=terms,
        attack=achieved,
        epsilon_any=MappingProxyType(together),
        delta=delta,
        epsilon_at_delta=MappingProxyType(approximate),
        linkable=linkability(mechanism),
        cautions=MappingProxyType(cautions(mechanism, terms)),
        domain_size=mechanism.domain_size,
        influence=mechanism.influence,
    )


def _by_factor(epsilon: float) -> str:
    if math.isinf(epsilon):
        return f"without bound (epsilon {epsilon_text(epsilon)})"
    to = "to practical certainty" if epsilon > MOST else f"by a factor of at most {factor(epsilon)}"
    return f"{to} (epsilon {epsilon_text(epsilon)})"


def by_number(epsilons: Mapping[int, float]) -> dict[str, float | None]:
    """Return the epsilons by n as a string, for JSON."""
    return {str(n): finite(epsilon) for n, epsilon in epsilons.items()}


REPORT = (
    "The device draws all noise as declared, and whatever a report shows openly, such as a cohort, without looking at "
    "the value; nothing else about the report (its time, its sender), nor whether there is one, depends on the value."
)
MEMO = (
    "All reports are of one unchanged value, from one memoized permanent response; only the instantaneous round is "
    "drawn afresh."
)
ANY_EXACT = "Between any two histories of as many reports: this is what the worst two come to."
ANY_BOUND = "Between any two histories of as many reports: a bound, above what the worst two come to."
FRESH = "All noise is drawn afresh for every report, so reports add up: exactly, and whether or not the values change."
PERMANENT = "All reports are of one unchanged value; even the permanent response itself may be seen."
NO_CEILING = "There is no ceiling: nothing is memoized, and every report adds its own."
SAME_PATTERN = (
    "only between histories in which the same reports come from one permanent response. Values with one hash share it, "
    "and so do values past a cap."
)
ONCE = "A device sends one report by these parameters and no other, whether its value changes or not."


def cautions(mechanism: Kind, terms: Terms) -> dict[str, str]:
    """Return the cautions of a mechanism by claim."""
    by_claim: dict[str, str] = {}
    for claim, text in (*_superadditive(terms), *_of_papers(mechanism, terms)):
        by_claim[claim] = f"{by_claim[claim]} {text}" if claim in by_claim else text
    return by_claim


def _superadditive(terms: Terms) -> Iterator[tuple[str, str]]:
    """Say where n reports of one memoized value cost more than n times one."""
    single = terms.epsilon_n(1)
    worse = [n for n in range(2, 11) if terms.epsilon_n(n) > n * single + 1e-12]
    if worse and not terms.fresh:
        n = worse[0]
        text = (
            f"{n} reports cost {epsilon_text(terms.epsilon_n(n))}, more than {n} times one "
            f"({epsilon_text(n * single)}): reports of one value share their permanent response, so sequential "
            "composition of single reports does not bound them."
        )
        yield "several", text


def _of_papers(mechanism: Any, terms: Terms) -> Iterator[tuple[str, str]]:
    """Say what a mechanism's paper claims beyond what it proves, and where the same number means less."""
    permanent = epsilon_text(terms.epsilon_permanent)
    match mechanism.name:
        case "rappor" | "basic-rappor":
            text = "The RAPPOR paper (section 3.2) says that this cannot be computed; it can, and this is exact."
            yield "several", text
            yield "permanent", "The RAPPOR paper (section 6.1) warns that values which change fall outside of this."
        case "wb" | "opt-wb":
            window = mechanism.parameters["window"]
            text = (
                f"The thesis (section 4.2) bounds any {window} consecutive reports, which is right, and says nothing "
                f"of all of them: {10 * window} reports cost {epsilon_text(terms.epsilon_any(10 * window))}, and so "
                "on without end."
            )
            yield "any", text
        case "opt-dr":
            text = (
                f"The thesis (section 4.3) claims {permanent} for any number of bins, by parallel composition, since "
                "the collector cannot link a participant's reports. That is an assumption about linking, not a "
                "theorem: parallel composition is across people, and D linked bins of one person cost D times as much."
            )
            yield "values", text
        case "loloha":
            symbols = mechanism.encoding.num_symbols
            ceiling = epsilon_text(add_up([(symbols, terms.epsilon_permanent)]))
            text = (
                f"The paper claims {symbols} x {permanent} = {ceiling} for whatever a device reports. It holds between "
                "histories whose hashed symbols repeat alike, which histories of different values need not do; it "
                "fails under changes."
            )
            yield "values", text
        case "square-wave" | "hybrid":
            text = (
                "The device must keep the report of each position (`responder`); drawn afresh, n reports cost n times "
                f"{epsilon_text(terms.epsilon_n(1))}."
            )
            yield "several", text
            text = (
                f"A position is 1/{mechanism.resolution} of the range: readings that differ at all are nearly always "
                "different values, so a device that reports a reading again and again spends this every time."
            )
            yield "values", text
        case "ranges":
            text = (
                f"The device's level, 1 of {mechanism.num_cohorts}, is public, drawn once without looking at the "
                "value, and kept: a device that answered at two levels would spend this for each."
            )
            yield "report", text
