"""Who takes part in a trial, and what they hold: read from a column in one pass, in a stream.

Where each row is a device of its own, a histogram is all that a trial needs. Where several rows belong to one device,
`Devices` has them by device, because a device's reports share its permanent responses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

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

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


class TooManyValuesError(ParameterError):
    """A column of more distinct values than are counted."""

    def __init__(self, message: str, seen: Sequence[str], decimal: str | None) -> None:
        self.seen, self.decimal = tuple(seen), decimal
        super().__init__(message)


@dataclass(frozen=True, eq=False)
class Population:
    """Who takes part, and what they hold: the truth that no collector would see."""

    labels: tuple[str, ...]  # the values there can be: the domain
    counts: I64  # how many rows hold each, shape (d,)
    missing: int = 0  # rows without a value; they send nothing
    devices: Devices | None = None  # whose rows they are, where several rows belong to one device
    edges: tuple[float, ...] = ()  # the bins' edges, where the labels are bins of numbers
    notes: tuple[str, ...] = ()  # what a reader must know of how they were read
    decimal: str | None = None  # the mark before the fraction of a column of numbers, where it is not as usual
    in_order: bool = False  # whether the labels have an order of their own, as dates do

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def num_devices(self) -> int:
        return len(self) if self.devices is None else len(self.devices)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Each value's true share of the rows that have one."""
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
                raise too_many(path, column, seen.labels, seen.decimal)
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
        labels, counts, missing, notes=(note, *found.notes), decimal=found.decimal, in_order=found.are_dates
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


def too_many(path: str, column: str, seen: Sequence[str], decimal: str | None = None) -> TooManyValuesError:
    """Return the error that says what to do about a column of too many values."""
    return TooManyValuesError(
        f"{path}: the column {column!r} has more than {MOST_VALUES:,} distinct values. For numbers give --bins MIN MAX "
        "COUNT; for text give --candidates FILE with those that you would look for (all others then count as one), or "
        "look for them by hashing: `overstory encode` with a column of values, `map` and `decode` with the candidates, "
        "or `overstory discover` without any",
        seen,
        decimal,
    )


def empty(path: str, column: str, missing: int) -> ParameterError:
    """Return the error for a column without values."""
    what = f"{missing:,} rows, all without a value" if missing else "no rows"
    return ParameterError(f"{path}: the column {column!r} holds nothing to collect: {what}")


MOST_DEVICES: Final = 5_000_000
MOST_REPORTS: Final = 10_000


@dataclass(frozen=True, eq=False)
class Devices:
    """The rows of devices that report several times."""

    # Every row's value as an index into the labels: all first reports, then all second ones, and so on; each in the
    # same order of the devices, those with the most rows first.
    symbols: I32
    reporting: NDArray[np.int64]  # how many devices send a first report, a second, ...: not rising

    def __len__(self) -> int:
        return int(self.reporting[0])

    @property
    def reports_per_device(self) -> float:
        """Mean over the reports of how many their device sends: the sum of squares over the sum."""
        # A device with r reports adds 2j - 1 for each j = 1 .. r, and 1 + 3 + ... + (2r - 1) = r^2.
        odd = 2 * np.arange(1, len(self.reporting) + 1) - 1
        return float((odd * self.reporting).sum() / self.reporting.sum())

    def rounds(self) -> Iterator[I32]:
        """Yield what the devices that send a j-th report hold in it, j = 1, 2, ...: each a prefix of the devices."""
        start = 0
        for count in self.reporting.tolist():
            yield self.symbols[start : start + count]
            start += count


def arranged(devices: NDArray[np.integer], symbols: NDArray[np.integer]) -> Devices:
    """Return the rows in the order of `Devices`, from each row's device, 0 .. D - 1, none missing, and its value."""
    rows_each = np.bincount(devices)
    place = np.empty(len(rows_each), np.int64)
    place[np.argsort(-rows_each, kind="stable")] = np.arange(len(rows_each))
    together = np.argsort(devices, kind="stable")
    first = np.cumsum(rows_each) - rows_each
    turn = np.empty(len(devices), np.int64)
    turn[together] = np.arange(len(devices)) - np.repeat(first, rows_each)
    order = np.lexsort((place[devices], turn))
    return Devices(symbols[order].astype(np.int32), np.bincount(turn))


def count_devices(path: str, column: str, device_column: str, **how: Any) -> Population:
    """Read the rows of every device; see `count_values`. Memory is 8 bytes a row, and a dictionary of the devices."""
    values: dict[str, int] = {}
    owners: dict[str, int] = {}
    held, device_of, missing = [], [], 0
    for symbols, devices in blocks(path, [column, device_column], **how):
        numbers = symbols.numbered(values)
        there = numbers >= 0
        missing += symbols.missing
        named: dict[str, int] = {}
        rows = devices.numbered(named)[there]
        if nameless := np.count_nonzero(rows < 0):
            raise ParameterError(f"{path}: {nameless:,} rows have a value, but no device in {device_column!r}")
        held.append(numbers[there])
        device_of.append(_numbered(rows, list(named), owners))
        if len(values) > MOST_VALUES:
            raise too_many(path, column, tuple(values))
        if len(owners) > MOST_DEVICES:
            raise ParameterError(
                f"{path}: more than {MOST_DEVICES:,} devices in {device_column!r}: give a part of them"
            )
    if not owners:
        raise empty(path, column, missing)
    symbols = np.concatenate(held)
    rows = dict(zip(values, np.bincount(symbols, minlength=len(values)).tolist(), strict=True))
    (found,) = recognize_all({column: rows}, how.get("form", ANY_FORM))
    return _people(symbols, np.concatenate(device_of), found, missing, path)


def _numbered(rows: I32, names: list[str], owners: dict[str, int]) -> I32:
    """Return the rows' devices by their numbers in `owners`, to which those that have a row are added as they come."""
    there, first = np.unique(rows, return_index=True)
    numbers = np.full(len(names), -1, np.int32)
    for device in there[np.argsort(first)].tolist():
        numbers[device] = owners.setdefault(names[device], len(owners))
    return numbers[rows]


def _people(held: I32, device_of: I32, found: Recognized, missing: int, path: str) -> Population:
    most = int(np.bincount(device_of).max())
    if most > MOST_REPORTS:
        raise ParameterError(f"{path}: one device has {most:,} rows, of which {MOST_REPORTS:,} are simulated at most")
    labels = tuple(sorted(set(found.labels)))
    rank = {label: place for place, label in enumerate(labels)}
    symbols = np.array([rank[label] for label in found.labels], np.int32)[held]
    if len(labels) == 1:
        labels = (*labels, ANOTHER)
    counts = np.bincount(symbols, minlength=len(labels)).astype(np.int64)
    notes = READ_OFF, *found.notes
    return Population(labels, counts, missing, arranged(device_of, symbols), notes=notes, in_order=found.are_dates)


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
    return Population(bins.labels, counts, missing, edges=bins.edges, notes=tuple(notes))


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
            f"numbers from {low:g} to {high:g} lie too far apart, or too close together, to choose bins: give --bins "
            "MIN MAX COUNT"
        )
    power = math.floor(math.log10(least))
    step = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**power >= least * (1 - 1e-9))
    first, last = math.floor(low / (step * 10.0**power)), math.ceil(high / (step * 10.0**power))
    # The nearest floats, so that limits are what they are written as.
    return Bins(float(f"{first * step}e{power}"), float(f"{last * step}e{power}"), max(last - first, 2))


MANY_NUMBERS: Final = 50  # more distinct values than that, all of them numbers, are taken as numbers: bins

MOST_PEOPLE: Final = 10**10  # nobody needs more people than there are


@dataclass(frozen=True)
class Column:
    """Which column of which file, and how it is to be read."""

    path: str
    name: str
    bins: tuple[float, float, int] | None = None  # minimum, maximum, count, for a column of numbers
    candidates: str | None = None  # a file of the values to look for, one a line
    device: str | None = None  # the column that says whose row it is
    people: int | None = None  # devices, drawn from the rows with replacement; unless given, each row is one
    form: Form = ANY_FORM  # how a CSV file is written, as far as the user says

    def __post_init__(self) -> None:
        if sum(option is not None for option in (self.bins, self.candidates, self.device)) > 1:
            raise ParameterError("give one of --bins, --candidates and --device-column")
        if self.people is not None and self.device is not None:
            raise ParameterError("--people draws rows one by one: give it or --device-column, not both")
        if self.people is not None and not 1 <= self.people <= MOST_PEOPLE:
            raise ParameterError(f"--people {self.people}: give a whole number from 1 to {MOST_PEOPLE:,}")


def read_population(column: Column, seed: int = 0, advance: Advance | None = None) -> Population:
    """Read who takes part, and what they hold; a seed decides what is sampled or drawn."""
    rng = np.random.default_rng([seed, 0])
    population = _counted(column, rng, advance)
    if column.people is None:
        return population
    drawn = rng.multinomial(column.people, population.shares)
    note = f"{column.people:,} people were drawn from your {len(population):,} rows, with replacement"
    return replace(population, counts=drawn, notes=(*population.notes, note))


def _counted(column: Column, rng: np.random.Generator, advance: Advance | None) -> Population:
    path, name = column.path, column.name
    how: dict[str, Any] = {"form": column.form, "advance": advance}
    if column.device is not None:
        return count_devices(path, name, column.device, **how)
    if column.bins is not None:
        how["form"], notes = number_form(path, name, column.form)
        return _noted(count_bins(path, name, Bins(*column.bins), **how), notes)
    if column.candidates is not None:
        return count_values(path, name, candidates=read_candidates(column.candidates), **how)
    try:
        population = count_values(path, name, **how)
    except TooManyValuesError as error:
        if not _numeric(error.seen):
            raise
        decimal = error.decimal
    else:
        decimal = population.decimal
        if not _numeric(population.labels):
            return _suspected(population)
        if len(_numeric(population.labels)) <= MANY_NUMBERS:
            return _without_marks(population)
    form = replace(column.form, decimal=decimal)
    bins = chosen_bins(path, name, rng, form=form)
    return _noted(count_bins(path, name, bins, chosen=True, form=form), read_as_numbers(name, decimal))


def _noted(population: Population, notes: Sequence[str]) -> Population:
    return replace(population, notes=(*population.notes, *notes))


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
    return _noted(population, notes)


def all_numbers(values: Sequence[str]) -> bool:
    """Whether every one of the texts is a number, and none a postcode, as 00501 is."""
    return all(is_number(text) and not (text[:1] == "0" and text[1:2].isdecimal()) for text in values)
