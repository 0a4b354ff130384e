"""A trial of values that are counted one by one, in numbers and plain words: what terminal, page and JSON show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, Literal, TextIO, get_args

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.comparison import Choice, recommend
from overstory.analysis.estimate import converted
from overstory.analysis.kinds.base import Rng
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import Processed, postprocess
from overstory.analysis.tables.columns import PERIODS, Label, coded, labels_from, read_column, read_numbers
from overstory.analysis.tables.output import label_text, unlike, write_csv
from overstory.planning.detection import required_sample_size, smallest_share
from overstory.presentation.document import Block, Heading, Lines, Paragraph, Table
from overstory.presentation.formats import epsilon_text, finite
from overstory.presentation.svg import Picture
from overstory.privacy.statements import statement
from overstory.protocol.domains.numbers import Bins
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, Mechanism
from overstory.protocol.kinds.registry import mechanism
from overstory.trial.population import ANOTHER, I64, MANY_NUMBERS, MOST_VALUES, Column, Population, round_bins, symbols
from overstory.trial.run import MOST_BARS, Trial, TrialBudget, TrialResult, collect, seed_of, truth_picture

SHARES: Final = (0.1, 0.01, 0.001)
ALPHA: Final = 0.05


@dataclass(frozen=True)
class AtOracle:
    """What one oracle would show."""

    name: str  # the oracle
    # How many people each of `SHARES` needs, to be detected nine times in ten with a chance of `ALPHA` of any false
    # detection.
    people: tuple[int, ...]
    smallest: float | None  # the smallest share that the people of this column show so; None when they show none
    half: float | None  # the share that these people show about half the time, by the rule that `detected` used, if any
    nine_in_ten: float | None  # the share that they show so often

    def to_json(self) -> dict[str, Any]:
        needed = {f"{share:g}": count for share, count in zip(SHARES, self.people, strict=True)}
        return {
            "oracle": self.name,
            "people_needed": needed,
            "detectable_frequency": self.smallest,
            "detected_half_the_time": self.half,
            "detected_nine_times_in_ten": self.nine_in_ten,
        }


@dataclass(frozen=True)
class Advice:
    """What would be learned of such a column."""

    ranking: tuple[Choice, ...]  # the oracles that keep the budget, the most accurate first
    best: Choice  # the one to choose
    at_used: AtOracle
    at_best: AtOracle

    def to_json(self) -> dict[str, Any]:
        return {
            "detected_half_the_time": self.at_used.half,
            "detected_nine_times_in_ten": self.at_used.nine_in_ten,
            "recommended": self.best.name,
            "alpha": ALPHA,
            "used": self.at_used.to_json(),
            "best": self.at_best.to_json(),
            "oracles": [choice.to_json() for choice in self.ranking],
        }

    def table(self, caption: str = "") -> Table:
        """Return what these people show, by the rule that was used; then how many people shares need."""
        used, best = self.at_used, self.at_best
        columns = [used] if used.name == best.name else [used, best]
        rows: list[tuple[str, ...]] = [
            ("detected about half the time from", *(_share(column.half) for column in columns)),
            ("detected nine times in ten from", *(_share(column.nine_in_ten) for column in columns)),
        ]
        rows += [
            (f"people to detect a share of {share:.1%}", *(f"{column.people[i]:,}" for column in columns))
            for i, share in enumerate(SHARES)
        ]
        names = ("", used.name, f"{best.name} (best)")[: 1 + len(columns)]
        return Table.of_cells(caption, names, rows, left=("",))

    def words(self, population: Population) -> str:
        """Say which oracle is best, and why."""
        best, most_accurate = self.best, self.ranking[0]
        over = best.standard_error / most_accurate.standard_error - 1
        why = "the most accurate" if best == most_accurate else f"within {over:.1%} of the most accurate"
        also = f" ({most_accurate.name}, {most_accurate.report_bits:,} bits)" if best != most_accurate else ""
        return (
            f"For {len(population.labels):,} values at this epsilon the best oracle is {best.name}: {why}"
            f"{also}, with reports of {best.report_bits:,} bits. What your {population.num_devices:,} devices "
            f"show is by the rule used above; the people asked for show a share nine times in ten, with a chance of "
            f"{ALPHA:.0%} of any false detection."
        )


def advise(result: TrialResult) -> Advice:
    """Return the advice for a column that was collected."""
    ranking = result.budget.ranking(len(result.population.labels), len(result.population))
    best = recommend(ranking)
    built = mechanism(best.name, **best.parameters)
    return Advice(ranking, best, _at(result.mechanism, result), _at(built, result))


def _at(built: Mechanism, result: TrialResult) -> AtOracle:
    values, estimate = len(result.population.labels), result.estimate
    # Benjamini and Hochberg let through p-values up to alpha R / M when R of M passed; of none, the first: alpha / M.
    passed = max(int(np.count_nonzero(estimate.detected())), 1)
    shown = partial(smallest_share, built, _people(result), values, reports_per_device=result.reports_per_device)
    by_rule = partial(shown, alpha=estimate.alpha, num_tests=values / passed)
    each = result.reports_per_device
    return AtOracle(
        built.name,
        tuple(required_sample_size(built, share, values, alpha=ALPHA, reports_per_device=each) for share in SHARES),
        shown(alpha=ALPHA),
        by_rule(reach=0.0),
        by_rule(),
    )


def _people(result: TrialResult) -> int:
    """Return how many people report; if unevenly, as many as would all send the mean over the reports."""
    return round(len(result.population) * result.budget.reports / result.reports_per_device)


WEAK: Final = 10.0  # above this epsilon a note warns: the best guess between two values is wrong once in 22,000 times
QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
HERE: Final = (
    "Nothing of your file left this machine: the devices, the collector and this page are all simulated here. What is "
    "written next to the learned numbers is the truth, so share it as you would share the file."
)


@dataclass(frozen=True)
class Subject:
    """What a trial is of."""

    title: str  # of the page
    value: str  # what one value is called
    who: str  # who took part
    lead: str  # what a reader must know first
    sent: str = ""  # how reports travelled, where they left the process
    facts: Mapping[str, Any] = field(default_factory=dict)  # of its own, as JSON values
    privacy: str = ""  # what it costs a device; empty: what the reports of its mechanism do


def subject_of(column: Column, result: TrialResult) -> Subject:
    """Return what a trial of a file's column is of."""
    population, drawn = result.population, column.people is not None
    facts = {
        "file": column.path,
        "column": column.name,
        "rows": len(population) + (0 if drawn else population.missing),
        "missing": population.missing,
    }
    missing = "" if drawn or not population.missing else f"; {population.missing:,} rows without a value sent nothing"
    value = "bin" if population.edges else "value"
    if population.devices is not None:
        who = f"{population.num_devices:,} simulated devices with {len(population):,} rows, a report each{missing}"
        return Subject(column.name, value, who, HERE, facts=facts)
    each = result.budget.reports
    sent = "one report" if each == 1 else f"{each:,} reports"
    which = "drawn from the rows" if drawn else "one for each row"
    who = f"{len(population):,} simulated devices, {which}, {sent} of each{missing}"
    return Subject(column.name, value, who, HERE, facts=facts)


def quantile(edges: tuple[float, ...], counts: NDArray[np.float64], share: float) -> float:
    """Return where that share of the counts lies below, numbers being spread evenly over their bin."""
    below = np.append(0.0, np.cumsum(counts))
    return float(np.interp(share * below[-1], below, edges))


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Trial):
    """Everything there is to say about one trial."""

    subject: Subject
    result: TrialResult  # what was collected
    advice: Advice | None = None  # what would be learned at its budget

    @property
    def kind(self) -> Kind:
        return self.result.mechanism

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the numbers."""
        epsilon = self.result.mechanism.epsilon_report
        # Past this epsilon the best guess between two values is wrong less than once in 22,000 times.
        weak = [f"at epsilon {epsilon_text(epsilon)} a report hides next to nothing"] if epsilon > WEAK else []
        return (*self.result.population.notes, *weak, *self.result.estimate.notes)

    def _headline(self) -> str:
        learned = f"{sum(row['detected'] for row in self._rows):,} of {len(self._rows):,} {self.subject.value}s"
        return f"{learned} learned from {self.result.population.num_devices:,} devices"

    @property
    def is_numeric(self) -> bool:
        return bool(self.result.population.edges)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per value, the truth and what was learned; bins in order, values by the truth."""
        return list(self._rows)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        population = self.result.population
        at = {label: i for i, label in enumerate(population.labels)}
        rows = sorted(self.result.shown.rows(), key=lambda row: at[row["value"]])
        full = [
            {"value": row["value"], "truth": count, "true_frequency": count / len(population), **row}
            for row, count in zip(rows, population.counts.tolist(), strict=True)
        ]
        return full if self.is_numeric or population.in_order else sorted(full, key=lambda row: -row["truth"])

    def write_csv(self, text: TextIO) -> None:
        write_csv(self.result.shown, text, {"truth": self.result.population.counts.tolist()})

    def tables(self, *, everything: bool) -> Iterator[Block]:
        from overstory.trial.page import terminal_table, truth_table

        yield from [truth_table(self.subject.value, self.rows())] if everything else terminal_table(self)

    def blocks(self) -> Iterator[Block]:
        """Yield what the terminal shows: what was learned, and what would be."""
        yield from super().blocks()
        yield Lines(self.subject.lead)
        if self.advice is not None:
            yield Heading(3, "What would you learn?")
            yield Paragraph(self.advice.words(self.result.population))
            yield self.advice.table()

    def plot(self) -> Picture:
        """Return truth and estimates with their 95% intervals, a row per value."""
        rows = self.rows()
        return truth_picture("shares", rows, "true_frequency", most=len(rows) if self.is_numeric else MOST_BARS)

    @property
    def title(self) -> str:
        """Of the page."""
        return f"{self.subject.title}: {self._headline()}"

    def page_blocks(self, command: str = "") -> Iterator[Block]:
        from overstory.trial.page import page_blocks

        return page_blocks(self, command)

    def quantiles(self) -> list[dict[str, float]]:
        """Return true and learned quantiles, by the bins; none for values that are no numbers."""
        population = self.result.population
        if not self.is_numeric:
            return []
        counts = postprocess(self.result.estimate, "norm-sub").counts
        return [
            {
                "share": share,
                "truth": quantile(population.edges, population.counts.astype(np.float64), share),
                "learned": quantile(population.edges, counts, share),
            }
            for share in QUANTILES
        ]

    @property
    def who(self) -> str:
        return self.subject.who

    @property
    def more_reports(self) -> tuple[str, str]:
        """What the reports of a year tell, where there is a year."""
        return ("a year", self.subject.privacy) if self.subject.privacy else super().more_reports

    @property
    def privacy(self) -> str:
        """What the reports of a device reveal, in plain words."""
        return self.subject.privacy or super().privacy

    def to_json(self) -> dict[str, Any]:
        result, population = self.result, self.result.population
        stated, learned = statement(result.mechanism).to_json(), result.estimate.summary()
        return {
            **self.subject.facts,
            "devices": population.num_devices,
            "values": len(population.labels),
            "reports_per_device": result.reports_per_device,
            "oracle": result.mechanism.name,
            "parameters": stated["parameters"],
            **{key: stated[key] for key in ("epsilon_report", "epsilon_permanent", "epsilon_n", "epsilon_any")},
            "privacy": self.privacy,
            "seed": result.seed,
            **{key: finite(value) for key, value in learned.items()},
            "steps": result.shown.steps,
            "notes": list(self.notes),
            "rmse": result.rmse,
            "limit": result.limit,
            "inside_95": result.inside,
            "estimates": self.rows(),
            "quantiles": self.quantiles(),
            **({} if self.advice is None else {"advice": self.advice.to_json()}),
        }

    def sentences(self) -> list[str]:
        """Say in a few sentences what was learned, and from which share on."""
        result, population = self.result, self.result.population
        detected = int(np.count_nonzero(result.estimate.detected()))
        held = np.count_nonzero(population.counts)
        learned = f"{detected:,} of {held:,} {self.subject.value}s that somebody has, at a false discovery rate of"
        error = f"shares are off by {_points(result.rmse)} percentage points, root mean square"
        if result.limit is not None:
            error += f" ({result.rmse / result.limit:.2f} times what theory allows the best unbiased decoder to expect)"
        intervals = f"{result.inside:,} of {len(population.labels):,} intervals of these reports hold the truth"
        return [
            *([f"Sent: {self.subject.sent}."] if self.subject.sent else []),
            f"Learned: {learned} {result.estimate.alpha:.0%}; {error}; {intervals}.",
            *([] if self.advice is None else [f"Thresholds: {_thresholds(self.advice.at_used)}."]),
        ]


def _thresholds(used: AtOracle) -> str:
    """Say which shares these people show, by the rule that was used."""
    if used.half is None:
        return "no share is detected even half the time with so few people at this epsilon"
    often = "none nine times in ten" if used.nine_in_ten is None else f"nine times in ten from {used.nine_in_ten:.2%}"
    return f"a value is detected about half the time from a share of {used.half:.2%}, {often}"


def _points(error: float) -> str:
    points = 100 * error
    return f"{points:.0f}" if points >= 10 else f"{points:.2g}"


def _share(share: float | None) -> str:
    return "none" if share is None else f"{share:.2%}"


Missing = Literal["value", "drop"]

READ_OFF: Final = (
    "the list of values was read off the column; a real collection must know it beforehand (labels=...), or discover it"
)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Survey(Processed):
    """What a survey of a column learns: an estimate whose values are the column's own.

    Attributes
    ----------
    steps : tuple of str
        The post-processing steps that made `counts` of `raw_counts`, in order.
    oracle : FrequencyOracle
        What every row randomized with.
    """

    oracle: FrequencyOracle

    def _headline(self) -> str:
        return f"{super()._headline()}, {self.oracle.name}, epsilon {epsilon_text(self.oracle.epsilon_report)}"

    def summary(self) -> dict[str, Any]:
        """Return the facts about the survey, ready for JSON."""
        used = {"oracle": self.oracle.name, "epsilon_report": self.oracle.epsilon_report}
        return {**super().summary(), **used}


def survey(
    column: Any,
    epsilon: float = 1.0,
    *,
    labels: Any = None,
    bins: Bins | tuple[float, float, int] | None = None,
    by: str | None = None,
    missing: Missing = "value",
    oracle: str = "auto",
    rng: Rng = None,
) -> Survey:
    """Simulate a survey under local differential privacy: each row randomizes its value, and only that is counted.

    Parameters
    ----------
    column
        A Series of pandas or Polars, an Arrow array, a NumPy array, or a list: of text, categories, booleans, dates or
        whole numbers; of any numbers with `bins`.
    epsilon
        What a row's report may reveal, in nats; smaller is more private.
    labels
        The values that there can be, fixed beforehand as in a real collection. Unless given, the column's categories,
        or the values that occur, are the list, and a note says so.
    bins
        Minimum, maximum and number of equal bins, for numbers; what lies outside counts in the nearest.
    by : {"day", "week", "month", "year"}
        What dates are counted by; unless given, the shortest that leaves at most about 60 of them, which a note names.
    missing : {"value", "drop"}
        Whether a value is missing is private too: such a row reports None, a label like any other, which costs nothing.
        With "drop" it sends no report, so that everyone sees who has no value; a note counts them.
    oracle
        What each row randomizes with; "auto" is the one that `overstory compare` recommends.
    rng
        Randomness for the simulation, as NumPy takes it: a seed, a generator, or None. Equal seeds give equal results,
        so a seed is for simulations only: real devices draw from the operating system.

    Returns
    -------
    Survey
        An `Estimate`: print it, plot it, index it by a value, make a data frame of it. Its counts are moved to the
        nearest possible ones; `raw_counts` are unbiased.

    Raises
    ------
    ParameterError
        When the column holds no values, too many, or of a kind that has no labels; or a choice is unknown.

    Examples
    --------
    >>> answers = survey(["yes"] * 6_000 + ["no"] * 3_000 + [None] * 1_000, epsilon=1, rng=1)
    >>> [row.value for row in answers], round(answers["yes"].frequency, 1)
    (['yes', 'no', None], 0.6)
    """
    if missing not in get_args(Missing):
        raise ParameterError(f"missing = {missing!r}: choose one of {', '.join(get_args(Missing))}")
    if bins is not None and labels is not None:
        raise ParameterError("give bins or labels, not both")
    listed, codes, notes = _binned(column, bins) if bins is not None else _named(column, labels, missing, by)
    listed, codes, absent = _with_missing(listed, codes, missing)
    if len(listed) == 1:
        listed = (*listed, ANOTHER)
    population = _surveyed(listed, codes)
    result = collect(population, TrialBudget(epsilon), oracle, seed_of(rng))
    if not result.shown.detected().any():
        absent.append(
            f"no value was detected: {len(codes):,} reports at this epsilon are few for {len(listed):,} values"
        )
    said = (*result.shown.notes, *notes, *absent)
    oracle_of = FrequencyOracle(result.mechanism, listed)
    return converted(Survey, result.shown, values=listed, notes=said, steps=result.shown.steps, oracle=oracle_of)


def _named(column: Any, labels: Any, missing: Missing, by: str | None) -> tuple[tuple[Label, ...], I64, list[str]]:
    """Return the labels, each row's label (-1: missing), and what a reader must know of both."""
    if labels is not None:
        listed = labels_from(labels)
        place = None if None not in listed else listed.index(None)
        codes = coded(column, listed, missing=-1 if missing == "drop" else place)
        return listed, np.where(codes == place, -1, codes) if place is not None else codes, []
    read = read_column(column, by)
    values = read.labels[:-1] if None in read.labels else read.labels
    codes = np.where(read.codes == len(values), -1, read.codes) if None in read.labels else read.codes
    if len(values) > MOST_VALUES:
        raise ParameterError(
            f"the column has {len(values):,} distinct values, more than {MOST_VALUES:,}: give labels=[...] for those "
            "to ask about, bins=(minimum, maximum, count) for numbers, or find frequent ones by `overstory discover`"
        )
    notes = [] if all(isinstance(value, bool) for value in values) and values else [READ_OFF]
    notes += [f"dates were counted by {read.by}; by= gives another of {', '.join(PERIODS)}"] if read.by else []
    numbers = [label for label in values if isinstance(label, int) and not isinstance(label, bool)]
    if len(numbers) > MANY_NUMBERS:
        best = round_bins(float(numbers[0]), float(numbers[-1]), 20)
        notes.append(
            f"{len(numbers):,} different numbers are many to tell apart: "
            f"bins=({best.minimum:g}, {best.maximum:g}, {best.count}) would show more"
        )
    return values, codes, notes


def _binned(column: Any, bins: Bins | tuple[float, float, int]) -> tuple[tuple[Label, ...], I64, list[str]]:
    if not isinstance(bins, Bins) and (not isinstance(bins, tuple | list) or len(bins) != 3):
        raise ParameterError(f"bins = {bins!r}: give the minimum, the maximum and how many, as in (0, 100, 20)")
    made = bins if isinstance(bins, Bins) else Bins(*bins)
    numbers = read_numbers(column)
    absent = np.isnan(numbers)
    outside = int(np.count_nonzero((numbers < made.minimum) | (numbers > made.maximum)))
    codes = np.where(absent, -1, symbols(made, np.where(absent, made.minimum, numbers)))
    notes = [f"numbers outside the bins, counted in the nearest: {outside:,}"] if outside else []
    return made.labels, codes, notes


def _with_missing(labels: tuple[Label, ...], codes: I64, missing: Missing) -> tuple[tuple[Label, ...], I64, list[str]]:
    """Give missing values a label of their own, or leave them out, and say which."""
    absent = codes < 0
    number = int(np.count_nonzero(absent))
    if missing == "drop" and number:
        note = (
            f"{number:,} of {len(codes):,} rows hold no value and sent nothing: that they hold none was not protected"
        )
        return labels, codes[~absent], [note]
    if not number:
        return labels, codes, []
    labels = labels if None in labels else (*labels, None)
    note = f"{number:,} of {len(codes):,} rows hold no value: they report {label_text(None)}, a value like any other"
    return labels, np.where(absent, labels.index(None), codes), [note]


def _surveyed(labels: tuple[Label, ...], codes: I64) -> Population:
    if not codes.size:
        raise ParameterError("the column holds nothing to survey: no row has a value")
    texts = [label_text(label) for label in labels if label is not None]
    absent = unlike(label_text(None), texts)
    named = iter(texts)
    texts = [absent if label is None else next(named) for label in labels]
    return Population(tuple(texts), np.bincount(codes, minlength=len(labels)).astype(np.int64))
