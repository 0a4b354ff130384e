"""Who takes part in a trial, and what they hold: read from a column in one pass, or drawn from bundled real data.

Each row is a device of its own, so a histogram is all that a trial of values needs.
"""

from __future__ import annotations

import csv
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from overstory.files.columns import ANY_FORM, NO_NUMBERS, Form, blocks, is_number
from overstory.files.io import Advance
from overstory.files.rappor import read_candidates
from overstory.files.recognition import Recognized, folded, number_form, read_as_numbers, recognize, recognize_all
from overstory.protocol.domains.numbers import Bins
from overstory.protocol.errors import ParameterError

MOST_VALUES: Final = 10_000
NOT_LISTED: Final = "(not listed)"
ANOTHER: Final = "(another value)"
READ_OFF: Final = (
    "the list of values was read off your file; a real collection must know it beforehand, or discover it "
    "(`overstory discover`)"
)
OF_COLUMN: Final = (
    "the list of values was read off the column; a real collection must know it beforehand{}, or discover it"
)
ONE_SPELLING: Final = "str.strip() and str.casefold() make them one"

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


class TooManyValuesError(ParameterError):
    """A column of more distinct values than are counted, and what those seen so far are."""

    def __init__(self, path: str, column: str, seen: Recognized) -> None:
        self.seen = seen
        super().__init__(
            f"{path}: the column {column!r} has more than {MOST_VALUES:,} distinct values. For numbers give --bins MIN "
            "MAX COUNT; for text give --candidates FILE with those that you would look for (all others then count as "
            "one), or look for them by hashing: `overstory encode` with a column of values, `map` and `decode` with "
            "the candidates, or `overstory discover` without any"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class People(ABC):
    """Who takes part, and what each row holds: the truth that no collector would see."""

    missing: int = 0  # rows without a value; they send nothing
    notes: tuple[str, ...] = ()  # what a reader must know of how they were read
    in_order: bool = False  # whether what they hold has an order of its own, as dates do

    @abstractmethod
    def __len__(self) -> int:
        """Return how many rows send something."""

    def noted(self, *notes: str) -> Self:
        return replace(self, notes=(*self.notes, *notes))

    def absent_noted(self, what: str = "no value") -> Self:
        """Note the rows that sent nothing."""
        if not self.missing:
            return self
        rows = f"{self.missing:,} of {self.missing + len(self):,} rows hold {what}"
        return self.noted(f"{rows} and sent nothing: that they hold none was not protected")


@dataclass(frozen=True, eq=False)
class Population(People):
    """People that hold a value each."""

    labels: tuple[Any, ...]  # the values there can be: the domain
    counts: I64  # how many rows hold each, shape (d,)
    _: KW_ONLY
    is_drawn: bool = False  # whether people were drawn from the rows; else each row is one
    edges: tuple[float, ...] = ()  # the bins' edges, where the labels are bins of numbers
    decimal: str | None = None  # the mark before the fraction of a column of numbers, where it is not as usual

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def shares(self) -> NDArray[np.float64]:
        return np.asarray(self.counts / max(len(self), 1))


def count_values(path: str, column: str, *, candidates: Sequence[str] | None = None, **how: Any) -> Population:
    """Count the rows of every distinct value, as text; the values not among `candidates` as one, ``(not listed)``."""
    listed = None if candidates is None else dict.fromkeys([*candidates, NOT_LISTED], 0)
    rows_of, missing = dict(listed or {}), 0
    form = how.get("form", ANY_FORM)
    names = {folded(text) if form.tidy else text: text for text in listed or ()}
    for (values,) in blocks(path, [column], **how):
        missing += values.missing
        for text, count in values.counted().items():
            name = text if listed is None else names.get(folded(text) if form.tidy else text, NOT_LISTED)
            rows_of[name] = rows_of.get(name, 0) + count
        if listed is None and len(rows_of) > MOST_VALUES:
            seen = recognize(column, rows_of, replace(form, by="day"))  # of times of the day, days are left
            rows_of = seen.added(rows_of) if seen.are_dates else rows_of
            if len(rows_of) > MOST_VALUES:
                raise TooManyValuesError(path, column, seen)
    if not sum(rows_of.values()):
        raise empty(path, column, missing)
    (found,) = [Recognized(tuple(rows_of))] if listed else recognize_all({column: rows_of}, form)
    rows_of = found.added(rows_of)
    # A list of candidates keeps its order; values that were read off are sorted, so the rows' order does not show.
    labels = tuple(rows_of) if candidates is not None else tuple(sorted(rows_of))
    counts = np.array([rows_of[label] for label in labels], dtype=np.int64)
    if len(labels) == 1:
        labels, counts = (*labels, ANOTHER), np.append(counts, 0)
    note = READ_OFF if candidates is None else f"values that are not on your list count as one: {NOT_LISTED}"
    return Population(
        labels,
        counts,
        missing=missing,
        notes=(note, *found.notes),
        decimal=found.decimal,
        in_order=found.are_dates,
    )


def count_texts(path: str, column: str, **how: Any) -> tuple[Counter[str], int]:
    """Return the rows of each text of a column, and of those without one; ParameterError where no row has any."""
    counts: Counter[str] = Counter()
    missing = 0
    for (texts,) in blocks(path, [column], **how):
        missing += texts.missing
        counts.update(texts.counted())
    if not counts:
        raise empty(path, column, missing)
    return counts, missing


def empty(path: str, column: str, missing: int) -> ParameterError:
    """Return the error for a column without values."""
    what = f"{missing:,} rows, all without a value" if missing else "no rows"
    return ParameterError(f"{path}: the column {column!r} holds nothing to collect: {what}")


SAMPLE: Final = 100_000  # numbers that bins are chosen by
USUAL_BINS: Final = 20
LEAST_WIDTH: Final = 1e-300  # of a bin that is chosen: the powers of ten below have few digits left, or none
TAILS: Final = (0.01, 0.99)  # between these quantiles of the column the bins are chosen


def count_bins(path: str, column: str, bins: Bins, *, chosen: bool = False, **how: Any) -> Population:
    """Count the rows in every bin; numbers outside go to the nearest bin, what is no finite number is missing."""
    counts, missing, outside = np.zeros(bins.count, np.int64), 0, 0
    for numbers, absent in _finite(path, column, how):
        missing += absent
        outside += int(np.count_nonzero((numbers < bins.minimum) | (numbers > bins.maximum)))
        counts += np.bincount(symbols(bins, numbers), minlength=bins.count)
    if not counts.sum():
        raise empty(path, column, missing)
    notes = []
    if chosen:
        notes.append(
            f"the bins were chosen by your file's own numbers ({TAILS[0]:.0%} to {TAILS[1]:.0%} quantile); a real "
            "collection must fix them beforehand: --bins MIN MAX COUNT"
        )
    if outside:
        notes.append(f"{outside:,} numbers lie outside the bins and count in the nearest")
    return Population(bins.labels, counts, missing=missing, edges=bins.edges, in_order=True, notes=tuple(notes))


def _finite(path: str, column: str, how: Mapping[str, Any]) -> Iterator[tuple[F64, int]]:
    """Yield each block's numbers, and how many of its rows have none that is finite."""
    for (values,) in blocks(path, [column], numbers=True, **how):
        numbers = values[np.isfinite(values)]
        yield numbers, len(values) - len(numbers)


def symbols(bins: Bins, numbers: F64) -> I64:
    """Return each number's bin, by the domain's own edges.

    >>> symbols(Bins(0, 1, 10), np.array([-1.0, 0.0, 0.29999, 0.3, 1.0, 7.0])).tolist()
    [0, 0, 2, 3, 9, 9]
    """
    return np.searchsorted(np.array(bins.edges[1:-1]), numbers, side="right").astype(np.int64)


def chosen_bins(path: str, column: str, rng: np.random.Generator, **how: Any) -> Bins:
    """Choose about twenty round bins by a uniform sample, which is the same however the file is cut."""
    sample, keys, missing = np.empty(0), np.empty(0), 0
    for numbers, absent in _finite(path, column, how):
        missing += absent
        sample, keys = np.append(sample, numbers), np.append(keys, rng.random(len(numbers)))
        if len(sample) > SAMPLE:
            first = np.argpartition(keys, SAMPLE)[:SAMPLE]
            sample, keys = sample[first], keys[first]
    if not sample.size:
        raise empty(path, column, missing)
    low, high = np.quantile(sample, TAILS).tolist()
    return round_bins(low, high, USUAL_BINS)


def round_bins(low: float, high: float, count: int) -> Bins:
    """Return bins of a round width (1, 2 or 5 times a power of ten) that cover ``low .. high``."""
    if high <= low:
        return Bins(low - 0.5, low + 1.5, 2)
    least = (high - low) / count
    if not LEAST_WIDTH < least < math.inf:
        raise ParameterError(
            f"numbers from {low:g} to {high:g} lie too far apart, or too close together, to choose bins: fix them "
            "(--bins MIN MAX COUNT; in Python minimum= and maximum=)"
        )
    power = math.floor(math.log10(least))
    step = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**power >= least * (1 - 1e-9))
    first, last = math.floor(low / (step * 10.0**power)), math.ceil(high / (step * 10.0**power))
    # The nearest floats, so that limits are what they are written as.
    return Bins(float(f"{first * step}e{power}"), float(f"{last * step}e{power}"), max(last - first, 2))


MANY_NUMBERS: Final = 50  # more distinct values than that, all of them numbers, are taken as numbers: bins

MOST_PEOPLE: Final = 10**10  # nobody needs more people than there are


def read_population(
    path: str,
    column: str,
    *,
    bins: tuple[float, float, int] | None = None,  # minimum, maximum, count, for a column of numbers
    candidates: str | None = None,  # a file of the values to look for, one a line
    people: int | None = None,  # devices, drawn from the rows with replacement; unless given, each row is one
    form: Form = ANY_FORM,
    seed: int = 0,
    advance: Advance | None = None,
) -> Population:
    """Read who takes part, and what they hold; a seed decides what is sampled or drawn."""
    if bins is not None and candidates is not None:
        raise ParameterError("give one of --bins and --candidates")
    if people is not None and not 1 <= people <= MOST_PEOPLE:
        raise ParameterError(f"--people {people}: give a whole number from 1 to {MOST_PEOPLE:,}")
    rng = np.random.default_rng([seed, 0])
    if bins is not None:
        numeric, notes = number_form(path, column, form)
        population = count_bins(path, column, Bins(*bins), form=numeric, advance=advance).noted(*notes)
    elif candidates is not None:
        population = count_values(path, column, candidates=read_candidates(candidates), form=form, advance=advance)
    else:
        population = _as_it_is(path, column, form, rng, advance)
    if people is None:
        return population
    note = f"{people:,} people were drawn from your {len(population):,} rows, with replacement"
    return replace(population, counts=rng.multinomial(people, population.shares), is_drawn=True).noted(note)


def _as_it_is(path: str, column: str, form: Form, rng: np.random.Generator, advance: Advance | None) -> Population:
    """Count a column's own values, many different numbers in bins."""
    try:
        population = count_values(path, column, form=form, advance=advance)
    except TooManyValuesError as error:
        if not _numeric(error.seen.labels):
            raise
        decimal = error.seen.decimal
    else:
        decimal = population.decimal
        if not _numeric(population.labels):
            return _suspected(population)
        if len(_numeric(population.labels)) <= MANY_NUMBERS:
            return _without_marks(population)
    form = replace(form, decimal=decimal)
    bins = chosen_bins(path, column, rng, form=form)
    return count_bins(path, column, bins, chosen=True, form=form).noted(*read_as_numbers(column, decimal))


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
    # Answers with several choices are joined by semicolons in surveys.
    parts = {label: [part.strip() for part in label.split(";")] for label in population.labels if ";" in label}
    several = [label for label, choices in parts.items() if any(part in population.labels for part in choices)]
    notes = [f"{mark!r} was counted as a value: if it means no value, give --csv 'missing={mark}'" for mark in marks]
    if several:
        answers = f"{several[0]!r} and similar answers"
        notes.append(
            f"{answers} join several choices: each was counted as a value of its own; --separator ';' counts choices"
        )
    return population.noted(*notes)


def all_numbers(values: Sequence[str]) -> bool:
    """Whether every one of the texts is a number, and none a postcode, as 00501 is."""
    return all(is_number(text) and not (text[:1] == "0" and text[1:2].isdecimal()) for text in values)


# Confirmed COVID-19 cases by US state or territory on 18 April 2021: figures of the COVID-19 Data Repository by the
# Center for Systems Science and Engineering (CSSE) at Johns Hopkins University, daily report of 18 April 2021, licensed
# CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). They are the figures of "Frequency feature extraction based
# on localized differential privacy", Computer Science 49(7), 2022.
ATTRIBUTION: Final = "Johns Hopkins CSSE daily report, 18 April 2021, CC BY 4.0"

FIGURES: Final = (Path(__file__).parent / "confirmed.csv").read_text("utf-8")
CONFIRMED: Final = {row["state"]: int(row["cases"]) for row in csv.DictReader(FIGURES.splitlines())}


def draw_population(most: int, num_reports: int, rng: np.random.Generator) -> Population:
    """Draw respondents with replacement from the true distribution over the states with the most cases."""
    if not 2 <= most <= len(CONFIRMED):
        raise ParameterError(f"--states {most}: give a number from 2 to {len(CONFIRMED)}")
    if num_reports < 1:
        raise ParameterError(f"--reports {num_reports}: give at least 1")
    states = sorted(CONFIRMED, key=lambda state: -CONFIRMED[state])[:most]
    cases = np.array([CONFIRMED[state] for state in states], dtype=np.float64)
    note = f"respondents are drawn from the {most} states and territories with the most cases ({ATTRIBUTION})"
    return Population(tuple(states), rng.multinomial(num_reports, cases / cases.sum()), is_drawn=True, notes=(note,))
