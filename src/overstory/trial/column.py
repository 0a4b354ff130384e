"""What to make of a column: its values, or numbers in equal bins, given or chosen; counted in a stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.files.candidates import read_candidates
from overstory.files.columns.layout import Form
from overstory.files.columns.reader import ANY_FORM, BLOCK, NO_NUMBERS, blocks
from overstory.files.io import Advance
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

    Examples
    --------
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

    Examples
    --------
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
    """Return where that share of the counts lies below, numbers being spread evenly over their bin.

    Examples
    --------
    >>> quantile((0.0, 1.0, 2.0), np.array([10.0, 30.0]), 0.5)
    1.3333333333333333
    """
    below = np.append(0.0, np.cumsum(counts))
    return float(np.interp(share * below[-1], below, edges))


MANY_NUMBERS: Final = 50
"""More distinct values than that, all of them numbers, are taken as numbers: bins."""

MOST_PEOPLE: Final = 10**10
"""Nobody needs more people than there are."""


@dataclass(frozen=True)
class Column:
    """Which column, and how it is to be read.

    Attributes
    ----------
    path, name
        The file and its column.
    people
        How many devices are drawn from the rows, with replacement; unless given, each row is one.
    """

    path: str
    name: str
    bins: tuple[float, float, int] | None = None  # minimum, maximum, count, for a column of numbers
    candidates: str | None = None  # a file of the values to look for, one a line
    device: str | None = None  # the column that says whose row it is
    most: int = MOST_VALUES  # most distinct values
    people: int | None = None
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
    """Whether every one of the texts is a number.

    Examples
    --------
    >>> all_numbers(["1", "-2.5e3"]), all_numbers(["1", "one"]), all_numbers(["00501"])
    (True, False, False)
    """
    return all(_number(value) for value in values)


def _number(text: str) -> bool:
    if text[:1] == "0" and text[1:2].isdecimal():  # 00501 is a postcode
        return False
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
