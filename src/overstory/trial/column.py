"""What to make of a column: its values, or numbers in equal bins, given or chosen; counted in a stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess.steps import Processed
from overstory.analysis.support.registry import Rng
from overstory.analysis.tables.columns import Label, coded, labels_from, read_column, read_numbers
from overstory.analysis.tables.output import label_text
from overstory.files.columns import ANY_FORM, BLOCK, NO_NUMBERS, Form, blocks
from overstory.files.io import Advance
from overstory.files.rappor import read_candidates
from overstory.privacy.text import epsilon_text
from overstory.protocol.domains import Bins
from overstory.protocol.errors import ParameterError
from overstory.trial.population import (
    ANOTHER,
    I64,
    MOST_VALUES,
    Population,
    TooManyValuesError,
    count_devices,
    count_values,
    empty,
)
from overstory.trial.run import TrialBudget, collect, seed_of

SAMPLE: Final = 100_000
"""Numbers that bins are chosen by."""
USUAL_BINS: Final = 20
LEAST_WIDTH: Final = 1e-300
"""Of a bin that is chosen: the powers of ten below have few digits left, or none."""
TAILS: Final = (0.01, 0.99)
"""Between these quantiles of the column the bins are chosen."""

F64 = NDArray[np.float64]


def count_bins(
    path: str,
    column: str,
    bins: Bins,
    *,
    chosen: bool = False,
    form: Form = ANY_FORM,
    advance: Advance | None = None,
    block: int = BLOCK,
) -> Population:
    """Count the rows in every bin; numbers outside go to the nearest bin, what is no finite number is missing."""
    counts, missing, outside = np.zeros(bins.count, np.int64), 0, 0
    for (values,) in blocks(path, [column], numbers=True, form=form, advance=advance, block=block):
        numbers = values[np.isfinite(values)]
        missing += len(values) - len(numbers)
        outside += int(np.count_nonzero((numbers < bins.minimum) | (numbers > bins.maximum)))
        counts += np.bincount(symbols(bins, numbers), minlength=bins.count)
    if not counts.sum():
        raise empty(path, column, missing)
    return Population(bins.labels, counts, missing, edges=bins.edges, notes=tuple(_notes(chosen, outside)))


def symbols(bins: Bins, numbers: F64) -> I64:
    """Return each number's bin, by the domain's own edges.

    >>> symbols(Bins(0, 1, 10), np.array([-1.0, 0.0, 0.29999, 0.3, 1.0, 7.0])).tolist()
    [0, 0, 2, 3, 9, 9]
    """
    return np.searchsorted(np.array(bins.edges[1:-1]), numbers, side="right").astype(np.int64)


def _notes(chosen: bool, outside: int) -> list[str]:  # noqa: FBT001 - one of two sources
    notes = []
    if chosen:
        notes.append(
            f"the bins were chosen by your file's own numbers ({TAILS[0]:.0%} to {TAILS[1]:.0%} quantile); a real "
            "collection must fix them beforehand: --bins MIN MAX COUNT"
        )
    if outside:
        notes.append(f"{outside:,} numbers lie outside the bins and count in the nearest")
    return notes


def chosen_bins(
    path: str,
    column: str,
    rng: np.random.Generator,
    *,
    form: Form = ANY_FORM,
    block: int = BLOCK,
) -> Bins:
    """Choose about twenty round bins between the column's extreme quantiles, by a uniform sample."""
    read = blocks(path, [column], numbers=True, form=form, block=block)
    sample, missing = _sampled(read, rng)
    if not sample.size:
        raise empty(path, column, missing)
    low, high = np.quantile(sample, TAILS).tolist()
    return round_bins(low, high, USUAL_BINS)


def _sampled(read: Iterable[tuple[Any, ...]], rng: np.random.Generator) -> tuple[F64, int]:
    """Return the numbers with the smallest random keys: a uniform sample, the same however the file is cut."""
    sample, keys, missing = np.empty(0), np.empty(0), 0
    for (values,) in read:
        numbers = values[np.isfinite(values)]
        missing += len(values) - len(numbers)
        sample, keys = np.append(sample, numbers), np.append(keys, rng.random(len(numbers)))
        if len(sample) > SAMPLE:
            first = np.argpartition(keys, SAMPLE)[:SAMPLE]
            sample, keys = sample[first], keys[first]
    return sample, missing


def round_bins(low: float, high: float, count: int) -> Bins:
    """Return bins of a round width (1, 2 or 5 times a power of ten) that cover ``low .. high``.

    >>> bins = round_bins(0.13, 9.7, 20)
    >>> bins.minimum, bins.maximum, bins.count
    (0.0, 10.0, 20)
    >>> round_bins(7.0, 7.0, 20).labels
    ('[6.5, 7.5)', '[7.5, 8.5]')
    """
    if high <= low:
        return Bins(low - 0.5, low + 1.5, 2)
    least = (high - low) / count
    if not LEAST_WIDTH < least < math.inf:
        raise ParameterError(
            f"numbers from {low:g} to {high:g} lie too far apart, or too close together, to choose bins: give --bins "
            "MIN MAX COUNT"
        )
    power = math.floor(math.log10(least))
    step = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**power >= least * (1 - 1e-9))
    first, last = math.floor(low / (step * 10.0**power)), math.ceil(high / (step * 10.0**power))
    return Bins(_scaled(first * step, power), _scaled(last * step, power), max(last - first, 2))


def _scaled(number: int, power: int) -> float:
    """Return number * 10**power as the nearest float, so that limits are what they are written as."""
    return float(f"{number}e{power}")


def quantile(edges: tuple[float, ...], counts: NDArray[np.float64], share: float) -> float:
    """Return where that share of the counts lies below, numbers being spread evenly over their bin."""
    below = np.append(0.0, np.cumsum(counts))
    return float(np.interp(share * below[-1], below, edges))


MANY_NUMBERS: Final = 50
"""More distinct values than that, all of them numbers, are taken as numbers: bins."""

MOST_PEOPLE: Final = 10**10
"""Nobody needs more people than there are."""


@dataclass(frozen=True)
class Column:
    """Which column of which file, and how it is to be read."""

    path: str
    name: str
    bins: tuple[float, float, int] | None = None  # minimum, maximum, count, for a column of numbers
    candidates: str | None = None  # a file of the values to look for, one a line
    device: str | None = None  # the column that says whose row it is
    most: int = MOST_VALUES  # most distinct values
    people: int | None = None  # devices, drawn from the rows with replacement; unless given, each row is one
    form: Form = ANY_FORM  # how a CSV file is written, as far as the user says

    def __post_init__(self) -> None:
        if sum(option is not None for option in (self.bins, self.candidates, self.device)) > 1:
            raise ParameterError("give one of --bins, --candidates and --device-column")
        if self.most < 2:
            raise ParameterError(f"--most-values {self.most}: give a whole number from 2")
        if self.people is not None and self.device is not None:
            raise ParameterError("--people draws rows one by one: give it or --device-column, not both")
        if self.people is not None and not 1 <= self.people <= MOST_PEOPLE:
            raise ParameterError(f"--people {self.people}: give a whole number from 1 to {MOST_PEOPLE:,}")


def read_population(column: Column, rng: np.random.Generator, advance: Advance | None = None) -> Population:
    """Read who takes part, and what they hold.

    Numbers without bins get them chosen when they have more distinct values than `MANY_NUMBERS`.
    """
    population = _counted(column, rng, advance)
    if column.people is None:
        return population
    drawn = rng.multinomial(column.people, population.shares)
    note = f"{column.people:,} people were drawn from your {len(population):,} rows, with replacement"
    return replace(population, counts=drawn, notes=(*population.notes, note))


def _counted(column: Column, rng: np.random.Generator, advance: Advance | None) -> Population:
    path, name, form = column.path, column.name, column.form
    if column.device is not None:
        return count_devices(path, name, column.device, most=column.most, form=form, advance=advance)
    if column.bins is not None:
        low, high, count = column.bins
        return count_bins(path, name, Bins(low, high, count), form=form, advance=advance)
    if column.candidates is not None:
        listed = read_candidates(column.candidates)
        return count_values(path, name, candidates=listed, form=form, advance=advance)
    try:
        population = count_values(path, name, most=column.most, form=form, advance=advance)
    except TooManyValuesError as error:
        if not _numeric(error.seen):
            raise
    else:
        if not _numeric(population.labels):
            return _suspected(population)
        if len(_numeric(population.labels)) <= MANY_NUMBERS:
            return _without_marks(population)
    return count_bins(path, name, chosen_bins(path, name, rng, form=form), chosen=True, form=form)


def _numeric(labels: Sequence[str]) -> list[str]:
    """Return the numbers of a column of numbers, without its marks for no value; nothing for other columns."""
    numbers = [label for label in labels if label not in NO_NUMBERS and label != ANOTHER]
    return numbers if numbers and all_numbers(numbers) else []


def _without_marks(population: Population) -> Population:
    """Take `?`, `NA`, NaN and infinities out of a column of a few different numbers: they are missing."""
    numbers = {label for label in _numeric(population.labels) if math.isfinite(float(label))}
    finite = [i for i, label in enumerate(population.labels) if label in numbers]
    marks = [i for i, label in enumerate(population.labels) if label not in numbers and label != ANOTHER]
    if not marks or not finite:
        return population
    labels, counts = tuple(population.labels[i] for i in finite), population.counts[finite]
    if len(finite) == 1:
        labels, counts = (*labels, ANOTHER), np.append(counts, 0)
    return replace(
        population, labels=labels, counts=counts, missing=population.missing + int(population.counts[marks].sum())
    )


def _suspected(population: Population) -> Population:
    """Note which of the values look as if they stood for none, or for several."""
    marks = [label for label in population.labels if label in NO_NUMBERS]
    several = [label for label in population.labels if _is_several(label, population.labels)]
    notes = [f"{mark!r} was counted as a value: if it means no value, give --missing '{mark}'" for mark in marks]
    if several:
        answers = f"{several[0]!r} and similar answers"
        notes.append(
            f"{answers} join several choices: each was counted as a value of its own; --separator ';' counts choices"
        )
    return replace(population, notes=(*population.notes, *notes))


def _is_several(label: str, labels: Sequence[str]) -> bool:
    """Whether a label joins others by semicolons, as answers with several choices do in surveys."""
    parts = [part.strip() for part in label.split(";")]
    return len(parts) > 1 and any(part in labels for part in parts)


def all_numbers(values: Sequence[str]) -> bool:
    """Whether every one of the texts is a number."""
    return all(_number(value) for value in values)


def _number(text: str) -> bool:
    if text[:1] == "0" and text[1:2].isdecimal():  # 00501 is a postcode
        return False
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


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
    missing: Missing = "value",
    oracle: str = "auto",
    rng: Rng = None,
) -> Survey:
    """Simulate a survey under local differential privacy: each row randomizes its value, and only that is counted.

    Parameters
    ----------
    column
        A Series of pandas or Polars, an Arrow array, a NumPy array, or a list: of text, categories, booleans or whole
        numbers; of any numbers with `bins`.
    epsilon
        What a row's report may reveal, in nats; smaller is more private.
    labels
        The values that there can be, fixed beforehand as in a real collection. Unless given, the column's categories,
        or the values that occur, are the list, and a note says so.
    bins
        Minimum, maximum and number of equal bins, for numbers; what lies outside counts in the nearest.
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
    listed, codes, notes = _binned(column, bins) if bins is not None else _named(column, labels, missing)
    listed, codes, absent = _with_missing(listed, codes, missing)
    if len(listed) == 1:
        listed = (*listed, ANOTHER)
    population = _people(listed, codes)
    result = collect(population, TrialBudget(epsilon), oracle, seed_of(rng))
    if not result.shown.detected().any():
        absent.append(
            f"no value was detected: {len(codes):,} reports at this epsilon are few for {len(listed):,} values"
        )
    shown = {field.name: getattr(result.shown, field.name) for field in fields(Processed)}
    shown |= {"values": listed, "notes": (*result.shown.notes, *notes, *absent)}
    return Survey(**shown, oracle=FrequencyOracle(result.mechanism, listed))


def _named(column: Any, labels: Any, missing: Missing) -> tuple[tuple[Label, ...], I64, list[str]]:
    """Return the labels, each row's label (-1: missing), and what a reader must know of both."""
    if labels is not None:
        listed = labels_from(labels)
        place = None if None not in listed else listed.index(None)
        codes = coded(column, listed, missing=-1 if missing == "drop" else place)
        return listed, np.where(codes == place, -1, codes) if place is not None else codes, []
    read = read_column(column)
    values = read.labels[:-1] if None in read.labels else read.labels
    codes = np.where(read.codes == len(values), -1, read.codes) if None in read.labels else read.codes
    if len(values) > MOST_VALUES:
        raise ParameterError(
            f"the column has {len(values):,} distinct values, more than {MOST_VALUES:,}: give labels=[...] for those "
            "to ask about, bins=(minimum, maximum, count) for numbers, or find frequent ones by `overstory discover`"
        )
    notes = [] if all(isinstance(value, bool) for value in values) and values else [READ_OFF]
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


def _people(labels: tuple[Label, ...], codes: I64) -> Population:
    if not codes.size:
        raise ParameterError("the column holds nothing to survey: no row has a value")
    texts = [label_text(label) for label in labels if label is not None]
    absent = label_text(None)
    while absent in texts:  # a text that reads like it is another value
        absent = f"({absent})"
    named = iter(texts)
    texts = [absent if label is None else next(named) for label in labels]
    return Population(tuple(texts), np.bincount(codes, minlength=len(labels)).astype(np.int64))
