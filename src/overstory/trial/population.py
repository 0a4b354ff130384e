"""A column's histogram, read in one pass: the values, and how many rows have each.

Where each row is a device of its own, the histogram is all that a trial needs. Where several rows belong to one device,
`Devices` has them by device, because a device's reports share its permanent responses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.files.columns import ANY_FORM, BLOCK, Form, blocks
from overstory.files.io import Advance
from overstory.protocol.errors import ParameterError

MOST_VALUES: Final = 10_000
NOT_LISTED: Final = "(not listed)"
ANOTHER: Final = "(another value)"
READ_OFF: Final = (
    "the list of values was read off your file; a real collection must know it beforehand, or discover it "
    "(`overstory discover`)"
)

I64 = NDArray[np.int64]


class TooManyValuesError(ParameterError):
    """A column of more distinct values than are counted."""

    def __init__(self, message: str, seen: Sequence[str]) -> None:
        self.seen = tuple(seen)
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

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def num_devices(self) -> int:
        return len(self) if self.devices is None else len(self.devices)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Each value's true share of the rows that have one."""
        return np.asarray(self.counts / max(len(self), 1))


def count_values(
    path: str,
    column: str,
    *,
    most: int = MOST_VALUES,
    candidates: Sequence[str] | None = None,
    form: Form = ANY_FORM,
    advance: Advance | None = None,
    block: int = BLOCK,
) -> Population:
    """Count the rows of every distinct value, as text; the values not among `candidates` as one, ``(not listed)``."""
    listed = None if candidates is None else dict.fromkeys([*candidates, NOT_LISTED], 0)
    read = blocks(path, [column], form=form, advance=advance, block=block)
    rows_of, missing = _histogram(read, path, column, most, listed)
    if not sum(rows_of.values()):
        raise empty(path, column, missing)
    # A list of candidates keeps its order; values that were read off are sorted, so the rows' order does not show.
    labels = tuple(rows_of) if candidates is not None else tuple(sorted(rows_of))
    counts = np.array([rows_of[label] for label in labels], dtype=np.int64)
    if len(labels) == 1:
        labels, counts = (*labels, ANOTHER), np.append(counts, 0)
    note = READ_OFF if candidates is None else f"values that are not on your list count as one: {NOT_LISTED}"
    return Population(labels, counts, missing, notes=(note,))


def _histogram(
    read: Iterable[tuple[Any, ...]], path: str, column: str, most: int, listed: Mapping[str, int] | None
) -> tuple[dict[str, int], int]:
    rows_of, missing = dict(listed or {}), 0
    for (values,) in read:
        missing += values.missing
        for text, count in values.counted().items():
            name = text if listed is None or text in listed else NOT_LISTED
            rows_of[name] = rows_of.get(name, 0) + count
        if listed is None and len(rows_of) > most:
            raise too_many(path, column, most, rows_of)
    return rows_of, missing


def too_many(path: str, column: str, most: int, seen: Any) -> TooManyValuesError:
    """Return the error that says what to do about a column of too many values."""
    return TooManyValuesError(
        f"{path}: the column {column!r} has more than {most:,} distinct values. For numbers give --bins MIN MAX COUNT; "
        "for text give --candidates FILE with those that you would look for (all others then count as one), or look "
        "for them by hashing: `overstory encode` with a column of values, `map` and `decode` with the candidates, or "
        "`overstory discover` without any; a higher --most-values costs time and memory",
        seen,
    )


def empty(path: str, column: str, missing: int) -> ParameterError:
    """Return the error for a column without values."""
    what = f"{missing:,} rows, all without a value" if missing else "no rows"
    return ParameterError(f"{path}: the column {column!r} holds nothing to collect: {what}")


MOST_DEVICES: Final = 5_000_000
MOST_REPORTS: Final = 10_000

I32 = NDArray[np.int32]


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
    """Return the rows in the order of `Devices`, from each row's device, 0 .. D - 1, none missing, and its value.

    A device's rows stay in their order.
    """
    rows_each = np.bincount(devices)
    place = np.empty(len(rows_each), np.int64)
    place[np.argsort(-rows_each, kind="stable")] = np.arange(len(rows_each))
    together = np.argsort(devices, kind="stable")
    first = np.cumsum(rows_each) - rows_each
    turn = np.empty(len(devices), np.int64)
    turn[together] = np.arange(len(devices)) - np.repeat(first, rows_each)
    order = np.lexsort((place[devices], turn))
    return Devices(symbols[order].astype(np.int32), np.bincount(turn))


def count_devices(
    path: str,
    column: str,
    device_column: str,
    *,
    most: int = MOST_VALUES,
    form: Form = ANY_FORM,
    advance: Advance | None = None,
    block: int = BLOCK,
) -> Population:
    """Read the rows of every device; see `count_values`. Memory is 8 bytes a row, and a dictionary of the devices."""
    values: dict[str, int] = {}
    owners: dict[str, int] = {}
    held, device_of, missing = [], [], 0
    for symbols, devices in blocks(path, [column, device_column], form=form, advance=advance, block=block):
        numbers = symbols.numbered(values)
        there = numbers >= 0
        missing += symbols.missing
        named: dict[str, int] = {}
        rows = devices.numbered(named)[there]
        if nameless := np.count_nonzero(rows < 0):
            raise ParameterError(f"{path}: {nameless:,} rows have a value, but no device in {device_column!r}")
        held.append(numbers[there])
        device_of.append(_numbered(rows, list(named), owners))
        if len(values) > most:
            raise too_many(path, column, most, values)
        if len(owners) > MOST_DEVICES:
            raise ParameterError(
                f"{path}: more than {MOST_DEVICES:,} devices in {device_column!r}: give a part of them"
            )
    if not owners:
        raise empty(path, column, missing)
    return _people(np.concatenate(held), np.concatenate(device_of), values, missing, path)


def _numbered(rows: I32, names: list[str], owners: dict[str, int]) -> I32:
    """Return the rows' devices by their numbers in `owners`, to which those that have a row are added as they come."""
    there, first = np.unique(rows, return_index=True)
    numbers = np.full(len(names), -1, np.int32)
    for device in there[np.argsort(first)].tolist():
        numbers[device] = owners.setdefault(names[device], len(owners))
    return numbers[rows]


def _people(held: I32, device_of: I32, values: dict[str, int], missing: int, path: str) -> Population:
    most = int(np.bincount(device_of).max())
    if most > MOST_REPORTS:
        raise ParameterError(f"{path}: one device has {most:,} rows, of which {MOST_REPORTS:,} are simulated at most")
    labels = tuple(sorted(values))
    rank = np.empty(len(values), np.int32)
    rank[[values[label] for label in labels]] = np.arange(len(labels))
    symbols = rank[held]
    if len(labels) == 1:
        labels = (*labels, ANOTHER)
    counts = np.bincount(symbols, minlength=len(labels)).astype(np.int64)
    return Population(labels, counts, missing, arranged(device_of, symbols), notes=(READ_OFF,))
