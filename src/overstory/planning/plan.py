"""A plan, as data and in plain words: what parameters reveal and what they let a collection learn.

A plan is compared with the paper's parameters (p = 1/2, q = 3/4, h = 2) within the same two budgets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.support.work import REGRESSION
from overstory.planning.design import GRID
from overstory.planning.detection import count_error, root
from overstory.planning.nearest import Nearest
from overstory.presentation.document import Column, Table
from overstory.presentation.formats import seconds_text, thousands
from overstory.privacy import PrivacyStatement
from overstory.privacy.payloads.shared import bits_text
from overstory.privacy.shuffle.central import DELTA, CentralPrivacy, shuffled
from overstory.privacy.statements import by_number
from overstory.privacy.text import epsilon_text
from overstory.protocol.mechanisms.base import Influence
from overstory.protocol.mechanisms.bits import rappor
from overstory.protocol.mechanisms.payloads import BitMechanism

if TYPE_CHECKING:
    from overstory.analysis.comparison import Choice, Measured


@dataclass(frozen=True)
class AtShare:
    """A string of a given share: how well its count will be known, and how many reports would detect it.

    Attributes
    ----------
    frequency
        The share of the reports that hold the string, from 0 to 1.
    count
        The expected number of reports that hold it.
    standard_error
        The standard error of the estimated count, in reports.
    detectable
        Whether such a string is detected at least half the time.
    reports_needed
        How many reports in all would make it detectable.
    """

    frequency: float
    count: float
    standard_error: float
    detectable: bool
    reports_needed: int

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return dict(vars(self))


@dataclass(frozen=True)
class Comparison:
    """The paper's parameters (p = 1/2, q = 3/4, h = 2, the least f within both budgets) on the same collection.

    Attributes
    ----------
    parameters
        The paper's parameters by letter: k, h, m, p, q, f.
    epsilon_report, epsilon_permanent
        The exact privacy loss of one report, and of any number of reports of one value, in nats.
    epsilon_n, change_leak
        The privacy loss of n reports of one value, and of n reports in which it changed, in nats by n.
    epsilon_shuffled
        The privacy loss of one report that arrives shuffled: see `Plan.shuffled`.
    influence
        How many votes a crafted report is worth.
    standard_error
        The standard error of the count of a rare string, in reports.
    detectable_frequency
        The share of a string that is detected half the time.
    standard_error_ratio
        `standard_error` over the plan's: above 1, the plan is more precise.
    reports_ratio
        How many times as many reports the paper's parameters need for the plan's precision.
    higher_epsilon_n
        The n for which the plan reveals more than the paper's parameters.
    """

    parameters: Mapping[str, float]
    epsilon_report: float
    epsilon_permanent: float
    epsilon_n: Mapping[int, float]
    change_leak: Mapping[int, float]
    epsilon_shuffled: float
    influence: Influence
    standard_error: float
    detectable_frequency: float
    standard_error_ratio: float
    reports_ratio: float
    higher_epsilon_n: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        plain = dict(vars(self))
        plain |= {"parameters": dict(self.parameters), "higher_epsilon_n": list(self.higher_epsilon_n)}
        plain |= {"influence": self.influence.to_json()}
        return plain | {"epsilon_n": by_number(self.epsilon_n), "change_leak": by_number(self.change_leak)}


@dataclass(frozen=True)
class Plan:
    """What a collection would reveal and learn. Counts are in reports, frequencies are fractions.

    Attributes
    ----------
    mechanism
        The mechanism that the devices would use: a RAPPOR.
    num_reports, num_candidates, alpha
        The collection, one report a device, and the level of the tests.
    privacy
        Every epsilon with its assumption.
    standard_error
        Of the estimated count of a string that (nearly) nobody has.
    critical_value, detectable_frequency
        Q = Phi^-1(1 - alpha/M), Bonferroni's, and the share whose expected count is Q standard errors: such a string
        is detected half the time.
    reliable_frequency
        The share that is detected nine times in ten.
    critical_value_fdr, detectable_frequency_fdr
        The same for a false discovery rate of alpha, supposing that one candidate in ten is there.
    learnable_strings
        How many strings can be learned at most: as many, all of one share, as are still detected (RAPPOR, appendix).
    rule_of_thumb
        The paper's estimate of how many strings can be learned: sqrt(N) / 10.
    num_fitted
        How many strings the counts have to tell apart.
    share
        A string of the share asked about.
    sufficient_epsilon_permanent
        Where the parameters were planned: the permanent budget that would have sufficed for this precision.
    basic_standard_error
        Where the parameters were planned: that of a bit per value (Basic RAPPOR) with the same channels, for a list of
        candidates that is complete.
    comparison
        Where the parameters were planned: the paper's within the same budgets.
    nearest
        Where the parameters were planned and do not detect the share asked for, or any: the nearest needs that do.
    """

    mechanism: BitMechanism
    num_reports: int
    num_candidates: int
    alpha: float
    privacy: PrivacyStatement
    standard_error: float
    critical_value: float
    detectable_frequency: float
    reliable_frequency: float
    critical_value_fdr: float
    detectable_frequency_fdr: float
    learnable_strings: int
    rule_of_thumb: float
    num_fitted: int
    share: AtShare | None = None
    sufficient_epsilon_permanent: float | None = None
    basic_standard_error: float | None = None
    comparison: Comparison | None = None
    nearest: Nearest | None = None

    @property
    def epsilon_report(self) -> float:
        """Epsilon of one report."""
        return self.privacy.epsilon_report

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value."""
        return self.privacy.epsilon_permanent

    @property
    def epsilon_n(self) -> Mapping[int, float]:
        """Epsilon of n reports of one value, by n."""
        return self.privacy.epsilon_n

    @property
    def change_leak(self) -> Mapping[int, float]:
        """Epsilon of a change of value within n reports, by n."""
        return self.privacy.change_leak

    @property
    def detectable_count(self) -> float:
        """The smallest detectable count."""
        return self.detectable_frequency * self.num_reports

    @cached_property
    def shuffled(self) -> CentralPrivacy:
        """What one report would reveal if all reports arrived shuffled; see `shuffled`."""
        return shuffled(self.mechanism, self.num_reports, min(DELTA, 0.1 / self.num_reports))

    @property
    def core_seconds(self) -> float:
        """About how many seconds one core takes to count the reports and to decode the candidates."""
        bits, cohorts = self.mechanism.payload_bits, self.mechanism.num_cohorts
        return REGRESSION.core_seconds(self.num_reports, bits, self.num_candidates, cohorts)

    @cached_property
    def parameters(self) -> Mapping[str, float]:
        """RAPPOR's letters: k, h, m, p, q, f."""
        return MappingProxyType(letters(self.mechanism))

    def standard_error_at(self, frequency: float) -> float:
        """Return the standard error of the count of a string of that frequency."""
        return count_error(self.mechanism, self.num_reports, frequency, self.num_fitted)

    def plain_words(self) -> str:
        """Say it to a person."""
        return " ".join(self.sentences())

    def sentences(self) -> Iterator[str]:
        """Say what the plan reveals and learns, one thought after the other."""
        return _sentences(self)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        privacy = self.privacy.to_json()
        shared = ("epsilon_report", "epsilon_permanent", "epsilon_n", "change_leak")
        return {
            "mechanism": self.mechanism.name,
            "parameters": dict(self.parameters),
            **{key: privacy[key] for key in shared},
            **{name: getattr(self, name) for name in _NUMBERS},
            "central": self.shuffled.to_json(),
            "influence": self.mechanism.influence.to_json(),
            "share": self.share and self.share.to_json(),
            "sufficient_epsilon_permanent": self.sufficient_epsilon_permanent,
            "basic_standard_error": self.basic_standard_error,
            "paper": self.comparison and self.comparison.to_json(),
            "nearest": self.nearest and self.nearest.to_json(),
            "claims": privacy["claims"],
            "linkable": privacy["linkable"],
            "plain_words": self.plain_words(),
        }


_NUMBERS = (
    "core_seconds",
    "num_reports",
    "num_candidates",
    "alpha",
    "standard_error",
    "critical_value",
    "detectable_frequency",
    "detectable_count",
    "reliable_frequency",
    "critical_value_fdr",
    "detectable_frequency_fdr",
    "learnable_strings",
    "rule_of_thumb",
    "num_fitted",
)


def letters(mechanism: BitMechanism) -> dict[str, float]:
    """Return a RAPPOR's parameters under the paper's letters; one round is p = 0, q = 1 with f, or f = 0."""
    encoding, given = mechanism.encoding, mechanism.parameters
    sizes = {"k": encoding.num_bits, "h": getattr(encoding, "num_hashes", 1), "m": encoding.num_cohorts}
    absent = {"p": 0.0, "q": 1.0, "f": 0.0}
    chances = {letter: value if given.get(letter) is None else given[letter] for letter, value in absent.items()}
    return sizes | chances


def _sentences(plan: Plan) -> Iterator[str]:
    """Say what a plan reveals and learns, one sentence after the other."""
    yield plan.privacy.plain_words()
    yield f"Linkable: {plan.privacy.linkable.words()}."
    yield (
        f"If all reports arrive in one shuffled batch, without addresses or times, and nobody knows a person's cohort, "
        f"her report reveals epsilon {epsilon_text(plan.shuffled.epsilon)} at delta {plan.shuffled.delta:g} among "
        f"{plan.shuffled.reports:,} honest reports (overstory privacy --shuffled says what that rests on)."
    )
    yield (
        f"From {plan.num_reports:,} reports a string's count is known with a standard error of "
        f"{plan.standard_error:,.0f} ({plan.standard_error / plan.num_reports:.3%} of the reports). "
        f"Counting and decoding takes about {seconds_text(plan.core_seconds)} seconds of one core."
    )
    yield from _detection(plan)
    if plan.share:
        yield from _share(plan.share, plan)
    if plan.nearest:
        yield plan.nearest.plain_words()
    if plan.comparison:
        yield from paper_sentences(plan, plan.comparison)
    yield from _spare(plan)


def _detection(plan: Plan) -> Iterator[str]:
    if plan.detectable_frequency > 1:
        yield "That is too uncertain to detect anything: collect more reports, or allow a larger epsilon."
        return
    surely = (
        f"nine times in ten from {plan.reliable_frequency:.3%}"
        if plan.reliable_frequency <= 1
        else "and no share nine times in ten"
    )
    yield (
        f"With {plan.num_candidates:,} candidates and a chance of {100 * plan.alpha:.3g}% of any false detection, a "
        f"string is found about half the time from a share of {plan.detectable_frequency:.3%}, {surely}; at a false "
        f"discovery rate of {100 * plan.alpha:.3g}% instead, half the time from "
        f"{min(plan.detectable_frequency_fdr, 1.0):.3%}. Rarer strings are more likely missed than detected."
    )
    strings = "string" if plan.learnable_strings == 1 else "strings"
    equal = ", and only if they are equally frequent" if plan.learnable_strings > 1 else ""
    rule = f"(rule of thumb: {plan.rule_of_thumb:,.0f})"
    yield f"At most {plan.learnable_strings:,} {strings} can be learned{equal} {rule}."
    if plan.num_fitted < plan.num_candidates:
        yield (
            "There are too many candidates to estimate all at once: the plan assumes a decoder that first screens them "
            f"and then fits about {plan.num_fitted:,}."
        )


def _share(at: AtShare, plan: Plan) -> Iterator[str]:
    yield (
        f"A string held by {at.frequency:.3%} ({at.count:,.0f} reports, standard error {at.standard_error:,.0f}) needs "
        f"{at.reports_needed:,} reports to be detected: {plan.num_reports:,} are "
        f"{'enough' if at.detectable else 'too few'}."
    )


def _spare(plan: Plan) -> Iterator[str]:
    enough = plan.sufficient_epsilon_permanent
    if enough is not None and enough < plan.epsilon_permanent - 1e-3:
        yield (
            f"A permanent epsilon of {epsilon_text(enough)} would give one report a device the same standard error "
            "(--thrifty plans so); a larger one pays where reports of one device are averaged, and hides changes of "
            "value better."
        )
    if plan.basic_standard_error is not None and 2 <= plan.num_candidates <= plan.parameters["k"]:
        yield (
            f"If there are no other values than the {plan.num_candidates} candidates, Basic RAPPOR (a bit for each) "
            f"with these f, p and q has a standard error of {plan.basic_standard_error:,.0f}."
        )


PAPER: Final = {"num_hashes": 2, "p": 0.5, "q": 0.75}


def paper_design(epsilon_report: float, epsilon_permanent: float, like: BitMechanism) -> BitMechanism:
    """Return the paper's p = 1/2, q = 3/4, h = 2 at the least f that keeps both budgets, in filters like `like`'s.

    Examples
    --------
    >>> paper = paper_design(1.0743, 4.3945, rappor())
    >>> round(paper.parameters["f"], 4)
    0.5
    """

    def build(f: int) -> BitMechanism:
        return rappor(**{**like.parameters, **PAPER, "f": f / GRID})

    def fits(f: int) -> bool:
        tried = build(f)
        return tried.epsilon_report <= epsilon_report and tried.epsilon_permanent <= epsilon_permanent

    near = _paper_share(epsilon_report, epsilon_permanent)
    low, high = max(0, near - 4), min(GRID - 1, near + 4)
    if fits(low) or not fits(high):
        low, high = 0, GRID - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return build(high)


def _paper_share(epsilon_report: float, epsilon_permanent: float) -> int:
    """Return about the least f, times `GRID`, that keeps both budgets: in floats, where the search begins."""
    hashes, p, q = PAPER["num_hashes"], PAPER["p"], PAPER["q"]

    def spare(f: float) -> float:
        to_one, to_zero = q - (q - p) * f / 2, p + (q - p) * f / 2
        odds = to_one * (1 - to_zero) / (to_zero * (1 - to_one))
        return epsilon_report - hashes * math.log(odds)

    kept = 2 / (1 + math.exp(epsilon_permanent / (2 * hashes)))
    return round(GRID * max(kept, min(1.0, root(spare))))


def paper_sentences(plan: Plan, paper: Comparison) -> Iterator[str]:
    """Say how a plan compares with the paper's parameters."""
    yield (
        f"The paper's p = 0.5, q = 0.75, h = 2 with f = {paper.parameters['f']:.4g}, within the same two epsilons, "
        f"would have a standard error of {paper.standard_error:,.0f}: {paper.standard_error_ratio:.2f} times as large; "
        f"{paper.reports_ratio:.2f} times as many reports would make up for it."
    )
    if paper.higher_epsilon_n:
        n = max(paper.higher_epsilon_n, key=lambda n: plan.epsilon_n[n] - paper.epsilon_n[n])
        yield (
            f"In between this plan reveals a little more: {n} reports of one value have epsilon "
            f"{plan.epsilon_n[n]:.3f}, the paper's {paper.epsilon_n[n]:.3f}."
        )
    for n, leak in plan.change_leak.items():
        if leak > paper.change_leak[n]:
            yield (
                f"And a change of value is easier to see: epsilon {leak:.2f} within {n} reports, the paper's "
                f"{paper.change_leak[n]:.2f}."
            )


EPSILONS_SHOWN: Final = (2, 5, 10)


def plan_table(plan: Plan) -> Table:
    """Return the plan, and the paper's parameters where they are compared, as columns."""
    plans: list[Plan | Comparison] = [plan, *([plan.comparison] if plan.comparison else [])]
    several = [(f"epsilon of {n} reports of one value", [of.epsilon_n[n] for of in plans]) for n in EPSILONS_SHOWN]
    changes = [(f"epsilon of a change in {n} reports", [of.change_leak[n] for of in plans]) for n in plan.change_leak]
    central = plan.shuffled
    among = f"the same, shuffled among {central.reports:,} (delta {central.delta:g})"
    influences = [plan.mechanism.influence, *([] if plan.comparison is None else [plan.comparison.influence])]
    also = [] if plan.comparison is None else [plan.comparison.epsilon_shuffled]
    epsilons = [
        ("epsilon of one report", [of.epsilon_report for of in plans]),
        (among, [central.epsilon, *also]),
        *several,
        ("epsilon of any number of them", [of.epsilon_permanent for of in plans]),
        *changes,
    ]
    letters = (" ".join(f"{letter}={of.parameters[letter]:.4g}" for letter in "khmpqf") for of in plans)
    rows = [
        ("parameters", *letters),
        *((name, *map(epsilon_text, numbers)) for name, numbers in epsilons),
        ("votes of one crafted report, at most", *(f"{votes.up:.1f}" for votes in influences)),
        ("standard error of a rare count", *(thousands(of.standard_error) for of in plans)),
        ("share detected half the time", *(f"{of.detectable_frequency:.3%}" for of in plans)),
    ]
    columns = (
        Column("figure", "figure", is_left=True),
        Column("plan", "this plan"),
        Column("paper", "the paper's parameters"),
    )
    named = columns[: 1 + len(plans)]
    keys = [column.name for column in named]
    return Table("", named, [dict(zip(keys, row, strict=True)) for row in rows])


def ranking_table(ranking: Sequence[Choice], measured: Sequence[Measured] | None = None, caption: str = "") -> Table:
    """Return a ranking of oracles; with what simulated collections came to, where they were made."""
    errors: Sequence[Measured | None] = measured or [None] * len(ranking)
    rows = [_row(choice, ranking[0], error) for choice, error in zip(ranking, errors, strict=True)]
    columns = (
        Column("name", "oracle", is_left=True),
        Column("standard_error", "std. error", "{:.3e}".format),
        Column("over_best", "over best", "{:.1%}".format),
        Column("report_bits", "bits"),
        Column("same"),
        Column("alike"),
        Column("influence", "a liar's votes", "{:.1f}".format),
        Column("core_seconds", "core-seconds", seconds_text),
        Column("decoding", is_left=True),
        *([Column("measured")] if measured is not None else []),
    )
    return Table(caption, columns, rows)


def _row(choice: Choice, first: Choice, measured: Measured | None) -> dict[str, Any]:
    error = "" if measured is None else f"{measured.error:.3e}"
    spread = "" if measured is None or measured.standard_error is None else f" +/- {measured.standard_error:.1e}"
    return {
        "name": choice.name,
        "standard_error": choice.standard_error,
        "over_best": math.sqrt(choice.variance / first.variance) - 1,
        "report_bits": choice.report_bits,
        "same": bits_text(choice.linkable.bits).split()[0],
        "alike": bits_text(choice.linkable.shared(1)).split()[0],
        "influence": choice.influence.up,
        "core_seconds": choice.core_seconds,
        "decoding": choice.decoding,
        "measured": error + spread,
    }
