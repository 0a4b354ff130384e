"""A trial of values that are counted one by one: of a file's column or, as a survey, of one in Python."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, Literal, TextIO, get_args

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.comparison import Choice, recommend
from overstory.analysis.estimate import Estimate, converted
from overstory.analysis.kinds.base import Rng
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import Processed, postprocess
from overstory.analysis.tables.columns import PERIODS, Label, coded, labels_from, read_column, read_numbers
from overstory.analysis.tables.output import (
    estimate_picture,
    label_text,
    not_detected,
    share_interval,
    unlike,
    write_csv,
)
from overstory.files.recognition import look_alikes
from overstory.planning.detection import required_sample_size, smallest_share
from overstory.presentation.document import Block, Heading, Lines, Paragraph, Table
from overstory.presentation.document import Column as TableColumn
from overstory.presentation.formats import epsilon_text, finite, if_detected, p_value, percent, thousands
from overstory.presentation.svg import Picture
from overstory.protocol.domains.numbers import Bins
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.registry import mechanism
from overstory.trial.population import (
    ANOTHER,
    I64,
    MANY_NUMBERS,
    MOST_VALUES,
    OF_COLUMN,
    ONE_SPELLING,
    Population,
    round_bins,
    symbols,
)
from overstory.trial.run import (
    CHUNK,
    Advance,
    Transport,
    Trial,
    TrialBudget,
    count_here,
    seed_of,
    send,
)

SHARES: Final = (0.1, 0.01, 0.001)
ALPHA: Final = 0.05


@dataclass(frozen=True)
class AtOracle:
    """What one oracle would show."""

    oracle: str
    # How many people each of `SHARES` needs, to be detected nine times in ten with a chance of `ALPHA` of any false
    # detection.
    people_needed: dict[str, int]
    # The shares that these people show so often, by the rule that `detected` used; None: not even the largest.
    detected_half_the_time: float | None
    detected_nine_times_in_ten: float | None


@dataclass(frozen=True)
class Advice:
    """What would be learned of such a column."""

    ranking: tuple[Choice, ...]  # the oracles that keep the budget, the most accurate first
    best: Choice  # the one to choose
    at_used: AtOracle
    at_best: AtOracle

    def to_json(self) -> dict[str, Any]:
        return {
            "recommended": self.best.name,
            "alpha": ALPHA,
            "used": asdict(self.at_used),
            "best": asdict(self.at_best),
            "oracles": [choice.to_json() for choice in self.ranking],
        }

    def table(self) -> Table:
        """Return what these people show, by the rule that was used; then how many people shares need."""
        used, best = self.at_used, self.at_best
        columns = [used] if used.oracle == best.oracle else [used, best]
        rows: list[tuple[str, ...]] = [
            ("detected about half the time from", *(_share(column.detected_half_the_time) for column in columns)),
            ("detected nine times in ten from", *(_share(column.detected_nine_times_in_ten) for column in columns)),
        ]
        rows += [
            (
                f"people to detect a share of {share:.1%}",
                *(f"{column.people_needed[f'{share:g}']:,}" for column in columns),
            )
            for share in SHARES
        ]
        names = ("", used.oracle, f"{best.oracle} (best)")[: 1 + len(columns)]
        return Table.of_cells("", names, rows, left=("",))

    def thresholds(self) -> str:
        """Say which shares these people show, by the rule that was used."""
        half, nine_in_ten = self.at_used.detected_half_the_time, self.at_used.detected_nine_times_in_ten
        if half is None:
            return "no share is detected even half the time with so few people at this epsilon"
        often = "none nine times in ten" if nine_in_ten is None else f"nine times in ten from {nine_in_ten:.2%}"
        return f"a value is detected about half the time from a share of {half:.2%}, {often}"

    def words(self, population: Population) -> str:
        """Say which oracle is best, and why."""
        best, most_accurate = self.best, self.ranking[0]
        over = best.standard_error / most_accurate.standard_error - 1
        why = "the most accurate" if best == most_accurate else f"within {over:.1%} of the most accurate"
        also = f" ({most_accurate.name}, {most_accurate.report_bits:,} bits)" if best != most_accurate else ""
        return (
            f"For {len(population.labels):,} values at this epsilon the best oracle is {best.name}: {why}"
            f"{also}, with reports of {best.report_bits:,} bits. What your {len(population):,} devices "
            f"show is by the rule used above; the people asked for show a share nine times in ten, with a chance of "
            f"{ALPHA:.0%} of any false detection."
        )


NOTHING_HIDDEN: Final = "a report hides next to nothing: it practically names the value; 1 or 2 is usual"
WEAK: Final = 10.0  # above this epsilon a note warns: the best guess between two values is wrong once in 22,000 times
SHOWN: Final = 30  # rows that the terminal shows
MOST_ROWS: Final = 1_000  # rows that a page shows
MOST_BARS: Final = 40  # rows of the picture
BAR: Final = 10  # characters of the longest bar
HERE: Final = (
    "Nothing of your file left this machine: the devices, the collector and this page are all simulated here. What is "
    "written next to the learned numbers is the truth, so share it as you would share the file."
)


@dataclass(frozen=True)
class Subject:
    """What a trial is of."""

    title: str = "the column"  # of the page
    value: str = "value"  # what one value is called
    who: str = ""  # who took part; empty: as many devices as there are rows
    lead: str = ""  # what a reader must know first; empty: that nothing left the machine
    sent: str = ""  # how reports travelled, where they left the process
    facts: Mapping[str, Any] = field(default_factory=dict)  # of its own, as JSON values
    privacy: str = ""  # what it costs a device; empty: what the reports of its mechanism do


class CountTrial(Trial):
    """A collection of what is counted by value, next to the truth."""

    people: Any  # they have labels
    oracle: FrequencyOracle  # what they randomized with
    estimate: Estimate  # unbiased, in rows: its counts compare with `truth`

    @property
    @abstractmethod
    def thing(self) -> str:
        """What one value is called."""

    @property
    @abstractmethod
    def truth(self) -> NDArray[Any]:
        """How many rows hold each value."""

    @property
    def shown(self) -> Estimate:
        """The estimate as table, picture and files show it."""
        return self.estimate

    @property
    def kind(self) -> Mechanism:
        return self.oracle.mechanism

    @property
    def inside(self) -> int:
        """How many of the 95% intervals, as they are shown, hold the true count."""
        low, high = self.shown.interval(0.95)
        return int(np.count_nonzero((low <= self.truth) & (self.truth <= high)))

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per value, the truth and what was learned; values without an order by the truth."""
        at = {label: i for i, label in enumerate(self.people.labels)}
        rows = sorted(self.shown.rows(), key=lambda row: at[row["value"]])
        full = [
            {"value": row["value"], "truth": count, "true_frequency": count / len(self.people), **row}
            for row, count in zip(rows, self.truth.tolist(), strict=True)
        ]
        return full if self.people.in_order else sorted(full, key=lambda row: -row["truth"])

    def write_csv(self, text: TextIO) -> None:
        """Write every value with its true count."""
        write_csv(self.shown, text, {"truth": self.truth.round().astype(int).tolist()})

    def tables(self, *, everything: bool) -> Iterator[Block]:
        rows = self.rows()
        most = max((row["frequency"] for row in rows), default=0.0) or 1.0
        shown = rows[: MOST_ROWS if everything else len(rows) if self.people.in_order else SHOWN]
        share = TableColumn("share", text=if_detected(percent), keys=("frequency", "detected"))
        first = TableColumn("value", self.thing, is_left=True)
        columns = (first, share, share_interval(), TableColumn("true_frequency", "truth", percent))
        bar = TableColumn(
            "bar", "", lambda share, found: "█" * round(BAR * share / most) if found else "", share.keys, is_left=True
        )
        yield Table("", (*columns, *(EVERY if everything else (bar,))), shown, not_detected(shown))
        if len(rows) > len(shown):
            yield Paragraph(f"... and {len(rows) - len(shown):,} more")

    def plot(self) -> Picture:
        """Return truth and estimates with their 95% intervals, a row per value."""
        rows = self.rows()
        shown = rows if self.people.in_order else rows[:MOST_BARS]
        left = len(rows) - len(shown)
        more = f" The {MOST_BARS} most frequent; {left:,} more are in the table." if left else ""
        caption = f"What was true (upright strokes), and what was learned, with 95% intervals of these reports.{more}"
        truth = np.array([row["true_frequency"] for row in shown])
        return estimate_picture("shares", caption, shown, truth=truth, of="share of the rows with a value")


@dataclass(frozen=True, eq=False, repr=False)
class ValueTrial(CountTrial):
    """What a collection of values learned, over any transport, next to the truth; the estimate is unbiased."""

    people: Population
    oracle: FrequencyOracle
    estimate: Estimate
    seed: int  # what all randomness followed from
    subject: Subject = Subject()
    advice: Advice | None = None  # what else would be learned of such a column

    @cached_property
    def shown(self) -> Processed:
        """The estimate as table, picture and files show it: counts and intervals that are possible."""
        return postprocess(self.estimate, "clip")

    @property
    def thing(self) -> str:
        return self.subject.value

    @property
    def truth(self) -> I64:
        return self.people.counts

    @property
    def rmse(self) -> float:
        """Root mean square error of the unbiased shares."""
        return float(np.sqrt(np.mean((self.estimate.raw_frequencies - self.people.shares) ** 2)))

    def warnings(self) -> Iterator[str]:
        if (epsilon := self.kind.epsilon_report) > WEAK:
            yield f"at epsilon {epsilon_text(epsilon)} {NOTHING_HIDDEN}"

    def _headline(self) -> str:
        learned = f"{np.count_nonzero(self.shown.detected()):,} of {len(self.people.labels):,} {self.subject.value}s"
        return f"{self.subject.title}: {learned} learned from {len(self.people):,} devices"

    @property
    def lead(self) -> str:
        return self.subject.lead or HERE

    @property
    def who(self) -> str:
        people = self.people
        if self.subject.who:
            return self.subject.who
        which = "drawn from the rows" if people.is_drawn else "one for each row"
        missing = (
            "" if people.is_drawn or not people.missing else f"; {people.missing:,} rows without a value sent nothing"
        )
        return f"{len(people):,} simulated devices, {which}, one report of each{missing}"

    def prospects(self) -> Iterator[Block]:
        if self.advice is not None:
            yield Heading(3, "What would you learn?")
            yield Paragraph(self.advice.words(self.people))
            yield self.advice.table()

    def blocks(self, **_: Any) -> Iterator[Block]:
        yield from super().blocks()
        yield Lines(self.lead)

    @property
    def more_reports(self) -> tuple[str, str]:
        return ("a year", self.subject.privacy) if self.subject.privacy else super().more_reports

    @property
    def privacy(self) -> str:
        return self.subject.privacy or super().privacy

    def facts(self) -> dict[str, Any]:
        return {
            **self.subject.facts,
            "devices": len(self.people),
            "values": len(self.people.labels),
            **{key: self.stated[key] for key in ("epsilon_permanent", "epsilon_n", "epsilon_any")},
            "privacy": self.privacy,
            "seed": self.seed,
            **{key: finite(value) for key, value in self.estimate.summary().items()},
            "steps": self.shown.steps,
            "rmse": self.rmse,
            "inside_95": self.inside,
            "estimates": self.rows(),
            **({} if self.advice is None else {"advice": self.advice.to_json()}),
        }

    def sentences(self) -> list[str]:
        detected, held = int(np.count_nonzero(self.estimate.detected())), np.count_nonzero(self.people.counts)
        learned = f"{detected:,} of {held:,} {self.subject.value}s that somebody has, at a false discovery rate of"
        error = f"shares are off by {_points(self.rmse)} percentage points, root mean square"
        intervals = f"{self.inside:,} of {len(self.people.labels):,} intervals of these reports hold the truth"
        return [
            *([f"Sent: {self.subject.sent}."] if self.subject.sent else []),
            f"Learned: {learned} {self.estimate.alpha:.0%}; {error}; {intervals}.",
            *([] if self.advice is None else [f"Thresholds: {self.advice.thresholds()}."]),
        ]


EVERY: Final = (
    TableColumn("count", text=if_detected(thousands), keys=("count", "detected")),
    TableColumn("raw_count", "unbiased count", thousands),
    TableColumn("standard_error", "its standard error", thousands),
    TableColumn("truth", "true count", thousands),
    TableColumn("q_value", "q-value", p_value),
)


def _points(error: float) -> str:
    points = 100 * error
    return f"{points:.0f}" if points >= 10 else f"{points:.2g}"


def _share(share: float | None) -> str:
    return "none" if share is None else f"{share:.2%}"


def advise(trial: ValueTrial, budget: TrialBudget) -> Advice:
    """Return the advice for a column that was collected within a budget."""
    ranking = budget.ranking(len(trial.people.labels), len(trial.people))
    best = recommend(ranking)
    return Advice(ranking, best, _at(trial.kind, trial), _at(mechanism(best.name, **best.parameters), trial))


def _at(built: Mechanism, trial: ValueTrial) -> AtOracle:
    values, estimate = len(trial.people.labels), trial.estimate
    # Benjamini and Hochberg let through p-values up to alpha R / M when R of M passed; of none, the first: alpha / M.
    passed = max(int(np.count_nonzero(estimate.detected())), 1)
    shown = partial(smallest_share, built, len(trial.people), values)
    by_rule = partial(shown, alpha=estimate.alpha, num_tests=values / passed)
    needed = partial(required_sample_size, built, num_candidates=values, alpha=ALPHA)
    return AtOracle(built.name, {f"{share:g}": needed(share) for share in SHARES}, by_rule(reach=0.0), by_rule())


def collect(
    people: Population, budget: TrialBudget, oracle: str, seed: int, advance: Advance = lambda _: None
) -> ValueTrial:
    """Let every device report by the oracle of that name at this budget, ``auto`` is the best; count and decode."""
    return collect_by(budget.mechanism(oracle, len(people.labels), len(people)), people, seed, advance)


def collect_by(
    oracle: Mechanism,
    people: Population,
    seed: int,
    advance: Advance,
    transport: Transport = count_here,
    size: int = CHUNK,  # devices that report at a time
) -> ValueTrial:
    """Let every device report, count what they send, and decode it."""
    pair = FrequencyOracle(oracle)
    values: Sequence[Any] = people.labels if oracle.encoding.decoded else range(oracle.domain_size or 0)
    sent = send(oracle, values, people.counts, np.random.default_rng([seed, 1]), size, advance)
    return ValueTrial(people, pair, pair.estimate(transport(oracle, sent), list(people.labels)), seed)


Missing = Literal["value", "drop"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Survey(Processed):
    """What a survey of a column learns: an estimate whose values are the column's own.

    Attributes
    ----------
    steps : tuple of str
        The post-processing steps that made `counts` of `raw_counts`, in order.
    oracle : FrequencyOracle
        What every row randomized with.
    in_order : bool
        Whether the values keep their own order, as bins, dates and ordered categories do.
    """

    oracle: FrequencyOracle
    in_order: bool = False

    def order(self) -> NDArray[np.intp]:
        """Return the values' indices: bins, dates and ordered categories in their order, others most frequent first."""
        return np.arange(len(self)) if self.in_order else super().order()

    def _headline(self) -> str:
        return f"{super()._headline()}, {self.oracle.name}, epsilon {epsilon_text(self.oracle.epsilon_report)}"

    def summary(self) -> dict[str, Any]:
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
    if bins is not None:
        people = _binned(column, bins)
    else:
        people = _read_off(column, by) if labels is None else _listed(column, labels, missing)
    people = _with_missing(people, missing)
    result = collect(replace(people, labels=_texts(people.labels)), TrialBudget(epsilon), oracle, seed_of(rng))
    said = [*result.shown.notes, *people.notes]
    if not result.shown.detected().any():
        values = len(people.labels)
        said.append(f"no value was detected: {len(people):,} reports at this epsilon are few for {values:,} values")
    oracle_of = FrequencyOracle(result.kind, people.labels)
    about = {"steps": result.shown.steps, "oracle": oracle_of, "in_order": people.in_order}
    return converted(Survey, result.shown, values=people.labels, notes=tuple(said), **about)


def _listed(column: Any, labels: Any, missing: Missing) -> Population:
    """Count the rows of each label that was given."""
    listed = labels_from(labels)
    codes = coded(column, listed, missing=len(listed) if missing == "drop" else None)
    counts = np.bincount(codes, minlength=len(listed) + 1).astype(np.int64)
    place = listed.index(None) if None in listed else -1
    absent, counts[place] = int(counts[place]), 0
    return Population(listed, counts[:-1], missing=absent)


def _read_off(column: Any, by: str | None) -> Population:
    """Count the rows of each value that occurs."""
    read = read_column(column, by)
    values = read.labels[:-1] if None in read.labels else read.labels
    if len(values) > MOST_VALUES:
        raise ParameterError(
            f"the column has {len(values):,} distinct values, more than {MOST_VALUES:,}: give labels=[...] for those "
            "to ask about, bins=(minimum, maximum, count) for numbers, or find frequent ones by `overstory discover`"
        )
    notes = [] if all(isinstance(value, bool) for value in values) and values else [OF_COLUMN.format(" (labels=...)")]
    texts = {
        value: count for value, count in zip(read.labels, read.counts.tolist(), strict=True) if isinstance(value, str)
    }
    notes += look_alikes("the column", texts, ONE_SPELLING)
    notes += [f"dates were counted by {read.by}; by= gives another of {', '.join(PERIODS)}"] if read.by else []
    numbers = [label for label in values if isinstance(label, int) and not isinstance(label, bool)]
    if len(numbers) > MANY_NUMBERS:
        best = round_bins(float(numbers[0]), float(numbers[-1]), 20)
        notes.append(
            f"{len(numbers):,} different numbers are many to tell apart: "
            f"bins=({best.minimum:g}, {best.maximum:g}, {best.count}) would show more"
        )
    counts = read.counts[: len(values)]
    return Population(values, counts, missing=read.missing, notes=tuple(notes), in_order=read.in_order)


def _binned(column: Any, bins: Bins | tuple[float, float, int]) -> Population:
    if not isinstance(bins, Bins) and (not isinstance(bins, tuple | list) or len(bins) != 3):
        raise ParameterError(f"bins = {bins!r}: give the minimum, the maximum and how many, as in (0, 100, 20)")
    made = bins if isinstance(bins, Bins) else Bins(*bins)
    every = read_numbers(column)
    numbers = every[~np.isnan(every)]
    outside = int(np.count_nonzero((numbers < made.minimum) | (numbers > made.maximum)))
    counts = np.bincount(symbols(made, numbers), minlength=made.count)
    notes = (f"numbers outside the bins, counted in the nearest: {outside:,}",) if outside else ()
    return Population(made.labels, counts, missing=every.size - numbers.size, notes=notes, in_order=True)


def _with_missing(people: Population, missing: Missing) -> Population:
    """Give missing values a label of their own, or leave them out, and say which; at least two values there are."""
    labels, counts, absent = people.labels, people.counts, people.missing
    if missing == "drop":
        people = people.absent_noted()
    elif absent:
        labels = labels if None in labels else (*labels, None)
        counts = np.append(counts, np.zeros(len(labels) - len(counts), np.int64))
        counts[labels.index(None)] = absent
        rows = f"{absent:,} of {len(people) + absent:,} rows hold no value"
        people = people.noted(f"{rows}: they report {label_text(None)}, a value like any other")
    if not counts.any():
        raise ParameterError("the column holds nothing to survey: no row has a value")
    if len(labels) == 1:
        labels, counts = (*labels, ANOTHER), np.append(counts, 0)
    return replace(people, labels=labels, counts=counts)


def _texts(labels: tuple[Label, ...]) -> tuple[str, ...]:
    """Return what each label is called, None as no other."""
    texts = [label_text(label) for label in labels]
    if None in labels:
        place = labels.index(None)
        texts[place] = unlike(texts[place], [*texts[:place], *texts[place + 1 :]])
    return tuple(texts)
