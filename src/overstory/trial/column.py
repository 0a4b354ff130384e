"""What to make of a column: values as they stand, or bins of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from overstory.files.candidates import read_candidates
from overstory.files.columns.layout import Form
from overstory.files.columns.reader import ANY_FORM, NO_NUMBERS
from overstory.files.io import Advance
from overstory.protocol.domains import Bins
from overstory.protocol.errors import ParameterError
from overstory.trial.bins import chosen_bins, count_bins
from overstory.trial.population import ANOTHER, MOST_VALUES, Population, TooManyValuesError, count_devices, count_values

MANY_NUMBERS: Final = 50
"""More distinct values than that, all of them numbers, are taken as numbers: bins."""

MOST_PEOPLE: Final = 10**10
"""More people than there are are not drawn."""


@dataclass(frozen=True)
class Column:
    """Which column, and how it is to be read.

    Attributes
    ----------
    path, name
        The file and its column.
    people
        So many devices are drawn from the rows, with replacement; unless given, each row is one.
    """

    path: str
    name: str
    bins: tuple[float, float, int] | None = None  # minimum, maximum, count, for a column of numbers
    candidates: str | None = None  # A file of the values to look for, one a line
    device: str | None = None  # the column that says whose row it is
    most: int = MOST_VALUES  # most distinct values
    people: int | None = None
    form: Form = ANY_FORM  # how a CSV file is written, as far as it is known

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.bins, self.candidates, self.device)) > 1:
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
    """Return the numbers of a column of numbers: what else stands there is a mark for none. Else nothing."""
    there = [label for label in labels if label not in NO_NUMBERS and label != ANOTHER]
    return there if there and all_numbers(there) else []


def _without_marks(population: Population) -> Population:
    """Take `?`, `NA`, NaN and infinities out of a column of a few different numbers: they are missing."""
    numbers = {label for label in _numeric(population.labels) if math.isfinite(float(label))}
    kept = [i for i, label in enumerate(population.labels) if label in numbers]
    left = [i for i, label in enumerate(population.labels) if label not in numbers and label != ANOTHER]
    if not left or not kept:
        return population
    labels, counts = tuple(population.labels[i] for i in kept), population.counts[kept]
    if len(kept) == 1:
        labels, counts = (*labels, ANOTHER), np.append(counts, 0)
    return replace(
        population, labels=labels, counts=counts, missing=population.missing + int(population.counts[left].sum())
    )


def _suspected(population: Population) -> Population:
    """Note which of the values look as if they stood for none, or for several."""
    marks = [label for label in population.labels if label in NO_NUMBERS]
    several = [label for label in population.labels if _is_several(label, population.labels)]
    notes = [f"{mark!r} was counted as a value: if it stands for none, give --missing '{mark}'" for mark in marks]
    if several:
        notes.append(f"{several[0]!r} and its like were counted as values of their own: several choices in one answer")
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
