"""A plan, as data and in plain words: what parameters reveal and what they let a collection learn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.kinds.work import REGRESSION
from overstory.analysis.variance import frequency_variance
from overstory.planning.detection import count_error, critical_value
from overstory.presentation.document import Block, Column, Lines, Table
from overstory.presentation.formats import epsilon_text, plural, seconds_text, significant, thousands
from overstory.presentation.formats import share as percentage
from overstory.presentation.result import Result
from overstory.privacy import PrivacyStatement, statement
from overstory.privacy.attacks import Linkability, linkability, metric_linkability
from overstory.privacy.payloads.shuffle import DELTA, CentralPrivacy, shuffled
from overstory.privacy.shared import bits_text

if TYPE_CHECKING:
    from overstory.analysis.comparison import Choice, Measured
    from overstory.presentation.svg import Picture
    from overstory.protocol.kinds.bits import BitMechanism
    from overstory.protocol.metrics import Metric


ALPHA: Final = 0.05  # the chance of any false detection, where none is given


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Result):
    """What a collection by one mechanism would learn, whatever the kind of its data."""

    mechanism: Any  # what the devices would randomize with
    written: Mapping[str, Any]  # parameters to write into a registry: without what follows from the rest of a metric
    num_reports: int  # how many reports are collected, one a device
    num_candidates: int  # among how many values is looked
    # the standard error of a share, as a fraction: of a rare string's, or on average over the domain. Of numbers that
    # of the mean of people who hold the worst value
    error: float
    alpha: float = ALPHA  # the chance of any false detection
    detected_half: float | None = None  # the share that is detected half the time; None where none is
    detected_nine_in_ten: float | None = None  # the share that is detected nine times in ten; None where none is
    instead: str | None = None  # what else was nearly as good, and why it was not taken
    ranking: tuple[Choice, ...] = ()  # of a known domain: the oracles that meet the needs, the most accurate first
    choice: Choice | None = None  # the oracle to take of the ranking
    asked: float | None = None  # the share that was asked for
    people_needed: int | None = None  # how many devices detect it nine times in ten
    metric: str = ""  # the id of the metric that it was planned for
    of: Metric | None = None  # of a metric: as it was planned, with its groups and its panel

    def toml(self) -> str:
        """Return the oracle and its parameters as a registry has them."""
        return oracle_toml(self.mechanism.name, self.written)

    def error_at(self, frequency: float) -> float:
        """Return the standard error of a share of that size; of a search, and of a mean, it is of any."""
        if not self.mechanism.counts_values:
            return self.error
        return math.sqrt(frequency_variance(self.mechanism, self.num_reports, frequency))

    @property
    def threshold(self) -> float:
        """The estimated share from which a value counts as detected."""
        return critical_value(self.alpha, self.num_candidates) * self.error_at(0.0)

    def detection(self) -> Iterator[str]:
        """Say what is detected, and what would be needed."""
        smallest, given = self.detected_nine_in_ten, f"With {plural(self.num_reports, 'report')}"
        if smallest is None:
            yield f"{given} no share is detected nine times in ten."
        else:
            yield f"{given} a share of {percentage(smallest)} is detected nine times in ten; rarer ones may be missed."
        if self.asked is not None:
            enough = self.people_needed
            needed = "no number of devices is enough" if enough is None else f"{enough:,} devices are needed"
            yield f"To detect a share of {percentage(self.asked)} nine times in ten {needed}."

    def sentences(self) -> Iterator[str]:
        """Say what the plan reveals and learns, one thought after the other."""
        yield from self.detection()
        yield f"Linkable: {self.linkable.words()}."
        if self.instead is not None:
            yield f"Instead: {self.instead}."

    def as_table(self) -> Table:
        """Return what was compared, or what was planned for a metric."""
        if self.ranking:
            return ranking_table(self.ranking, caption="Oracles that meet the needs, the most accurate first")
        planned = {name: value for name, value in self.metric_json().items() if not isinstance(value, dict)}
        return Table("", tuple(Column(name, name.replace("_", " ")) for name in planned), [planned])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the numbers."""
        return (f"of {plural(self.num_reports, 'report')}, one a device; errors are of the noise alone",)

    def _headline(self) -> str:
        return (
            f"{self.mechanism.name}, {plural(self.num_reports, 'report')} at epsilon {self.mechanism.epsilon_report:g}"
        )

    def plot(self) -> Picture:
        """Return where estimates would lie: of a value of the share asked for, or of one that is seen, and of none."""
        import numpy as np

        from overstory.presentation.charts.numbers import Dots, with_intervals

        reach = NormalDist().inv_cdf(0.975)
        if self.detected_half is None and not self.mechanism.counts_values:
            half = np.array([reach * self.error])
            caption = "Where 95 of 100 estimates of the mean would lie, around the truth, 0."
            alt = f"At worst, 95 of 100 estimates of the mean lie within {significant(half[0])} of the truth."
            drawn = with_intervals("mean", caption, ["mean"], (0 * half, -half, half))
            return replace(drawn, alt=alt)
        held = next(part for part in (self.asked, self.detected_nine_in_ten, 0.1) if part is not None)
        shares = np.array([held, 0.0])
        half = reach * np.array([self.error_at(part) for part in shares.tolist()])
        caption = (
            f"Where 95 of 100 estimates of many collections would lie: of a value with a share of {percentage(held)}, "
            f"and of one that nobody holds. Detected is what passes {percentage(self.threshold)}."
        )
        low, high = shares - half, shares + half
        drawn = Dots(
            names=[f"held by {percentage(held)}", "held by nobody"],
            shares=shares,
            low=low,
            high=high,
            sure=shares >= self.threshold,
            threshold=self.threshold,
            words=("likely detected", "likely not"),
        ).picture("estimates", caption)
        alt = (
            f"95 of 100 estimates of a share of {percentage(held)} lie between {percentage(low[0])} and "
            f"{percentage(high[0])}; those of a value that nobody holds lie between {percentage(low[1])} and "
            f"{percentage(high[1])}. Detected is what passes {percentage(self.threshold)}."
        )
        return replace(drawn, alt=alt)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "reports": self.num_reports,
            **(self.choice.to_json() if self.choice else {}),
            "instead": self.instead,
            "alpha": self.alpha,
            "share": self.asked,
            "detected_nine_in_ten": self.detected_nine_in_ten,
            "people_needed": self.people_needed,
        }

    @property
    def linkable(self) -> Linkability:
        """What the reports of a device have in common."""
        return linkability(self.mechanism) if self.of is None else metric_linkability(self.of)

    def metric_words(self) -> str:
        """Say in one line what was planned for the metric."""
        lines, error = self.toml().replace("\n", ", "), f"{self.error:.3%} at {self.num_reports:,} reports"
        half, nine = self.detected_half, self.detected_nine_in_ten
        if half is None:
            error = f"standard error of the mean at most {significant(self.error, 3)} at {self.num_reports:,} reports"
            return f"{self.metric}: {lines}; for the {self.mechanism.reading}; {error}; {self.linkable.words()}"
        seen = "no value will be detected: plan for more reports, or a larger epsilon"
        if half < 1:
            reliable = "no value nine times in ten" if nine is None else f"nine times in ten from {percentage(nine)}"
            seen = f"a value is detected about half the time from a share of {percentage(half)}, {reliable}"
        instead = "" if self.instead is None else f" (instead: {self.instead})"
        once = f"; {NOISE_ONCE}" if self.linkable.has_payload else ""
        return (
            f"{self.metric}: {lines}; standard error of a share {error}; {seen}; {self.linkable.words()}{once}{instead}"
        )

    def metric_json(self) -> dict[str, Any]:
        """Return what was planned for the metric as JSON values."""
        of_a_mean = self.detected_half is None
        detected = {"detected_half": self.detected_half, "detected_nine_in_ten": self.detected_nine_in_ten}
        return {
            "metric": self.metric,
            "oracle": self.mechanism.name,
            "parameters": dict(self.written),
            "epsilon_report": self.mechanism.epsilon_report,
            **({"estimate": self.mechanism.reading} if of_a_mean else {}),
            "standard_error": self.error,
            "reports": self.num_reports,
            **({} if of_a_mean else detected),
            "linkable": self.linkable.to_json(),
            **({} if of_a_mean else {"instead": self.instead}),
        }


NOISE_ONCE: Final = (
    "with epsilon_permanent among the needs, reports are drawn afresh and do not show a change for certain"
)


def oracle_toml(name: str, parameters: Mapping[str, Any]) -> str:
    """Return an oracle with its parameters as the two lines of a registry."""
    given = ", ".join(f"{key} = {_toml(value)}" for key, value in parameters.items())
    return f'oracle = "{name}"\nparameters = {{{given}}}'


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else repr(value)


@dataclass(frozen=True, kw_only=True, repr=False)
class RapporPlan(Plan):
    """What a collection of strings by a RAPPOR would reveal and learn. Counts are in reports, frequencies fractions."""

    mechanism: BitMechanism
    critical_value: float  # Q = Phi^-1(1 - alpha/M), Bonferroni's
    # the share whose expected count is Q standard errors: such a string is detected half the time
    detectable_frequency: float
    reliable_frequency: float  # the share that is detected nine times in ten
    critical_value_fdr: float  # at a false discovery rate of alpha, supposing that one candidate in ten is there
    detectable_frequency_fdr: float  # the share that is detected half the time at that rate
    # how many strings can be learned at most: as many, all of one share, as are still detected (RAPPOR, appendix)
    learnable_strings: int
    num_fitted: int  # how many strings the counts have to tell apart
    # where the parameters were planned: the permanent budget that would have sufficed for this precision
    sufficient_epsilon_permanent: float | None = None

    @cached_property
    def privacy(self) -> PrivacyStatement:
        """Every epsilon with its assumption."""
        return statement(self.mechanism, reports=EPSILON_REPORTS)

    @property
    def standard_error(self) -> float:
        """The standard error of the estimated count of a string that (nearly) nobody has."""
        return self.error * self.num_reports

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
        """RAPPOR's letters: k, h, m, p, q, f; one round is p = 0, q = 1 with f, or f = 0."""
        encoding, given = self.mechanism.encoding, self.mechanism.parameters
        sizes = {"k": encoding.num_bits, "h": getattr(encoding, "num_hashes", 1), "m": encoding.num_cohorts}
        absent = {"p": 0.0, "q": 1.0, "f": 0.0}
        chances = {letter: value if given.get(letter) is None else given[letter] for letter, value in absent.items()}
        return MappingProxyType(sizes | chances)

    def error_at(self, frequency: float) -> float:
        return count_error(self.mechanism, self.num_reports, frequency, self.num_fitted) / self.num_reports

    @property
    def threshold(self) -> float:
        return self.detectable_frequency

    def plain_words(self) -> str:
        """Say it to a person."""
        return " ".join(self.sentences())

    def sentences(self) -> Iterator[str]:
        """Say what the plan reveals and learns, one thought after the other."""
        yield self.privacy.plain_words()
        yield f"Linkable: {self.privacy.linkable.words()}."
        yield (
            f"If all reports arrive in one shuffled batch, without addresses or times, and nobody knows a person's "
            f"cohort, her report reveals epsilon {epsilon_text(self.shuffled.epsilon)} at delta "
            f"{self.shuffled.delta:g} among {self.shuffled.reports:,} honest reports (`overstory privacy` says "
            "what that rests on)."
        )
        yield (
            f"From {self.num_reports:,} reports a string's count is known with a standard error of "
            f"{self.standard_error:,.0f} ({self.error:.3%} of the reports). "
            f"Counting and decoding takes about {seconds_text(self.core_seconds)} seconds of one core."
        )
        yield from self.detection()
        enough = self.sufficient_epsilon_permanent
        if enough is not None and enough < self.mechanism.epsilon_permanent - 1e-3:
            yield (
                f"A permanent epsilon of {epsilon_text(enough)} would give one report a device the same standard "
                "error; a larger one pays where reports of one device are averaged, and hides changes of value better."
            )

    def detection(self) -> Iterator[str]:
        half, nine = self.detectable_frequency, self.reliable_frequency
        if half > 1:
            yield "That is too uncertain to detect anything: collect more reports, or allow a larger epsilon."
        else:
            surely = f"nine times in ten from {nine:.3%}" if nine <= 1 else "and no share nine times in ten"
            yield (
                f"With {self.num_candidates:,} candidates and a chance of {100 * self.alpha:.3g}% of any false "
                f"detection, a string is found about half the time from a share of {half:.3%}, {surely}; at a false "
                f"discovery rate of {100 * self.alpha:.3g}% instead, half the time from "
                f"{min(self.detectable_frequency_fdr, 1.0):.3%}. Rarer strings are more likely missed than detected."
            )
            strings = "string" if self.learnable_strings == 1 else "strings"
            equal = ", and only if they are equally frequent" if self.learnable_strings > 1 else ""
            yield f"At most {self.learnable_strings:,} {strings} can be learned{equal}."
            if self.num_fitted < self.num_candidates:
                yield (
                    "There are too many candidates to estimate all at once: the plan assumes a decoder that first "
                    f"screens them and then fits about {self.num_fitted:,}."
                )
        if at := self._at_share():
            yield (
                f"A string held by {at['frequency']:.3%} ({at['count']:,.0f} reports, standard error "
                f"{at['standard_error']:,.0f}) needs {at['reports_needed']:,} reports with these parameters to "
                f"be detected: {self.num_reports:,} are {'enough' if at['detectable'] else 'too few'}."
            )

    def _at_share(self) -> dict[str, Any] | None:
        """Return how well the count of a string of the share asked for will be known."""
        if self.asked is None or self.people_needed is None:
            return None
        return {
            "frequency": self.asked,
            "count": self.asked * self.num_reports,
            "standard_error": self.error_at(self.asked) * self.num_reports,
            "detectable": self.num_reports >= self.people_needed,
            "reports_needed": self.people_needed,
        }

    def as_table(self) -> Table:
        """Return the plan's figures."""
        told, central = self.privacy, self.shuffled
        epsilons = {
            "epsilon of one report": told.epsilon_report,
            f"the same, shuffled among {central.reports:,} (delta {central.delta:g})": central.epsilon,
            **{f"epsilon of {n} reports of one value": told.epsilon_n[n] for n in (2, 5, 10)},
            "epsilon of any number of them": told.epsilon_permanent,
            "epsilon of any 2 reports, changing or not": told.epsilon_any[2],
        }
        figures = {
            "parameters": " ".join(f"{name}={self.parameters[name]:.4g}" for name in "khmpqf"),
            **{name: epsilon_text(epsilon) for name, epsilon in epsilons.items()},
            "votes of one crafted report, at most": f"{self.mechanism.influence.up:.1f}",
            "standard error of a rare count": thousands(self.standard_error),
            "share detected half the time": f"{self.detectable_frequency:.3%}",
        }
        columns = Column("figure", "figure", is_left=True), Column("plan", "this plan")
        return Table("", columns, [{"figure": name, "plan": shown} for name, shown in figures.items()])

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        privacy = self.privacy.to_json()
        shared = ("epsilon_report", "epsilon_permanent", "epsilon_n", "epsilon_any")
        return {
            "mechanism": self.mechanism.name,
            "parameters": dict(self.parameters),
            **{key: privacy[key] for key in shared},
            **{name: getattr(self, name) for name in _NUMBERS},
            "central": self.shuffled.to_json(),
            "influence": self.mechanism.influence.to_json(),
            "share": self._at_share(),
            "sufficient_epsilon_permanent": self.sufficient_epsilon_permanent,
            "claims": privacy["claims"],
            "linkable": privacy["linkable"],
            "plain_words": self.plain_words(),
        }


EPSILON_REPORTS: Final = (1, 2, 3, 5, 10, 20, 100)
_NUMBERS: Final = (
    "core_seconds",
    "num_reports",
    "num_candidates",
    "alpha",
    "standard_error",
    "critical_value",
    "detectable_frequency",
    "reliable_frequency",
    "critical_value_fdr",
    "detectable_frequency_fdr",
    "learnable_strings",
    "num_fitted",
)


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


MOST_VOTES: Final = 10.0  # of a crafted report: above that, a few liars decide the result


def ranking_blocks(
    ranking: tuple[Choice, ...], measured: list[Measured] | None, best: Choice, instead: str | None = None
) -> Iterator[Block]:
    """Return the ranking as a table, and what its columns mean."""
    parameters = ", ".join(f"{key}={value!r}" for key, value in best.parameters.items())
    trials = "" if not measured else plural(measured[0].rounds, "simulated collection")
    yield ranking_table(ranking, measured)
    yield Lines(
        f"recommended: overstory.oracle({best.name!r}, {parameters})",
        f"linkable: {best.linkable.words()}",
        *([] if instead is None else [f"instead: {instead}"]),
        "std. error: of a value's frequency, on average over the domain; bits: of a report, its public part included",
        *([f"measured: root mean square error of {trials}, +/- its standard error"] if trials else []),
        "same: bits that are the same in every report of a device while its value does not change",
        "alike: bits that two reports of an unchanged value share, equal or drawn from one permanent response",
        "a liar's votes: by how much one crafted report raises the count of a value that it aims at",
        "core-seconds: about how many seconds one core takes to count the reports and to estimate all values",
        *(
            f"warning: with {choice.name} a crafted report counts for {choice.influence.up:.0f} honest ones: 1% liars "
            f"raise any value's share by {100 * choice.influence.one_percent:.0f} percentage points"
            for choice in ranking
            if choice.influence.up > MOST_VOTES
        ),
    )
